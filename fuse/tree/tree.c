/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/tree/tree.h"

#include "fuse/session/loop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ABSENCE_S 1
/* a store that did not answer is left alone that long where what is known will do */
#define DOWN_S 5
/* about what stores put into one page: larger directories are not listed again for one name */
#define PAGE_ENTRIES 1000

/* A listing of a directory that is under way; in the table while anybody uses it or it is not at
 * its end. */
struct listing {
    struct listing *next; /* tree.mu */
    uint64_t dir;
    unsigned users;     /* tree.mu */
    pthread_mutex_t mu; /* held while a page is fetched */
    char *cursor;       /* mu; NULL before the first page */
    bool begun;         /* mu */
    bool again, grew;   /* mu; it was listed before; and a name came that was not there then */
    bool hidden;        /* mu; a file was passed over because a directory has its name */
    uint32_t start_s, page_s; /* mu; of its first and of its latest page */
    int64_t failed_ns;        /* mu; monotonic: when a page last did not come; 0 never */
    struct err why;           /* mu; … and why */
};

struct tree {
    struct tree_conf c;
    pthread_mutex_t mu;
    struct listing *listings;                  /* mu; few */
    _Atomic uint32_t failed_s[INODE_NO_MOUNT]; /* when each store last did not answer */
    unsigned why_mount;                        /* mu; the store that did not answer last … */
    struct err why;                            /* mu; … and why */
};

static uint32_t now_s(void) { return (uint32_t)(clock_real_ns() / NS_PER_S); }

static bool is_fresh(const struct tree *t, uint32_t when_s)
{
    return (int64_t)(now_s() - when_s) * NS_PER_S < t->c.sync_ns;
}

/* That a name is absent is believed for a shorter time where somebody may be writing: programs wait
 * for files of others. */
static bool is_fresh_absence(const struct tree *t, uint32_t when_s)
{
    return is_fresh(t, when_s) && (t->c.conf->read_only || now_s() - when_s <= ABSENCE_S);
}

static bool is_fixed(const struct inode *n)
{
    return n->flags
        & (INODE_LOCAL | INODE_STAGED | INODE_DIRTY | INODE_MOUNT | INODE_MOUNTPOINT_DIR);
}

int64_t tree_sync_ns(const struct tree *t) { return t->c.sync_ns; }

/* Seconds until what was so at when_s is too old; not above 0: it is. */
static double fresh_for(const struct tree *t, uint32_t when_s)
{
    return (double)((int64_t)when_s * NS_PER_S + t->c.sync_ns - clock_real_ns()) / (double)NS_PER_S;
}

/* A listing that is too old already says nothing here: each path through the directory would be
 * asked for. */
static double listing_believed(const struct tree *t, const struct inode *d, double most)
{
    double left = (d->flags & INODE_DIR) && (d->flags & INODE_LISTED) ? fresh_for(t, d->listed_s)
                                                                      : 0;
    return left > 0 ? MIN(left, most) : most;
}

double tree_believed(const struct tree *t, const struct inode *n, double most)
{
    double own = is_fixed(n) ? most : fresh_for(t, n->synced_s);
    return MAX(0.0, MIN(own, listing_believed(t, n, most)));
}

double tree_absence_believed(const struct tree *t, uint64_t dir, double most)
{
    struct inode d;
    return inodes_get(t->c.inodes, dir, &d) ? 0 : listing_believed(t, &d, most);
}

bool tree_writable(const struct tree *t, unsigned mount)
{
    return mount < t->c.conf->nmounts && !t->c.conf->read_only
        && !t->c.conf->mounts[mount].read_only && t->c.stores[mount]
        && (store_caps(t->c.stores[mount]) & STORE_CAP_WRITE);
}

/* Directories down to a mount's root, and that root. */
static int add_mount(struct tree *t, unsigned mount, struct err *e)
{
    uint64_t dir = INODE_ROOT;
    const char *p = t->c.conf->mounts[mount].path;
    struct inode root, n;
    if (inodes_get(t->c.inodes, INODE_ROOT, &root))
        return err_set(e, ERR_FATAL, "the index has no root");
    while (*p == '/')
        p++;
    while (*p) {
        char name[INODE_NAME_MAX + 1];
        size_t len = strcspn(p, "/");
        snprintf(name, sizeof name, "%.*s", (int)len, p);
        if (!inodes_find(t->c.inodes, dir, name, &n)) {
            struct inode above = root;
            inodes_get(t->c.inodes, dir, &above);
            struct inode like = {.flags = INODE_DIR | INODE_MOUNTPOINT_DIR,
                .mode = root.mode,
                .uid = root.uid,
                .gid = root.gid,
                .mtime_ns = clock_real_ns(),
                .mount = above.mount};
            if (inodes_create(t->c.inodes, dir, name, &like, &n, e))
                return err_wrap(e, "mount %s", t->c.conf->mounts[mount].path);
        }
        dir = n.ino;
        p += len;
        while (*p == '/')
            p++;
    }
    return inodes_mount(t->c.inodes, dir, mount);
}

/* Outer ones first: a directory on the way to an inner one belongs to the mount it is in. */
static int add_mounts(struct tree *t, struct err *e)
{
    for (size_t len = 1, next; len; len = next) {
        next = 0;
        for (size_t i = 0; i < t->c.conf->nmounts; i++) {
            size_t n = strlen(t->c.conf->mounts[i].path);
            if (n == len && add_mount(t, (unsigned)i, e))
                return -1;
            if (n > len && (!next || n < next))
                next = n;
        }
    }
    return 0;
}

struct tree *tree_new(const struct tree_conf *conf, struct err *e)
{
    struct tree *t = calloc(1, sizeof *t);
    if (!t) {
        err_set(e, ERR_EXHAUSTED, "no memory");
        return NULL;
    }
    t->c = *conf;
    pthread_mutex_init(&t->mu, NULL);
    if (add_mounts(t, e)) {
        tree_free(t);
        return NULL;
    }
    return t;
}

static void listing_free(struct listing *l)
{
    pthread_mutex_destroy(&l->mu);
    free(l->cursor);
    free(l);
}

void tree_free(struct tree *t)
{
    if (!t)
        return;
    for (struct listing *l = t->listings, *next; l; l = next) {
        next = l->next;
        listing_free(l);
    }
    pthread_mutex_destroy(&t->mu);
    free(t);
}

static struct listing *listing_get(struct tree *t, uint64_t dir, struct err *e)
{
    pthread_mutex_lock(&t->mu);
    struct listing *l = t->listings;
    while (l && l->dir != dir)
        l = l->next;
    if (!l && (l = calloc(1, sizeof *l))) {
        l->dir = dir;
        pthread_mutex_init(&l->mu, NULL);
        l->next = t->listings;
        t->listings = l;
    }
    if (l)
        l->users++;
    else
        err_sys(e, ENOMEM, "list a directory");
    pthread_mutex_unlock(&t->mu);
    return l;
}

static void listing_put(struct tree *t, struct listing *l)
{
    pthread_mutex_lock(&t->mu);
    if (--l->users == 0 && !l->begun) { /* no user: nobody changes .begun */
        struct listing **p = &t->listings;
        while (*p != l)
            p = &(*p)->next;
        *p = l->next;
        listing_free(l);
    }
    pthread_mutex_unlock(&t->mu);
}

struct page {
    struct tree *t;
    uint64_t dir;
    uint32_t now_s;
    struct err *e;
    int rc;
    bool hidden, grew;
};

static int take_entry(void *user, const struct store_entry *entry)
{
    struct page *p = user;
    struct inode n;
    enum inodes_change change;
    size_t len = strlen(entry->name);
    if (len == 0 || len > INODE_NAME_MAX || strchr(entry->name, '/')
        || strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) {
        log_kv(LOG_DEBUG, "a name in the store cannot be a file name", "name", entry->name, NULL);
        return 0;
    }
    struct inode was;
    if (!entry->st.is_dir && inodes_find(p->t->c.inodes, p->dir, entry->name, &was)
        && (was.flags & INODE_DIR)) {
        p->hidden = true; /* an object and a prefix have the same name: the directory wins */
        return 0;
    }
    p->rc = inodes_put(
        p->t->c.inodes, p->dir, entry->name, &entry->st, p->now_s, &n, &change, p->e);
    if (p->rc == 0 && change == INODES_REPLACED)
        p->t->c.changed(p->t->c.user, p->dir, entry->name);
    p->grew |= p->rc == 0 && change == INODES_NEW;
    return p->rc;
}

static void listing_reset(struct listing *l)
{
    free(l->cursor);
    l->cursor = NULL;
    l->begun = false;
}

/* The next page. Returns 1 if there are more, 0 at the end, -1. l->mu is held. */
static int list_page(struct tree *t, struct listing *l, struct err *e)
{
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (tree_where(t, l->dir, &store, &mount, path, e))
        return -1;
    /* left alone for long: its cursor may mean nothing any more */
    if (l->begun && !is_fresh(t, l->page_s))
        listing_reset(l);
    if (!l->begun) {
        l->begun = true;
        l->hidden = l->grew = false;
        l->start_s = now_s();
    }
    struct inode d = {0};
    struct page p = {t, l->dir, l->page_s = now_s(), e, 0, false, false};
    inodes_get(t->c.inodes, l->dir, &d);
    l->again = d.flags & INODE_LISTED;
    if ((store_list(store, path, &l->cursor, take_entry, &p, e) || p.rc)
        && !((d.flags & INODE_MOUNTPOINT_DIR) && e->cls == ERR_NOTFOUND)) {
        listing_reset(l);
        return -1;
    }
    l->hidden |= p.hidden;
    l->grew |= p.grew;
    if (l->cursor)
        return 1;
    bool shrank = inodes_listed(t->c.inodes, l->dir, l->start_s, t->c.changed, t->c.user);
    if (l->again && (l->grew || shrank))
        t->c.changed(t->c.user, l->dir, "");
    if (l->hidden)
        inodes_unlist(t->c.inodes, l->dir);
    listing_reset(l);
    return 0;
}

/* May what is known be served though the store fails? */
static bool may_go_on(struct tree *t, unsigned mount, const struct err *e)
{
    if (e->cls != ERR_RETRY && e->cls != ERR_DENIED)
        return false;
    if (mount >= INODE_NO_MOUNT)
        return true;
    pthread_mutex_lock(&t->mu);
    t->why = *e;
    t->why_mount = mount;
    pthread_mutex_unlock(&t->mu);
    atomic_store(&t->failed_s[mount], now_s());
    return true;
}

static bool is_down(const struct tree *t, unsigned mount)
{
    return mount < INODE_NO_MOUNT && now_s() - atomic_load(&t->failed_s[mount]) < DOWN_S;
}

static bool is_complete(struct tree *t, uint64_t dir, struct inode *d)
{
    if (inodes_get(t->c.inodes, dir, d) || !(d->flags & INODE_DIR))
        return true;
    if (d->mount == INODE_NO_MOUNT || (d->flags & INODE_LOCAL))
        return true;
    return (d->flags & INODE_LISTED) && is_fresh(t, d->listed_s);
}

bool tree_is_old(struct tree *t, const struct inode *dir)
{
    struct inode d;
    return (dir->flags & INODE_DIR) && (dir->flags & INODE_LISTED) && !is_complete(t, dir->ino, &d);
}

/* For a name that cannot be asked for: is_down(). */
static int fail_down(struct tree *t, unsigned mount, const char *name, struct err *e)
{
    pthread_mutex_lock(&t->mu);
    bool known = t->why_mount == mount && t->why.msg[0];
    if (known)
        *e = t->why;
    pthread_mutex_unlock(&t->mu);
    return known ? err_wrap(e, "%s: the store did not answer a moment ago", name)
                 : err_set(e, ERR_RETRY, "%s: the store did not answer a moment ago", name);
}

/* Pages until fn says it is enough or the directory is complete. */
static int list_until(struct tree *t, uint64_t dir,
    bool (*enough)(struct tree *t, uint64_t dir, const void *what), const void *what, struct err *e)
{
    struct inode d;
    if (is_complete(t, dir, &d) || ((d.flags & INODE_LISTED) && is_down(t, d.mount)))
        return 0;
    struct listing *l = listing_get(t, dir, e);
    if (!l)
        return -1;
    int rc = 1;
    int64_t asked = clock_mono_ns();
    pthread_mutex_lock(&l->mu);
    /* while we waited for our turn: it was asked for all who wait, or each would wait for all
     * before him */
    if (l->failed_ns > asked) {
        *e = l->why;
        rc = -1;
    }
    while (rc == 1 && !is_complete(t, dir, &d)) {
        rc = list_page(t, l, e);
        if (rc < 0) {
            l->failed_ns = clock_mono_ns();
            l->why = *e;
        }
        if (rc == 1 && enough && enough(t, dir, what))
            break;
    }
    pthread_mutex_unlock(&l->mu);
    listing_put(t, l);
    if (rc < 0 && may_go_on(t, d.mount, e) && (d.flags & INODE_LISTED)) {
        log_kv(LOG_WARN, "a directory could not be looked at again: what was known is served",
            "error", e->msg, NULL);
        return 0;
    }
    return rc < 0 ? -1 : 0;
}

static int take_one(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    (void)name;
    (void)child;
    (void)cookie;
    *(bool *)user = true;
    return 1;
}

static bool has_after(struct tree *t, uint64_t dir, const void *what)
{
    bool found = false;
    inodes_children(t->c.inodes, dir, *(const uint64_t *)what, false, take_one, &found);
    return found;
}

int tree_fill(struct tree *t, uint64_t dir, uint64_t cookie, struct err *e)
{
    struct inode d;
    if (inodes_get(t->c.inodes, dir, &d))
        return err_sys(e, ESTALE, "directory %llu", (unsigned long long)dir);
    /* In the middle of reading, a listing that grew old is not begun again: what is there can be
     * read on. */
    if (cookie && (d.flags & INODE_LISTED))
        return 0;
    return list_until(t, dir, d.flags & INODE_LISTED ? NULL : has_after, &cookie, e);
}

int tree_fill_all(struct tree *t, uint64_t dir, struct err *e)
{
    return list_until(t, dir, NULL, NULL, e);
}

/* One page is as cheap as a question for one name, and answers the next ones too. */
static bool one_page(struct tree *t, uint64_t dir, const void *what)
{
    (void)t;
    (void)dir;
    (void)what;
    return true;
}

/* What the kernel may have read of a directory is not right any more. */
static void listing_changed(struct tree *t, uint64_t dir)
{
    struct inode d;
    if (inodes_get(t->c.inodes, dir, &d) == 0 && (d.flags & INODE_LISTED))
        t->c.changed(t->c.user, dir, "");
}

/* Asks the store for one name. */
static int ask(struct tree *t, uint64_t dir, const char *name, bool known, const struct inode *old,
    struct inode *out, struct err *e)
{
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    struct store_stat st = {0};
    enum inodes_change change;
    if (tree_where_child(t, dir, name, &store, &mount, path, e))
        return -1;
    if (store_stat_path(store, path, &st, e) == 0) {
        if (inodes_put(t->c.inodes, dir, name, &st, now_s(), out, &change, e))
            return -1;
        if (change == INODES_REPLACED)
            t->c.changed(t->c.user, dir, name);
        if (change == INODES_NEW)
            listing_changed(t, dir);
        return 0;
    }
    if (e->cls == ERR_NOTFOUND) {
        if (known) {
            inodes_set(t->c.inodes, old->ino, 0, NULL, INODE_ORPHANED, 0);
            inodes_remove(t->c.inodes, old->ino);
            t->c.changed(t->c.user, dir, name);
            listing_changed(t, dir);
        }
        return err_sys(e, ENOENT, "%s", path);
    }
    if (may_go_on(t, mount, e) && known) {
        log_kv(LOG_WARN, "a file could not be looked at again: what was known is served", "error",
            e->msg, NULL);
        *out = *old;
        return 0;
    }
    return -1;
}

int tree_lookup(struct tree *t, uint64_t dir, const char *name, struct inode *out, struct err *e)
{
    struct inode d;
    if (strlen(name) > INODE_NAME_MAX)
        return err_sys(e, ENAMETOOLONG, "%.40s…", name);
    if (inodes_find(t->c.inodes, dir, name, out) && (is_fixed(out) || is_fresh(t, out->synced_s)))
        return 0;
    loop_will_block();
    if (inodes_get(t->c.inodes, dir, &d) || (d.flags & INODE_UNLINKED))
        return err_sys(e, ESTALE, "directory of %s", name);
    if (!(d.flags & INODE_DIR))
        return err_sys(e, ENOTDIR, "directory of %s", name);
    if (!is_complete(t, dir, &d)
        && (!(d.flags & INODE_LISTED) ? d.nchildren == 0 : d.nchildren <= PAGE_ENTRIES)
        && list_until(t, dir, one_page, NULL, e) && e->cls != ERR_NOTFOUND)
        return -1;
    bool known = inodes_find(t->c.inodes, dir, name, out);
    if (known && (is_fixed(out) || is_fresh(t, out->synced_s)))
        return 0;
    if (!known && is_complete(t, dir, &d)
        && (d.mount == INODE_NO_MOUNT || (d.flags & INODE_LOCAL)
            || is_fresh_absence(t, d.listed_s)))
        return err_sys(e, ENOENT, "%s", name);
    if (known && is_down(t, out->mount))
        return 0;
    struct inode old = *out;
    int rc = !known && is_down(t, d.mount) ? fail_down(t, d.mount, name, e)
                                           : ask(t, dir, name, known, &old, out, e);
    /* Without the store, a listing that is not too old tells what is absent. */
    if (rc && e->cls == ERR_RETRY && (d.flags & INODE_LISTED) && is_fresh(t, d.listed_s))
        return err_sys(e, ENOENT, "%s", name);
    return rc;
}

int tree_refresh(struct tree *t, uint64_t ino, struct inode *out, struct err *e)
{
    char name[INODE_NAME_MAX + 1];
    uint64_t dir;
    if (inodes_get(t->c.inodes, ino, out))
        return err_sys(e, ESTALE, "inode %llu", (unsigned long long)ino);
    if (is_fixed(out) || (out->flags & INODE_UNLINKED) || is_fresh(t, out->synced_s)
        || inodes_name(t->c.inodes, ino, name, &dir))
        return 0;
    struct inode now;
    if (tree_lookup(t, dir, name, &now, e))
        return e->cls == ERR_NOTFOUND ? err_sys(e, ESTALE, "%s", name) : -1;
    if (now.ino != ino)
        return err_sys(e, ESTALE, "%s was changed in the store", name);
    *out = now;
    return 0;
}

static int where(struct tree *t, unsigned m, const char *path, struct store **store,
    unsigned *mount, struct err *e)
{
    if (m >= t->c.conf->nmounts)
        return err_sys(e, EROFS, "\"%s\" is above the dataset's mounts", path);
    if (!t->c.stores[m])
        return err_sys(e, EIO, "the store %s cannot be used", t->c.conf->mounts[m].mount_point);
    *store = t->c.stores[m];
    *mount = m;
    return 0;
}

int tree_where(struct tree *t, uint64_t ino, struct store **store, unsigned *mount,
    char path[INODE_PATH_MAX], struct err *e)
{
    unsigned m;
    if (inodes_path(t->c.inodes, ino, path, &m, e))
        return -1;
    return where(t, m, path, store, mount, e);
}

int tree_where_child(struct tree *t, uint64_t dir, const char *name, struct store **store,
    unsigned *mount, char path[INODE_PATH_MAX], struct err *e)
{
    unsigned m;
    if (inodes_path(t->c.inodes, dir, path, &m, e))
        return -1;
    size_t len = strlen(path), add = strlen(name);
    if (len + 1 + add >= INODE_PATH_MAX || add > INODE_NAME_MAX)
        return err_sys(e, ENAMETOOLONG, "%s/%.40s", path, name);
    if (len)
        path[len++] = '/';
    memcpy(path + len, name, add + 1);
    return where(t, m, path, store, mount, e);
}
