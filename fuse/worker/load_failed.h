/* SPDX-License-Identifier: Apache-2.0 */
/* load_failed — the first files that a pass could not load, for people: bounded, so that it fits
 * into a termination message (4 KiB) with everything else. */
#ifndef MILLRACE_FUSE_WORKER_LOAD_FAILED_H
#define MILLRACE_FUSE_WORKER_LOAD_FAILED_H

#include "lib/base/buf.h"

#include <stddef.h>

#define LOAD_FAILED_MAX 20

struct load_failed_files {
    struct {
        char *path, *message; /* owned */
    } files[LOAD_FAILED_MAX];
    size_t n;
};

/* root: where the mount of the path is in the dataset's tree. Nothing is added to a full list. */
void load_failed_add(
    struct load_failed_files *f, const char *root, const char *path, const char *message);
void load_failed_clear(struct load_failed_files *f);
/* ,"failures":[{"path":…,"message":…},…]: as many as have room */
void load_failed_report(const struct load_failed_files *f, struct buf *out);

#endif
