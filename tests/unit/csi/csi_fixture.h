/* SPDX-License-Identifier: Apache-2.0 */
/* csi_fixture — what the tests of the handoff share: a volume, a staging directory, a plugin,
 * and real client processes (tests/fake/handoff_client.c) that serve one file, whose bytes
 * check_file() knows. */
#ifndef MILLRACE_TESTS_UNIT_CSI_CSI_FIXTURE_H
#define MILLRACE_TESTS_UNIT_CSI_CSI_FIXTURE_H

#include "tests/lib/unit.h"

#include "csi/handoff.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "tests/lib/eventually.h"
#include "tests/unit/csi/csi_env.h"

#include <stdbool.h>
#include <sys/types.h>

#define FILE_BYTES (1u << 20)

struct csi_fixture {
    struct csi_env *env;
    char *state, *dir, *sock, *cache, *staging, *file, *trace;
    struct handoff *handoff;
    struct handoff_mount *mount;
    struct volume_context context;
};

/* a plugin and its one volume; abandon_ns: 0 for never */
void csi_fixture_open(struct csi_fixture *w, int64_t abandon_ns);
void csi_fixture_close(struct csi_fixture *w);
/* *state: struct csi_fixture *, in a csi_env */
/* The socket of one that connects as a client does and says hello; the caller closes it. */
int csi_fixture_hello(struct csi_fixture *w);

int csi_fixture_setup(void **state);
int csi_fixture_teardown(void **state);
void end_client(pid_t pid);
/* handoff_stage with a deadline in ms */
int stage(struct csi_fixture *w, int64_t ms, struct err *e);
/* published, too: for readers */
void must_stage(struct csi_fixture *w);
void publish(struct csi_fixture *w, bool published);
void must_unstage(struct csi_fixture *w);
bool mounted(struct csi_fixture *w);
/* the whole file, compared; the first errno */
int check_fd(int fd);
int check_file(struct csi_fixture *w);
void *slow_reader(void *fixture); /* the same, as a thread; returns the errno */
struct handoff_state state_of(struct csi_fixture *w);
/* the lines "pid what value" of the clients: how many have this `what`, and the last one's value */
int traced(struct csi_fixture *w, const char *what, long long *value);
/* starts one; it waits behind the one that serves */
pid_t client(struct csi_fixture *w);

#endif
