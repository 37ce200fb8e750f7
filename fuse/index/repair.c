/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the links of the index again from its records, after a process died in the middle of a
 * change. */
#include "fuse/index/format.h"

#include <stdlib.h>
#include <string.h>

struct sibling {
    uint32_t parent, seq, ino;
};

static int compare_siblings(const void *pa, const void *pb)
{
    const struct sibling *a = pa, *b = pb;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

int index_rebuild(struct inodes *ix, struct err *e)
{
    struct index_head *h = ix->h;
    if (h->undo_ino && h->undo_ino < h->nrecs)
        ix->recs[h->undo_ino] = h->undo;
    struct sibling *all = calloc(h->nrecs, sizeof *all);
    if (!all)
        return err_set(e, ERR_EXHAUSTED, "no memory to repair the index of %u inodes", h->nrecs);
    size_t n = 0;
    memset(ix->buckets, 0, (size_t)h->nbuckets * sizeof *ix->buckets);
    memset(h->heap_free, 0, sizeof h->heap_free);
    h->free_rec = h->live = h->unlinked = h->dirty = 0;
    for (uint32_t i = h->nrecs - 1; i > 0; i--) {
        struct rec *r = &ix->recs[i];
        r->next = r->prev = r->chain = 0;
        bool wanted = r->epoch == h->epoch && (r->nlookup || r->opens);
        /* it died between taking the name away and giving the record back */
        if ((r->flags & INODE_UNLINKED) && !wanted) {
            r->flags = 0;
            r->generation++;
        }
        if (!(r->flags & INODE_USED)) {
            r->next = h->free_rec;
            h->free_rec = i;
            continue;
        }
        if (!index_rec_ok(ix, i)) {
            free(all);
            return err_set(e, ERR_FATAL, "the index is damaged: inode %u", i);
        }
        h->live++;
        h->unlinked += !!(r->flags & INODE_UNLINKED);
        h->dirty += !!(r->flags & INODE_DIRTY);
        if (r->flags & INODE_DIR)
            r->kids.first = r->kids.last = r->dir.count = 0;
        if (i != INODE_ROOT && !(r->flags & INODE_UNLINKED))
            all[n++] = (struct sibling){r->parent, r->seq, i};
    }
    qsort(all, n, sizeof *all, compare_siblings);
    for (size_t k = 0; k < n; k++) {
        const struct rec *dir = all[k].parent < h->nrecs ? &ix->recs[all[k].parent] : NULL;
        if (!dir || !(dir->flags & INODE_DIR) || !(dir->flags & INODE_USED)) {
            err_set(e, ERR_FATAL, "the index is damaged: inode %u has no directory", all[k].ino);
            free(all);
            return -1;
        }
        index_relink(ix, all[k].ino);
    }
    free(all);
    h->undo_ino = 0;
    atomic_store(&h->busy, 0);
    return 0;
}
