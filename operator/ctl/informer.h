/* SPDX-License-Identifier: Apache-2.0 */
/* informer — one resource, listed once and watched ever after, with indexes. Holds struct obj:
 * readers get references that stay valid and unchanged however the informer moves on. Where
 * objects are many and each is read seldom, they are kept folded, and every reader gets a tree
 * of its own. Our own writes are put in at once (informer_observe), so that a reconcile sees
 * them; resourceVersions decide which of two versions is newer, and a version the watch has
 * already passed does not bring back a deleted object. metadata.managedFields and the
 * last-applied annotation are dropped: we do not read them.
 * Threads: any. Locks: informer.order, held across a change and its handlers; informer.mu, a leaf:
 * never held across a handler, an index function's caller or I/O. */
#ifndef MILLRACE_OPERATOR_CTL_INFORMER_H
#define MILLRACE_OPERATOR_CTL_INFORMER_H

#include "lib/base/err.h"
#include "lib/json/obj.h"
#include "lib/kube/kube.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct informer; /* opaque */

/* An index gives every object any number of values. `values` calls emit(to, value) for each; it
 * must be pure. */
struct informer_index {
    const char *name;
    void (*values)(
        const char *arg, const json_t *object, void (*emit)(void *to, const char *value), void *to);
    const char *arg;
};
/* arg: the label */
void informer_values_label(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to);
/* arg: jget path of a string */
void informer_values_field(
    const char *arg, const json_t *object, void (*emit)(void *, const char *), void *to);
#define INFORMER_BY_LABEL(index_name, label)     \
    {                                            \
        index_name, informer_values_label, label \
    }
#define INFORMER_BY_FIELD(index_name, path)     \
    {                                           \
        index_name, informer_values_field, path \
    }

struct informer_conf {
    const struct kube_res *res;
    const char *ns; /* NULL: all namespaces */
    /* selectors, or NULL; labels "a=b,c,!d" are also checked by informer_observe */
    const char *labels, *fields;
    const struct informer_index *indexes; /* copied; names, args borrowed for ever */
    size_t nindexes;
    /* drops fields that are not read, before the object is shared; NULL: keep all */
    void (*trim)(json_t *object);
    bool fold;     /* keep objects folded */
    size_t recent; /* but so many of those that were read last whole, too */
};

struct informer *informer_new(struct kube *k, const struct informer_conf *conf);
/* ends the watch, joins the thread; no reader may be left */
void informer_free(struct informer *inf);

/* A change: was is NULL for a new object, now is NULL for one that is gone; of one that was made
 * again under its name, both come, one after the other. Told in the order of the changes, one at a
 * time, also those of the first list and those that informer_observe brought, by whatever thread.
 * Both are borrowed. Must not block, nor change the informer; it may read it. */
typedef void (*informer_handler)(void *user, const json_t *was, const json_t *now);
void informer_on_change(
    struct informer *inf, informer_handler fn, void *user); /* before informer_start */

/* before informer_start; a known name is skipped */
void informer_add_index(struct informer *inf, const struct informer_index *index);

/* An object that cannot be read: it stays as it was before, and the others go on. known: as
 * kube_lister.skipped has it, with a name; called once for each object, by the informer's thread,
 * with no lock held. Before informer_start. */
typedef void (*informer_unreadable)(void *user, const struct kube_res *res, const json_t *known);
void informer_on_unreadable(struct informer *inf, informer_unreadable fn, void *user);

int informer_start(struct informer *inf, struct err *e);
/* begins to stop: takes up to a second, so many informers are cancelled first, then freed */
void informer_cancel(struct informer *inf);
bool informer_synced(const struct informer *inf); /* the first list is in */
/* Why it is not synced ("list datasets: … is not installed"), or "" — for /readyz and the
 * start-up log. */
void informer_error(struct informer *inf, struct err *out);
/* For how long it has not followed the API server, and why; 0: it does. */
int64_t informer_stale_ns(struct informer *inf, struct err *why);
const struct kube_res *informer_res(const struct informer *inf);
const struct informer_conf *informer_conf(const struct informer *inf);

/* "ns/name" or "name"; caller unrefs; NULL if absent */
struct obj *informer_get(struct informer *inf, const char *key);

struct objs {
    struct obj **v; /* owned references, in order of namespace, then name */
    size_t n;
};
struct objs informer_all(struct informer *inf);
struct objs informer_by(
    struct informer *inf, const char *index, const char *value); /* index must exist */
/* Only the keys, of all objects (index NULL) or those of an index's value, in no order: a
 * NULL-terminated array. */
char **informer_keys(struct informer *inf, const char *index, const char *value);
void informer_keys_free(char ***keys);
#define cleanup_keys __attribute__((cleanup(informer_keys_free)))
size_t informer_count(struct informer *inf);
void objs_free(struct objs *l);
#define cleanup_objs __attribute__((cleanup(objs_free)))

/* The server's answer to a write of ours: kept if it is newer than what is here and matches ns and
 * labels. Steals. */
void informer_observe(struct informer *inf, json_t *object_take);
/* The server says that it has no object of that key (uid NULL) or none with that uid. */
void informer_observe_gone(struct informer *inf, const char *key, const char *uid);

#endif
