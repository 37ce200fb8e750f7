/* SPDX-License-Identifier: Apache-2.0 */
/* Staging files: what they are called, and what is told when their disk refuses. */
#include "fuse/file/stage.h"

#include "fuse/file/stage_name.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdatomic.h>

static _Atomic bool disk_full; /* the latest write failed for lack of room */

bool stage_disk_full(void) { return atomic_load(&disk_full); }

static bool is_full(int errnum) { return errnum == ENOSPC || errnum == EDQUOT; }

int stage_tell(struct err *e, int errnum, const char *what)
{
    return is_full(errnum)
        ? err_sys(e, errnum,
            "%s: the disk of the cache directory is full; make room on the node or lower spec.cache.tiers[].quota",
            what)
        : err_sys(e, errnum, "%s", what);
}

int stage_refuse(const struct err *e)
{
    if (is_full(err_errno(e)))
        atomic_store(&disk_full, true);
    return -1;
}

int stage_error(struct err *e, int errnum, const char *what)
{
    stage_tell(e, errnum, what);
    return stage_refuse(e);
}

void stage_has_room(void) { atomic_store(&disk_full, false); }

char *stage_path(const struct file *f, const char *suffix)
{
    const struct stage_name n = {inodes_epoch(file_conf(f)->inodes), f->ino, f->generation};
    char name[STAGE_NAME_MAX];
    stage_name_format(&n, name);
    return xasprintf("%s/%s%s", file_conf(f)->stage_dir, name, suffix);
}
