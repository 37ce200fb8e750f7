/* SPDX-License-Identifier: Apache-2.0 */
/* fs — the mounted filesystem: what every FUSE request is answered from. Known to ops/ and process/
 * only. */
#ifndef MILLRACE_FUSE_OPS_FS_H
#define MILLRACE_FUSE_OPS_FS_H

#include "fuse/file/file.h"
#include "fuse/index/index.h"
#include "fuse/ops/readdirplus_auto.h"
#include "fuse/prefetch/hint.h"
#include "fuse/session/session.h"
#include "fuse/tree/tree.h"

#include <sys/stat.h>

struct stalls;
struct status;
struct peers;

struct fs {
    const struct conf *conf; /* all borrowed */
    struct inodes *inodes;
    struct tree *tree;
    struct files *files;
    struct session *session;
    struct status *status;
    double timeout; /* seconds the kernel may believe names and attributes */
    double absence; /* … and that a name is absent */
    /* the kernel opens files and directories without asking, see profile.h */
    bool sealed;
    struct hints *hints;
    struct stalls *stalls;
    struct peers *peers; /* NULL: there are no cache workers to ask (tests) */
    struct readdirplus_auto readdirplus_auto;
};

struct fuse_lowlevel_ops;
extern const struct fuse_lowlevel_ops fs_ops;

#endif
