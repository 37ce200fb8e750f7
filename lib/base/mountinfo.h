/* SPDX-License-Identifier: Apache-2.0 */
/* mountinfo — /proc/PID/mountinfo as a list. The parser is pure. */
#ifndef MILLRACE_LIB_BASE_MOUNTINFO_H
#define MILLRACE_LIB_BASE_MOUNTINFO_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mount_entry {
    unsigned id, parent, major, minor;
    char *root, *point; /* unescaped */
    char *type, *source;
    bool read_only; /* of this mount, not of the file system */
};

struct mountinfo {
    /* in the kernel's order: a later one at the same point lies on top */
    struct mount_entry *entries;
    size_t n;
};

/* INVALID with the line; *out is empty then */
int mountinfo_parse(const char *text, struct mountinfo *out, struct err *e);
int mountinfo_read(struct mountinfo *out, struct err *e);
/* as that process sees them */
int mountinfo_read_of(pid_t pid, struct mountinfo *out, struct err *e);
/* the topmost; NULL if none */
const struct mount_entry *mountinfo_find(const struct mountinfo *m, const char *point);
/* The mount that a path is on; it is absolute and has no links, "." or ".." in it. NULL if none. */
const struct mount_entry *mountinfo_above(const struct mountinfo *m, const char *path);
void mountinfo_free(struct mountinfo *m);
#define cleanup_mountinfo __attribute__((cleanup(mountinfo_free)))

#endif
