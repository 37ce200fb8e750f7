/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/ops/pin.h"

#include "fuse/file/read.h"
#include "fuse/ops/fs.h"
#include "fuse/session/loop.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct pin_msg) == 320, "the same for 32 and 64 bits");

static bool name_ok(const char name[PIN_NAME])
{
    return memchr(name, '\0', PIN_NAME) && !strchr(name, '/') && strcmp(name, ".") != 0
        && strcmp(name, "..") != 0;
}

int pin_check(const struct pin_msg *m, bool dir, struct err *e)
{
    if (m->op < PIN_ASK || m->op > PIN_CLEAR_ALL)
        return err_sys(e, ENOTTY, "an operation on a cached file");
    bool moves = m->op == PIN_LOAD || m->op == PIN_SET;
    if (m->flags || m->unused || m->off > INT64_MAX || m->len > INT64_MAX
        || (moves && m->len > PIN_PIECE) || !name_ok(m->name))
        return err_sys(e, EINVAL, "an operation on a cached file");
    if (m->op == PIN_CLEAR_ALL ? m->name[0] != '\0' : !dir && m->name[0])
        return err_sys(e, EINVAL, "an operation on a cached file: a name");
    if (m->op != PIN_CLEAR_ALL && dir && !m->name[0])
        return err_sys(e, EISDIR, "an operation on a cached file");
    return 0;
}

static int pin_file(struct fs *fs, const struct inode *n, struct pin_msg *m, struct err *e)
{
    struct file *f = files_get(fs->files, n->ino, e);
    if (!f)
        return -1;
    struct file_cache_state share = {0};
    uint64_t freed = 0;
    int rc = m->op == PIN_CLEAR ? file_cache_state(f, m->off, m->len, &share, e) : 0;
    switch ((enum pin_op)m->op) {
    case PIN_LOAD:
        rc = file_fill(f, m->off, m->len, e);
        break;
    case PIN_SET:
        rc = file_pin(f, m->off, m->len, e);
        break;
    case PIN_CLEAR:
        rc = files_unpin(fs->files, n->ino, e);
        break;
    case PIN_FREE:
        rc = file_drop(f, &freed, e);
        break;
    case PIN_ASK:
    case PIN_CLEAR_ALL:
        break;
    }
    if (rc == 0 && m->op != PIN_CLEAR)
        rc = file_cache_state(f, m->off, m->len, &share, e);
    files_put(f);
    m->size = n->size;
    m->cached = m->op == PIN_FREE ? freed : share.cached;
    m->state = (share.pinned ? PIN_PINNED : 0) | (share.staged ? PIN_STAGED : 0)
        | (n->flags & INODE_DIRTY ? PIN_UNSAVED : 0);
    return rc;
}

int pin_do(struct fs *fs, uint64_t *ino, bool dir, struct pin_msg *m, struct err *e)
{
    struct cache *cache = files_config(fs->files)->cache;
    struct cache_stats c;
    struct inode n;
    if (pin_check(m, dir, e))
        return -1;
    loop_will_block();
    m->size = m->cached = m->state = 0;
    if (m->op == PIN_CLEAR_ALL) {
        m->size = cache_unpin_all(cache);
    } else {
        if (dir                                    ? tree_lookup(fs->tree, *ino, m->name, &n, e)
                : inodes_get(fs->inodes, *ino, &n) ? err_sys(e, ESTALE, "inode")
                                                   : 0)
            return -1;
        /* whoever else fetches the file marks that, not the directory */
        progress_of(*ino, n.ino);
        *ino = n.ino;
        if (pin_file(fs, &n, m, e))
            return -1;
    }
    cache_stats(cache, &c);
    m->pinned = c.pinned_bytes;
    m->most = c.pinned_most;
    return 0;
}
