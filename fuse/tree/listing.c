/* SPDX-License-Identifier: Apache-2.0 */
/* Listings of directories, fetched from the stores page by page and shared by all that read the
 * directory. */
#include "fuse/tree/impl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A listing of a directory that is under way; in the table while anybody uses it or it is not at
 * its end. */
struct tree_listing {
    struct tree_listing *next; /* tree.mu */
    uint64_t dir;
    unsigned users;     /* tree.mu */
    pthread_mutex_t mu; /* held while a page is fetched */
    char *cursor;       /* mu; NULL before the first page */
    bool begun;         /* mu */
    bool again, grew;   /* mu; it was listed before; and a name came that was not there then */
    bool hidden;        /* mu; a file was passed over because a directory has its name */
    uint32_t start_s, page_s; /* mu; of its first and of its latest page */
    uint64_t asked;           /* mu; inodes_asked() before its first page */
    int64_t start_ns;         /* mu; as start_s, monotonic */
    int64_t whole_ns;         /* mu; the start_ns of the latest one that came to its end; 0 none */
    int64_t failed_ns;        /* mu; monotonic: when a page last did not come; 0 never */
    struct err why;           /* mu; … and why */
};

static void listing_free(struct tree_listing *l)
{
    pthread_mutex_destroy(&l->mu);
    free(l->cursor);
    free(l);
}

static struct tree_listing *listing_get(struct tree *t, uint64_t dir, struct err *e)
{
    pthread_mutex_lock(&t->mu);
    struct tree_listing *l = t->listings;
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

static void listing_put(struct tree *t, struct tree_listing *l)
{
    pthread_mutex_lock(&t->mu);
    if (--l->users == 0 && !l->begun) { /* without a user .begun does not change */
        struct tree_listing **p = &t->listings;
        while (*p != l)
            p = &(*p)->next;
        *p = l->next;
        listing_free(l);
    }
    pthread_mutex_unlock(&t->mu);
}

struct listing_page {
    struct tree *t;
    uint64_t dir;
    uint64_t asked;
    uint32_t now_s;
    struct err *e;
    int rc;
    bool hidden, grew, moved; /* moved: the directory is elsewhere by now */
};

static int listing_take(void *user, const struct store_entry *entry)
{
    struct listing_page *p = user;
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
        p->t->c.inodes, p->dir, entry->name, &entry->st, p->asked, p->now_s, &n, &change, p->e);
    if (p->rc == 0 && change == INODES_REPLACED)
        p->t->c.changed(p->t->c.user, p->dir, entry->name);
    p->grew |= p->rc == 0 && change == INODES_NEW;
    p->hidden |= p->rc == 0 && change == INODES_BUSY && !n.ino; /* it may be there, or not */
    p->moved |= p->rc == 0 && change == INODES_ASK_AGAIN;
    return p->rc;
}

static void listing_reset(struct tree_listing *l)
{
    free(l->cursor);
    l->cursor = NULL;
    l->begun = false;
}

/* The next page. Returns 1 if there are more, 0 at the end, -1. */
static int listing_next_page(struct tree *t, struct tree_listing *l, struct err *e)
{
    mutex_assert_held(&l->mu);
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    uint64_t asked = inodes_asked(t->c.inodes);
    if (tree_where(t, l->dir, &store, &mount, path, e))
        return -1;
    /* left alone for long: its cursor may mean nothing any more */
    if (l->begun && !tree_is_recent(t, l->page_s))
        listing_reset(l);
    if (!l->begun) {
        l->begun = true;
        l->hidden = l->grew = false;
        l->start_s = tree_now_s();
        l->start_ns = clock_mono_ns();
        l->asked = asked;
    }
    struct inode d = {0};
    struct listing_page p = {.t = t, .dir = l->dir, .asked = asked, .e = e};
    p.now_s = l->page_s = tree_now_s();
    inodes_get(t->c.inodes, l->dir, &d);
    l->again = d.flags & INODE_LISTED;
    bool failed = store_list(store, path, &l->cursor, listing_take, &p, e) || p.rc;
    if (p.moved
        || (failed && inodes_evaluate(t->c.inodes, l->dir, "", asked) == INODES_ASK_AGAIN)) {
        listing_reset(l); /* from its new path */
        return 1;
    }
    if (failed && !((d.flags & INODE_MOUNTPOINT_DIR) && e->cls == ERR_NOTFOUND)) {
        listing_reset(l);
        return -1;
    }
    l->hidden |= p.hidden;
    l->grew |= p.grew;
    if (l->cursor)
        return 1;
    int shrank = inodes_listed(t->c.inodes, l->dir, l->asked, l->start_s, t->c.changed, t->c.user);
    if (shrank < 0) {
        listing_reset(l);
        return 1;
    }
    if (l->again && (l->grew || shrank))
        t->c.changed(t->c.user, l->dir, "");
    if (l->hidden)
        inodes_unlist(t->c.inodes, l->dir);
    l->whole_ns = l->start_ns;
    listing_reset(l);
    return 0;
}

int tree_list_until(struct tree *t, uint64_t dir, bool anew,
    bool (*enough)(struct tree *t, uint64_t dir, const void *what), const void *what, struct err *e)
{
    struct inode d;
    if ((tree_is_complete(t, dir, &d) && !anew)
        || ((d.flags & INODE_LISTED) && tree_store_is_down(t, d.mount)))
        return 0;
    struct tree_listing *l = listing_get(t, dir, e);
    if (!l)
        return -1;
    int rc = 1;
    int64_t asked = clock_mono_ns();
    pthread_mutex_lock(&l->mu);
    /* A page that failed while this thread waited fails for it, too: each would wait for all
     * before it otherwise. */
    if (l->failed_ns > asked) {
        *e = l->why;
        rc = -1;
    }
    /* anew: what another thread had begun before comes to its end first */
    while (rc >= 0 && (anew ? l->whole_ns < asked : rc == 1 && !tree_is_complete(t, dir, &d))) {
        rc = listing_next_page(t, l, e);
        if (rc < 0) {
            l->failed_ns = clock_mono_ns();
            l->why = *e;
        }
        if (rc == 1 && enough && enough(t, dir, what))
            break;
    }
    pthread_mutex_unlock(&l->mu);
    listing_put(t, l);
    if (rc < 0 && tree_survives(t, d.mount, e) && (d.flags & INODE_LISTED)) {
        log_kv(LOG_WARN, "a directory could not be looked at again: what was known is served",
            "error", e->msg, NULL);
        return 0;
    }
    return rc < 0 ? -1 : 0;
}

static int stop_at_first(void *user, const char *name, const struct inode *child, uint64_t cookie)
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
    inodes_children(t->c.inodes, dir, *(const uint64_t *)what, false, stop_at_first, &found);
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
    return tree_list_until(
        t, dir, tree_may_grow(t, &d), d.flags & INODE_LISTED ? NULL : has_after, &cookie, e);
}

int tree_fill_all(struct tree *t, uint64_t dir, struct err *e)
{
    return tree_list_until(t, dir, false, NULL, NULL, e);
}

/* One page is as cheap as a question for one name, and answers the next ones too. */
static bool one_page(struct tree *t, uint64_t dir, const void *what)
{
    (void)t;
    (void)dir;
    (void)what;
    return true;
}

int tree_list_page(struct tree *t, uint64_t dir, struct err *e)
{
    return tree_list_until(t, dir, false, one_page, NULL, e);
}

void tree_free_listings(struct tree *t)
{
    for (struct tree_listing *l = t->listings, *next; l; l = next) {
        next = l->next;
        listing_free(l);
    }
}
