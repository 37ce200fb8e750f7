/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as the kernel sends them, and what it is answered: without a mount, through libfuse's
 * session, whose answers come to a buffer. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_OPS_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_OPS_FIXTURE_H

#define FUSE_USE_VERSION 314
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/ops/fs.h"

#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/stat.h>

struct reply {
    struct fuse_out_header h;
    char body[1 << 16];
    size_t len; /* of body */
    unsigned count;
    bool interrupted; /* no answer gets through */
};
extern struct reply reply;

struct kernel {
    struct fx *x;
    struct fs fs;
    struct fuse_session *se;
    int fd;
};

struct kernel *kernel_new(bool sealed);
void kernel_free(struct kernel *k);

/* Sends a request of up to three parts; its error, positive. Each is answered once. */
int ask(struct kernel *k, uint32_t op, uint64_t node, const void *arg, size_t len, const char *name,
    const void *more, size_t more_len);
#define ASK(k, op, node, arg)       ask(k, op, node, &(arg), sizeof(arg), NULL, NULL, 0)
#define ASK_NAME(k, op, node, name) ask(k, op, node, "", 0, name, NULL, 0)
#define ANSWER(type)                (*(const type *)memcpy(&(type){0}, reply.body, sizeof(type)))

uint64_t look_up(struct kernel *k, uint64_t dir, const char *name);
uint64_t root_of(struct kernel *k, const char *mount);

#endif
