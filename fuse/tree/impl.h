/* SPDX-License-Identifier: Apache-2.0 */
/* impl — what the sources of the tree call of each other; private to the room. Calls go down only:
 * tree → listing → freshness, mounts. */
#ifndef MILLRACE_FUSE_TREE_IMPL_H
#define MILLRACE_FUSE_TREE_IMPL_H

#include "fuse/tree/tree.h"

#include <pthread.h>

struct tree_listing; /* listing.c */

struct tree {
    struct tree_conf c;
    pthread_mutex_t mu;
    struct tree_listing *listings;             /* mu; few */
    _Atomic uint32_t failed_s[INODE_NO_MOUNT]; /* when each store last did not answer */
    unsigned why_mount;                        /* mu; the store that did not answer last … */
    struct err why;                            /* mu; … and why */
};

/* -- mounts.c: the index's directories of mounts, and their stores -- */
int tree_add_mounts(struct tree *t, struct err *e);

/* -- freshness.c: for how long what is known is believed -- */
uint32_t tree_now_s(void);
/* Within the metadata sync interval. */
bool tree_is_recent(const struct tree *t, uint32_t when_s);
/* What the mount's store said then is believed still. */
bool tree_is_fresh(const struct tree *t, unsigned mount, uint32_t when_s);
/* That a name was absent from a listing begun at when_s. */
bool tree_is_fresh_absence(const struct tree *t, unsigned mount, uint32_t when_s);
/* What the store says of it does not count: it is newer here, or a mount. */
bool tree_is_ours(const struct inode *n);
/* Known in full, as far as this inode can have children. Fills *d. */
bool tree_is_complete(struct tree *t, uint64_t dir, struct inode *d);
/* Other nodes may have put something into a directory that was listed, and one page tells it: that
 * is as cheap as a question for a name. */
bool tree_may_grow(const struct tree *t, const struct inode *dir);
/* About what stores put into one page: larger directories are not listed again for one name. */
#define TREE_PAGE_ENTRIES 1000
/* A store failed with e: may what is known be served all the same? Remembers that it failed. */
bool tree_survives(struct tree *t, unsigned mount, const struct err *e);
bool tree_store_is_down(const struct tree *t, unsigned mount); /* it failed a moment ago */
/* Fills e for a name that cannot be asked for while its store is down. */
int tree_fail_down(struct tree *t, unsigned mount, const char *name, struct err *e);

/* -- listing.c: directories, page by page -- */
/* Pages until enough() says so (NULL: never) or the directory is complete; anew: by a listing that
 * began after the call. */
int tree_list_until(struct tree *t, uint64_t dir, bool anew,
    bool (*enough)(struct tree *t, uint64_t dir, const void *what), const void *what,
    struct err *e);
/* One page of a directory that is not complete. */
int tree_list_page(struct tree *t, uint64_t dir, struct err *e);
void tree_free_listings(struct tree *t);

#endif
