/* SPDX-License-Identifier: Apache-2.0 */
/* cache — an informer: one resource, listed once and watched ever after, with indexes. Holds struct
 * obj: readers get references that stay valid and unchanged however the cache moves on. Where
 * objects are many and each is read seldom, they are kept folded, and every reader gets a tree of
 * its own. What we write ourselves is put in at once (cache_observe), so that a reconcile sees its
 * own writes; resourceVersions decide which of two versions is newer, and a version the watch has
 * already passed does not bring back what was deleted. metadata.managedFields and the last-applied
 * annotation are dropped: nobody here reads them. Threads: any. Locks: cache.mu, a leaf: never held
 * across a handler, an index function's caller or I/O. */
#ifndef MILLRACE_OPERATOR_CTL_INFORMER_H
#define MILLRACE_OPERATOR_CTL_INFORMER_H

#include "lib/base/err.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache; /* opaque */

/* An index gives every object any number of values. `values` calls emit(to, value) for each; it
 * must be pure. */
struct cache_index {
    const char *name;
    void (*values)(
        const char *arg, const json_t *object, void (*emit)(void *to, const char *value), void *to);
    const char *arg;
};
/* uid of each owner */
void cache_values_owner(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to);
void cache_values_namespace(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to);
/* arg: the label */
void cache_values_label(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to);
/* arg: jget path of a string */
void cache_values_field(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to);
#define CACHE_BY_OWNER                    \
    {                                     \
        "owner", cache_values_owner, NULL \
    }
#define CACHE_BY_NAMESPACE                        \
    {                                             \
        "namespace", cache_values_namespace, NULL \
    }
#define CACHE_BY_LABEL(index_name, label)     \
    {                                         \
        index_name, cache_values_label, label \
    }
#define CACHE_BY_FIELD(index_name, path)     \
    {                                        \
        index_name, cache_values_field, path \
    }

struct cache_conf {
    const struct kube_res *res;
    const char *ns; /* NULL: all namespaces */
    /* selectors, or NULL; labels "a=b,c" are also checked by cache_observe */
    const char *labels, *fields;
    const struct cache_index *indexes; /* copied; names, args borrowed for ever */
    size_t nindexes;
    /* drops what nobody reads, before the object is shared; NULL: keep all */
    void (*trim)(json_t *object);
    bool fold; /* keep objects folded */
};

struct cache *cache_new(struct kube *k, const struct cache_conf *conf);
void cache_free(struct cache *c); /* stops it first; no reader may be left */

/* A change: was is NULL for a new object, now is NULL for one that is gone. Called with no lock
 * held, also for objects of the first list and for changes that cache_observe brought, hence by
 * several threads at once: it says that something changed, the cache says what is so now. Both are
 * borrowed. Must not block. */
typedef void (*cache_handler)(void *user, const json_t *was, const json_t *now);
void cache_on_change(struct cache *c, cache_handler fn, void *user); /* before cache_start */

/* before cache_start; a known name is skipped */
void cache_add_index(struct cache *c, const struct cache_index *index);

int cache_start(struct cache *c, struct err *e);
/* begins to stop: takes up to a second, so many caches are cancelled first, then stopped */
void cache_cancel(struct cache *c);
/* ends the watch, joins the thread; what is cached stays readable */
void cache_stop(struct cache *c);
bool cache_synced(const struct cache *c); /* the first list is in */
/* Why it is not synced, in words ("list datasets: … is not installed"), or "" — for /readyz and the
 * start-up log. */
void cache_trouble(struct cache *c, struct err *out);
const struct kube_res *cache_res(const struct cache *c);
const struct cache_conf *cache_conf(const struct cache *c);

/* "ns/name" or "name"; caller unrefs; NULL if absent */
struct obj *cache_get(struct cache *c, const char *key);

struct objs {
    struct obj **v; /* owned references, in order of namespace, then name */
    size_t n;
};
struct objs cache_all(struct cache *c);
struct objs cache_by(struct cache *c, const char *index, const char *value); /* index must exist */
/* Only the keys, of all objects (index NULL) or those of an index's value, in no order: a
 * NULL-terminated array. */
char **cache_keys(struct cache *c, const char *index, const char *value);
void cache_keys_free(char ***keys);
#define cleanup_keys __attribute__((cleanup(cache_keys_free)))
size_t cache_count(struct cache *c);
void objs_free(struct objs *l);
#define cleanup_objs __attribute__((cleanup(objs_free)))

/* The server's answer to a write of ours: kept if it is newer than what is here and matches ns and
 * labels. Steals. */
void cache_observe(struct cache *c, json_t *object_take);
/* The server says that it has no object of that key (uid NULL) or none with that uid. */
void cache_observe_gone(struct cache *c, const char *key, const char *uid);

#endif
