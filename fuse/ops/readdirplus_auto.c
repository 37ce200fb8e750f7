/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/ops/readdirplus_auto.h"

#define EASY memory_order_relaxed

bool readdirplus_auto_listed(struct readdirplus_auto *h, uint64_t dir)
{
    if (atomic_load_explicit(&h->left, EASY) > 0
        && atomic_fetch_sub_explicit(&h->left, 1, EASY) > 0)
        return true;
    unsigned at = atomic_fetch_add_explicit(&h->next, 1, EASY) % READDIRPLUS_AUTO_RECENT;
    atomic_store_explicit(&h->recent[at], dir, EASY);
    return false;
}

void readdirplus_auto_looked_up(struct readdirplus_auto *h, uint64_t dir)
{
    for (unsigned i = 0; i < READDIRPLUS_AUTO_RECENT; i++) {
        if (atomic_load_explicit(&h->recent[i], EASY) != dir)
            continue;
        if (atomic_fetch_add_explicit(&h->looks, 1, EASY) + 1 >= READDIRPLUS_AUTO_LOOKS) {
            atomic_store_explicit(&h->looks, 0, EASY);
            atomic_store_explicit(&h->left, READDIRPLUS_AUTO_LISTINGS, EASY);
        }
        return;
    }
}
