/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/tree/tree.h"

#include "fuse/tree/impl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tree *tree_new(const struct tree_conf *conf, struct err *e)
{
    struct tree *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(e, ERR_EXHAUSTED, "no memory");
        return NULL;
    }
    t->c = *conf;
    pthread_mutex_init(&t->mu, NULL);
    if (tree_add_mounts(t, e)) {
        tree_free(t);
        return NULL;
    }
    return t;
}

void tree_free(struct tree *t)
{
    if (!t)
        return;
    tree_free_listings(t);
    pthread_mutex_destroy(&t->mu);
    free(t);
}

/* What the kernel may have read of a directory is not right any more. */
static void listing_changed(struct tree *t, uint64_t dir)
{
    struct inode d;
    if (inodes_get(t->c.inodes, dir, &d) == 0 && (d.flags & INODE_LISTED))
        t->c.changed(t->c.user, dir, "");
}

/* What the store said of a name is of before a change that was made here: what is known now is
 * right, whoever asked. */
static int lookup_outdated(
    struct tree *t, uint64_t dir, const char *name, struct inode *out, struct err *e)
{
    return inodes_find(t->c.inodes, dir, name, out) ? 0 : err_sys(e, ENOENT, "%s", name);
}

/* Asks the store for one name. 1: its path changed meanwhile, so that nothing is known. */
static int lookup_once(struct tree *t, uint64_t dir, const char *name, bool known,
    const struct inode *old, struct inode *out, struct err *e)
{
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    struct store_stat st = {0};
    uint64_t asked = inodes_asked(t->c.inodes);
    enum inodes_change change;
    if (tree_where_child(t, dir, name, &store, &mount, path, e))
        return -1;
    if (store_stat_path(store, path, &st, e) == 0) {
        if (inodes_put(t->c.inodes, dir, name, &st, asked, tree_now_s(), out, &change, e))
            return -1;
        if (change == INODES_ASK_AGAIN)
            return 1;
        if (change == INODES_OUTDATED || change == INODES_BUSY)
            return out->ino ? 0 : err_sys(e, ENOENT, "%s", name);
        if (change == INODES_REPLACED)
            t->c.changed(t->c.user, dir, name);
        if (change == INODES_NEW)
            listing_changed(t, dir);
        return 0;
    }
    if (e->cls == ERR_NOTFOUND) {
        change = inodes_evaluate(t->c.inodes, dir, name, asked);
        if (change == INODES_ASK_AGAIN)
            return 1;
        if (change != INODES_SAME || (known && !inodes_orphan(t->c.inodes, old->ino, asked)))
            return lookup_outdated(t, dir, name, out, e);
        if (known) {
            t->c.changed(t->c.user, dir, name);
            listing_changed(t, dir);
        }
        return err_sys(e, ENOENT, "%s", path);
    }
    if (tree_survives(t, mount, e) && known) {
        log_kv(LOG_WARN, "a file could not be looked at again: what was known is served", "error",
            e->msg, NULL);
        *out = *old;
        return 0;
    }
    return -1;
}

static int lookup_in_store(struct tree *t, uint64_t dir, const char *name, bool known,
    const struct inode *old, struct inode *out, struct err *e)
{
    int rc;
    while ((rc = lookup_once(t, dir, name, known, old, out, e)) > 0)
        clock_sleep_ns(NS_PER_MS); /* a directory's rename may be under way */
    return rc;
}

/* A file that may be a link. */
static int ask_type(struct tree *t, uint64_t dir, const char *name, struct inode *n, struct err *e)
{
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    enum inodes_change change;
    struct store_stat st = {.size = n->size, .mtime_ns = n->mtime_ns, .unasked = true};
    memcpy(st.version, n->version, sizeof st.version);
    uint64_t asked = inodes_asked(t->c.inodes);
    if (t->c.will_block)
        t->c.will_block();
    if (tree_where_child(t, dir, name, &store, &mount, path, e))
        return -1;
    if (store_ask(store, path, &st, e)) {
        tree_survives(t, mount, e);
        return -1;
    }
    if (inodes_put(t->c.inodes, dir, name, &st, asked, n->synced_s, n, &change, e))
        return -1;
    if (change == INODES_REPLACED)
        t->c.changed(t->c.user, dir, name);
    if (change == INODES_BUSY || change == INODES_ASK_AGAIN)
        clock_sleep_ns(NS_PER_MS); /* as in lookup_in_store() */
    return n->ino ? 0 : err_sys(e, ENOENT, "%s", name);
}

static int look_up(struct tree *t, uint64_t dir, const char *name, struct inode *out, struct err *e)
{
    struct inode d;
    if (strlen(name) > INODE_NAME_MAX)
        return err_sys(e, ENAMETOOLONG, "%.40s…", name);
    if (inodes_find(t->c.inodes, dir, name, out)
        && (tree_is_ours(out) || tree_is_fresh(t, out->mount, out->synced_s)))
        return 0;
    if (t->c.will_block)
        t->c.will_block();
    if (inodes_get(t->c.inodes, dir, &d) || (d.flags & INODE_UNLINKED))
        return err_sys(e, ESTALE, "directory of %s", name);
    if (!(d.flags & INODE_DIR))
        return err_sys(e, ENOTDIR, "directory of %s", name);
    if (!tree_is_complete(t, dir, &d)
        && (!(d.flags & INODE_LISTED) ? d.nchildren == 0 : d.nchildren <= TREE_PAGE_ENTRIES)
        && tree_list_page(t, dir, e) && e->cls != ERR_NOTFOUND)
        return -1;
    bool known = inodes_find(t->c.inodes, dir, name, out);
    if (known && (tree_is_ours(out) || tree_is_fresh(t, out->mount, out->synced_s)))
        return 0;
    if (!known && tree_is_complete(t, dir, &d)
        && (d.mount == INODE_NO_MOUNT || (d.flags & INODE_LOCAL)
            || tree_is_fresh_absence(t, d.mount, d.listed_s)))
        return err_sys(e, ENOENT, "%s", name);
    if (known && tree_store_is_down(t, out->mount))
        return 0;
    struct inode old = *out;
    int rc = !known && tree_store_is_down(t, d.mount)
        ? tree_fail_down(t, d.mount, name, e)
        : lookup_in_store(t, dir, name, known, &old, out, e);
    /* Without the store, a listing that is not too old tells what is absent. */
    if (rc && e->cls == ERR_RETRY && (d.flags & INODE_LISTED)
        && tree_is_fresh(t, d.mount, d.listed_s))
        return err_sys(e, ENOENT, "%s", name);
    return rc;
}

int tree_lookup(struct tree *t, uint64_t dir, const char *name, struct inode *out, struct err *e)
{
    struct inode old;
    if (look_up(t, dir, name, out, e))
        return -1;
    while ((out->flags & INODE_UNASKED) && !tree_is_ours(out)) {
        if (ask_type(t, dir, name, out, e) == 0)
            continue;
        if (e->cls != ERR_CONFLICT && e->cls != ERR_NOTFOUND)
            return -1;
        old = *out; /* it was replaced since it was looked at */
        if (lookup_in_store(t, dir, name, true, &old, out, e))
            return -1;
    }
    return 0;
}

int tree_refresh(struct tree *t, uint64_t ino, struct inode *out, struct err *e)
{
    char name[INODE_NAME_MAX + 1];
    uint64_t dir;
    if (inodes_get(t->c.inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (tree_is_ours(out) || (out->flags & INODE_UNLINKED)
        || tree_is_fresh(t, out->mount, out->synced_s) || inodes_name(t->c.inodes, ino, name, &dir))
        return 0;
    struct inode now;
    if (tree_lookup(t, dir, name, &now, e))
        return e->cls == ERR_NOTFOUND ? err_sys(e, ESTALE, "%s", name) : -1;
    if (now.ino != ino)
        return err_sys(e, ESTALE, "%s was changed in the store", name);
    *out = now;
    return 0;
}

int tree_revalidate(struct tree *t, uint64_t ino, struct inode *out, struct err *e)
{
    char name[INODE_NAME_MAX + 1];
    uint64_t dir;
    struct inode now;
    if (inodes_get(t->c.inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (tree_is_ours(out) || (out->flags & INODE_UNLINKED) || tree_store_is_down(t, out->mount)
        || inodes_name(t->c.inodes, ino, name, &dir))
        return 0;
    if (t->c.will_block)
        t->c.will_block();
    if (lookup_in_store(t, dir, name, true, out, &now, e))
        return e->cls == ERR_NOTFOUND ? err_sys(e, ESTALE, "%s", name) : -1;
    if (now.ino != ino)
        return err_sys(e, ESTALE, "%s was changed in the store", name);
    *out = now;
    return 0;
}

void tree_detach(struct tree *t, uint64_t ino)
{
    char name[INODE_NAME_MAX + 1];
    uint64_t dir;
    bool named = inodes_name(t->c.inodes, ino, name, &dir) == 0;
    inodes_set(t->c.inodes, ino, 0, NULL, 0, INODE_LOCAL | INODE_STAGED | INODE_DIRTY);
    inodes_orphan(t->c.inodes, ino, INODES_NOW);
    if (!named)
        return;
    inodes_unlist(t->c.inodes, dir); /* what else is there has to be asked for, too */
    t->c.changed(t->c.user, dir, name);
}

void tree_doubt(struct tree *t, uint64_t ino)
{
    char name[INODE_NAME_MAX + 1];
    uint64_t dir;
    inodes_set(t->c.inodes, ino, INODES_SYNCED, &(struct inode){.synced_s = 0}, 0, 0);
    if (inodes_name(t->c.inodes, ino, name, &dir) == 0)
        t->c.changed(t->c.user, dir, name);
}

int tree_sync_dir(struct tree *t, uint64_t dir, struct err *e)
{
    struct store *store;
    struct inode d;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (inodes_get(t->c.inodes, dir, &d) || (d.flags & INODE_UNLINKED)
        || !tree_writable(t, d.mount))
        return 0; /* nothing in it was changed here, or can be found any more */
    if (t->c.will_block)
        t->c.will_block();
    return tree_where(t, dir, &store, &mount, path, e) || store_sync_dir(store, path, e) ? -1 : 0;
}
