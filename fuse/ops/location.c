/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/ops/location.h"

#include "fuse/file/cached.h"
#include "fuse/file/read.h"
#include "fuse/ops/fs.h"
#include "fuse/peers/peers.h"
#include "fuse/session/loop.h"
#include "lib/base/mem.h"
#include "lib/conf/report.h"

#include <errno.h>
#include <sys/stat.h>

static void add_share(const struct peers_share *s, bool first, struct buf *out)
{
    const struct report_member members[] = {
        {REPORT_LOCATION_WORKER, REPORT_TEXT, 0, s->worker},
        {REPORT_LOCATION_OWNED, REPORT_COUNT, s->owns, NULL},
        *s->why ? (struct report_member){REPORT_LOCATION_ERROR, REPORT_TEXT, 0, s->why}
                : (struct report_member){REPORT_LOCATION_CACHED, REPORT_COUNT, s->has, NULL},
    };
    buf_adds(out, first ? "{" : ",{");
    report_add(out, members, ARRAY_LEN(members));
    buf_addc(out, '}');
}

/* What is not saved yet is in no store, so no worker has it. */
static void add_owners(struct fs *fs, const struct cache_key *key, bool saved, struct buf *out)
{
    struct peers_share *shares = NULL;
    size_t n = 0;
    if (fs->peers && saved) {
        n = peers_shares(fs->peers, key, &shares);
        peers_shares_ask(fs->peers, key, shares, n);
    }
    buf_addf(out, ",\"%s\":[", REPORT_LOCATION_WORKERS);
    for (size_t i = 0; i < n; i++)
        add_share(&shares[i], i == 0, out);
    buf_addc(out, ']');
    peers_shares_free(shares, n);
}

static int cached_here(struct fs *fs, const struct inode *n, uint64_t *bytes, struct err *e)
{
    struct file_cache_state share = {0};
    struct file *f = files_get(fs->files, n->ino, e);
    int rc = f ? file_cache_state(f, 0, INT64_MAX, &share, e) : -1;
    if (f)
        files_put(f);
    *bytes = share.staged ? n->size : MIN(share.cached, n->size);
    return rc;
}

/* The owner of each chunk is worked out for the asker: a file with holes may be of any size, and
 * hold up all who wait for a thread. */
#define LOCATION_MOST (UINT64_C(1) << 43)

int location_json(struct fs *fs, uint64_t ino, struct buf *out, struct err *e)
{
    char path[INODE_PATH_MAX];
    struct inode n;
    struct cache_key key;
    uint64_t cached;
    if (inodes_get(fs->inodes, ino, &n))
        return err_sys(e, ESTALE, "inode");
    if (S_ISDIR(n.mode))
        return err_sys(e, EISDIR, "the location of a directory");
    if (n.size > LOCATION_MOST)
        return err_sys(e, EFBIG, "the location of a file of more than 8 TiB");
    loop_will_block();
    if (cached_here(fs, &n, &cached, e) || file_key(fs->tree, &n, path, &key, e))
        return -1;
    const struct report_member members[] = {
        {REPORT_LOCATION_SIZE, REPORT_COUNT, n.size, NULL},
        {REPORT_LOCATION_CACHED, REPORT_COUNT, cached, NULL},
        {REPORT_LOCATION_PERSISTED, REPORT_BOOL, !(n.flags & INODE_DIRTY), NULL},
        {REPORT_LOCATION_STORE, REPORT_TEXT, 0, fs->conf->mounts[key.mount].mount_point},
        {REPORT_LOCATION_PATH, REPORT_TEXT, 0, path},
    };
    buf_addc(out, '{');
    report_add(out, members, ARRAY_LEN(members));
    add_owners(fs, &key, !(n.flags & INODE_DIRTY), out);
    buf_adds(out, "}\n");
    return 0;
}
