/* SPDX-License-Identifier: Apache-2.0 */
/* map — string keys to pointers. Keys are copied; values are the caller's, freed by free_value if
 * given. Not locked. */
#ifndef MILLRACE_LIB_BASE_MAP_H
#define MILLRACE_LIB_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct map;                                      /* opaque */
struct map *map_new(void (*free_value)(void *)); /* NULL: values are borrowed */
void map_free(struct map *m);
void *map_get(const struct map *m, const char *key);       /* NULL if absent */
void map_put(struct map *m, const char *key, void *value); /* replaces (and frees) an older value */
bool map_del(struct map *m, const char *key);
void *map_steal(struct map *m, const char *key); /* removes; the caller owns the value */
size_t map_len(const struct map *m);
/* for (size_t i = 0; map_next(m, &i, &key, &value);) — any order; no changes meanwhile, except
 * map_del of the current key */
bool map_next(const struct map *m, size_t *iter, const char **key, void **value);

#endif
