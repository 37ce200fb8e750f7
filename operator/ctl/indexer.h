/* SPDX-License-Identifier: Apache-2.0 */
/* store — inside cache: objects by key, with indexes. Not locked. */
#ifndef MILLRACE_OPERATOR_CTL_INDEXER_H
#define MILLRACE_OPERATOR_CTL_INDEXER_H

#include "operator/ctl/informer.h"

struct store; /* opaque */

struct store *store_new(void);
void store_free(struct store *s);
/* while empty; a known name is skipped */
void store_add_index(struct store *s, const struct cache_index *index);

struct stored {
    struct obj *o; /* maybe folded, as all objects here */
    uint64_t rv;
    char *uid; /* "" if it has none */
};
/* borrowed; NULL if absent */
const struct stored *store_get(const struct store *s, const char *key);
/* object: what o_take holds */
void store_put(
    struct store *s, const char *key, struct obj *o_take, const json_t *object, uint64_t mark);
/* the caller owns it; NULL if absent */
struct obj *store_del(struct store *s, const char *key);
void store_mark(struct store *s, const char *key, uint64_t mark); /* for sweeping after a list */
size_t store_count(const struct store *s);

struct objs store_all(const struct store *s);                                      /* in no order */
struct objs store_by(const struct store *s, const char *index, const char *value); /* in no order */
/* Keys: of all objects (index NULL) or those of an index's value; and those whose mark is another
 * one and whose version is at most rv. NULL-terminated arrays; cache_keys_free(). */
char **store_keys(const struct store *s, const char *index, const char *value);
char **store_unmarked(const struct store *s, uint64_t mark, uint64_t rv);

#endif
