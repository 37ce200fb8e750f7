/* SPDX-License-Identifier: Apache-2.0 */
/* pod — the pods of a dataset: clients (one a node), cache workers, loaders. Pure. All of them
 * satisfy the restricted Pod Security profile and carry no token of the API server. ANNOTATION_HASH
 * is the hash of the pod without where it should rather go, and without the number of workers,
 * which it learns while it runs, of a client without its node: a pod is outdated when the hash of
 * the one that would be made now is another. */
#ifndef MILLRACE_OPERATOR_RENDER_POD_H
#define MILLRACE_OPERATOR_RENDER_POD_H

#include "lib/sign/sign.h"
#include "operator/api/dataset.h"

#include <jansson.h>
#include <stdbool.h>

/* What main says about all pods. */
struct render_env {
    const char *image;
    const char *pull_policy;  /* "" : the server's default */
    const char *pull_secrets; /* comma-separated, "" if none */
    const json_t *defaults;   /* of dataset_parse(), NULL if none */
    /* of all pods, NULL if none: maps of strings */
    const json_t *env, *labels, *annotations;
    const char *ca_bundle;      /* certificates to trust for stores, PEM; NULL or "" if none */
    const char *priority_class; /* of pods whose Dataset names none; NULL or "" if none */
    /* of which the keys of Datasets are made; NULL: cache workers answer everybody */
    const struct sign_key *master;
    /* of NetworkPolicies: who else may connect to pods of a Dataset; NULL: none are made */
    const json_t *ingress;
    /* ANNOTATION_HASH of node plugins as they should be; NULL or "": their image says it */
    const char *plugin_hash;
    const json_t *keep_free; /* percent of a disk that caches leave free; NULL: the default */
    const json_t *endpoints; /* servers that Secrets may name; NULL or empty: any */
    bool openshift;          /* the namespace says which user a pod runs as */
    /* names of resources that are GPUs, with '*'; NULL: those that are known */
    const json_t *gpu_resources;
    /* matchExpressions of the nodes that the node plugin is for, beside those of all; NULL: none */
    const json_t *plugin_nodes;
    int most_workers; /* of dataset_cap_workers(); 0: any number */
};

/* Where a worker should go rather than elsewhere. */
struct render_place {
    const char *node;
    int weight; /* 1 … 100 */
};
struct render_places {
    const struct render_place *v; /* RENDER_PLACES_MAX of them count */
    size_t n;                     /* 0: anywhere, on different nodes */
    const char *offered;          /* its ANNOTATION_OFFERED */
};
#define RENDER_PLACES_MAX 32
/* places: NULL if not known */
json_t *render_worker(const struct dataset *d, const struct render_env *env, int index,
    const struct render_places *places);
json_t *render_client(const struct dataset *d, const struct render_env *env, const char *node);
/* Makes it ask for nothing, for a node without room; its stamp stays. */
void render_small(json_t *client);
/* ANNOTATION_HASH of such a pod, which is the same on all nodes. Caller frees. */
char *render_client_stamp(const struct dataset *d, const struct render_env *env);
/* What a loader is told; pin and bandwidth as in struct dataload. */
struct loader_words {
    const json_t *paths; /* array of strings; empty: everything */
    int pin;
    int64_t bandwidth;
    const char *run; /* its ANNOTATION_SCHEDULED; "" or NULL: none */
};
/* Loads them of d for the DataLoad `owner`. */
json_t *render_loader(const struct dataset *d, const struct render_env *env, const json_t *owner,
    const struct loader_words *words);

/* Keeps spec.cache.preload in the workers, for as long as it runs. */
json_t *render_preloader(const struct dataset *d, const struct render_env *env);

/* Was the pod made of the same desired one? */
bool render_same(const json_t *desired, const json_t *pod);

#endif
