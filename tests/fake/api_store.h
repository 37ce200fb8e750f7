/* SPDX-License-Identifier: Apache-2.0 */
/* api_store — inside tests/fake: the objects of the fake API server and the log of their changes.
 * Callers hold the server's lock. */
#ifndef MILLRACE_TESTS_FAKE_API_STORE_H
#define MILLRACE_TESTS_FAKE_API_STORE_H

#include "lib/base/map.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct change {
    uint64_t rv;
    char *collection; /* "/api/v1/pods" */
    char *ns;
    const char *type; /* "ADDED" … */
    json_t *object;   /* owned */
};

struct api_store {
    struct map *objects;    /* "<collection> <key>" → json */
    struct change *changes; /* in order of rv */
    size_t nchanges, cap;
    uint64_t rv, oldest; /* of the last change; versions below oldest are forgotten */
    uint64_t uids;
};

void api_store_init(struct api_store *s);
void api_store_free(struct api_store *s);

/* A request as the store sees it. */
struct api_path {
    char collection[200], ns[200], name[256], sub[32];
};
int api_path_parse(const char *path, struct api_path *out); /* -1: it is none of ours */

/* borrowed */
json_t *api_store_find(
    struct api_store *s, const char *collection, const char *ns, const char *name);
/* Each returns the HTTP status and sets *out to the answer (a new reference): the object, or a
 * Status. */
int api_store_create(
    struct api_store *s, const struct api_path *p, json_t *object_take, json_t **out);
int api_store_update(
    struct api_store *s, const struct api_path *p, json_t *object_take, json_t **out);
int api_store_patch(
    struct api_store *s, const struct api_path *p, const json_t *patch, bool apply, json_t **out);
int api_store_delete(
    struct api_store *s, const struct api_path *p, const json_t *options, json_t **out);
int api_store_list(struct api_store *s, const struct api_path *p, const char *labels, size_t limit,
    const char *token, json_t **out);

/* replaces, keeps the uid */
void api_store_put(struct api_store *s, const char *collection, json_t *object_take);
void api_store_remove(
    struct api_store *s, const char *collection, const char *ns, const char *name);
bool api_store_matches(const json_t *object, const char *labels); /* "a=b,c,!d" */
json_t *api_status(int code, const char *reason, const char *message);

#endif
