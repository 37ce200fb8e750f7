/* SPDX-License-Identifier: Apache-2.0 */
/* For how long what is known of names is believed: within the metadata sync interval, and as long
 * as a store that failed is left alone. */
#include "fuse/tree/impl.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#define ABSENCE_S 1 /* for so long an absent name is believed where files can be written */
#define DOWN_S    5 /* for so long a store that failed is not asked for what is known */
/* for so long the kernel believes what does not change */
#define IMMUTABLE_VALID_S 3600.0

uint32_t tree_now_s(void) { return (uint32_t)(clock_real_ns() / NS_PER_S); }

bool tree_is_recent(const struct tree *t, uint32_t when_s)
{
    return (int64_t)(tree_now_s() - when_s) * NS_PER_S < t->c.sync_ns;
}

static bool is_immutable(const struct tree *t, unsigned mount)
{
    return mount < t->c.conf->nmounts && t->c.conf->mounts[mount].immutable == CONF_IMMUTABLE_TRUE;
}

/* Nobody changes it while it is mounted: what was so since then is so still. */
static bool stays_so(const struct tree *t, unsigned mount, uint32_t when_s)
{
    return when_s >= t->c.since_s && is_immutable(t, mount);
}

bool tree_is_fresh(const struct tree *t, unsigned mount, uint32_t when_s)
{
    return stays_so(t, mount, when_s) || tree_is_recent(t, when_s);
}

/* That a name is absent is believed for a shorter time where files can be written: programs wait
 * for files of other nodes. */
bool tree_is_fresh_absence(const struct tree *t, unsigned mount, uint32_t when_s)
{
    return stays_so(t, mount, when_s)
        || (tree_is_recent(t, when_s)
            && (t->c.conf->read_only || tree_now_s() - when_s <= ABSENCE_S));
}

bool tree_is_ours(const struct inode *n)
{
    return n->flags
        & (INODE_LOCAL | INODE_STAGED | INODE_DIRTY | INODE_MOUNT | INODE_MOUNTPOINT_DIR);
}

/* Seconds until what was so at when_s is too old; not above 0: it is. */
static double fresh_for(const struct tree *t, unsigned mount, uint32_t when_s)
{
    if (stays_so(t, mount, when_s))
        return IMMUTABLE_VALID_S;
    return (double)((int64_t)when_s * NS_PER_S + t->c.sync_ns - clock_real_ns()) / (double)NS_PER_S;
}

/* A listing that is too old already says nothing here: each path through the directory would be
 * asked for. */
static double listing_valid_for(const struct tree *t, const struct inode *d, double most)
{
    double left = (d->flags & INODE_DIR) && (d->flags & INODE_LISTED)
        ? fresh_for(t, d->mount, d->listed_s)
        : 0;
    return left > 0 ? MIN(left, most) : most;
}

double tree_valid_for(const struct tree *t, const struct inode *n, double most)
{
    most = is_immutable(t, n->mount) ? IMMUTABLE_VALID_S : most;
    double own = tree_is_ours(n) ? most : fresh_for(t, n->mount, n->synced_s);
    return MAX(0.0, MIN(own, listing_valid_for(t, n, most)));
}

double tree_absence_valid_for(const struct tree *t, uint64_t dir, double most)
{
    struct inode d;
    if (inodes_get(t->c.inodes, dir, &d))
        return 0;
    /* where a mount may be added, and nobody can tell the kernel of all names that it brings */
    if (d.flags & (INODE_MOUNT | INODE_MOUNTPOINT_DIR))
        return listing_valid_for(t, &d, MIN(most, (double)ABSENCE_S));
    return listing_valid_for(t, &d, is_immutable(t, d.mount) ? IMMUTABLE_VALID_S : most);
}

/* May what is known be served though the store fails? */
bool tree_survives(struct tree *t, unsigned mount, const struct err *e)
{
    if (e->cls != ERR_RETRY && e->cls != ERR_DENIED)
        return false;
    if (mount >= INODE_NO_MOUNT)
        return true;
    pthread_mutex_lock(&t->mu);
    t->why = *e;
    t->why_mount = mount;
    pthread_mutex_unlock(&t->mu);
    atomic_store(&t->failed_s[mount], tree_now_s());
    return true;
}

bool tree_store_is_down(const struct tree *t, unsigned mount)
{
    return mount < INODE_NO_MOUNT && tree_now_s() - atomic_load(&t->failed_s[mount]) < DOWN_S;
}

bool tree_is_complete(struct tree *t, uint64_t dir, struct inode *d)
{
    if (inodes_get(t->c.inodes, dir, d) || !(d->flags & INODE_DIR))
        return true;
    if (d->mount == INODE_NO_MOUNT || (d->flags & INODE_LOCAL))
        return true;
    return (d->flags & INODE_LISTED) && tree_is_fresh(t, d->mount, d->listed_s);
}

bool tree_may_grow(const struct tree *t, const struct inode *d)
{
    return (d->flags & INODE_LISTED) && !(d->flags & INODE_LOCAL) && d->mount != INODE_NO_MOUNT
        && tree_writable(t, d->mount) && !stays_so(t, d->mount, d->listed_s)
        && d->nchildren <= TREE_PAGE_ENTRIES;
}

bool tree_is_old(struct tree *t, const struct inode *dir)
{
    struct inode d;
    return (dir->flags & INODE_DIR) && (dir->flags & INODE_LISTED)
        && !tree_is_complete(t, dir->ino, &d);
}

/* For a name that cannot be asked for: tree_store_is_down(). */
int tree_fail_down(struct tree *t, unsigned mount, const char *name, struct err *e)
{
    pthread_mutex_lock(&t->mu);
    bool known = t->why_mount == mount && t->why.msg[0];
    if (known)
        *e = t->why;
    pthread_mutex_unlock(&t->mu);
    return known ? err_wrap(e, "%s: the store did not answer a moment ago", name)
                 : err_set(e, ERR_RETRY, "%s: the store did not answer a moment ago", name);
}
