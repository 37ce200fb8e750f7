/* SPDX-License-Identifier: Apache-2.0 */
/* indexer — inside an informer: objects by key, with indexes. Not locked. */
#ifndef MILLRACE_OPERATOR_CTL_INDEXER_H
#define MILLRACE_OPERATOR_CTL_INDEXER_H

#include "operator/ctl/informer.h"

struct indexer; /* opaque */

struct indexer *indexer_new(void);
void indexer_free(struct indexer *s);
/* while empty; a known name is skipped */
void indexer_add_index(struct indexer *s, const struct informer_index *index);

struct indexed {
    struct obj *o; /* maybe folded, as all objects here */
    uint64_t rv;
    char *uid; /* "" if it has none */
};
/* borrowed; NULL if absent */
const struct indexed *indexer_get(const struct indexer *s, const char *key);
/* object: what o_take holds */
void indexer_put(
    struct indexer *s, const char *key, struct obj *o_take, const json_t *object, uint64_t mark);
/* the caller owns it; NULL if absent */
struct obj *indexer_del(struct indexer *s, const char *key);
void indexer_mark(struct indexer *s, const char *key, uint64_t mark); /* seen by the running list */
size_t indexer_count(const struct indexer *s);

struct objs indexer_all(const struct indexer *s); /* in no order */
struct objs indexer_by(
    const struct indexer *s, const char *index, const char *value); /* in no order */
/* Keys: of all objects (index NULL) or those of an index's value; and those whose mark is another
 * one and whose version is at most rv. NULL-terminated arrays; informer_keys_free(). */
char **indexer_keys(const struct indexer *s, const char *index, const char *value);
char **indexer_unmarked(const struct indexer *s, uint64_t mark, uint64_t rv);

#endif
