/* SPDX-License-Identifier: Apache-2.0 */
/* dataset — the Dataset custom resource, json → struct, and the words of its status. The only place
 * that spells its fields. Pure. The API server has checked most of it already (crds/); it is
 * checked again here, because a CRD may be older than we are and because nothing that a user wrote
 * may bring the operator down. */
#ifndef MILLRACE_OPERATOR_API_DATASET_H
#define MILLRACE_OPERATOR_API_DATASET_H

#include "lib/base/err.h"
#include "lib/conf/conf.h"
#include "operator/api/dataload.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATASET_MOUNTS_MAX   32
#define DATASET_SECRETS_MAX  16
#define DATASET_TIERS_MAX    3
#define DATASET_QUOTA_MAX    (INT64_C(1) << 50) /* bytes of one tier in one pod: 1Pi */
#define DATASET_RULES_MAX    64
#define DATASET_PRELOAD_MAX  64
#define DATASET_NODES_MAX    20 /* in a list of a status: the first by name */
#define DATASET_REPLICAS_MAX 1000
#define DATASET_AUDIENCE     "sts.amazonaws.com" /* of tokens, where nothing else is said */

/* phases, conditions */
#define DATASET_NOT_BOUND    "NotBound"
#define DATASET_BOUND        "Bound"
#define DATASET_FAILED       "Failed"
#define DATASET_DELETING     "Deleting"
#define DATASET_COND_READY   "Ready"
#define DATASET_COND_WORKERS "WorkersReady"
#define DATASET_COND_CLIENTS "ClientsReady"
#define DATASET_COND_CACHE   "CacheHealthy"
/* only where the spec preloads something */
#define DATASET_COND_PRELOADED "Preloaded"
#define DATASET_COND_STALLED   "Stalled"
/* only while an update of the clients is stopped */
#define DATASET_COND_PAUSED "UpdatePaused"

struct dataset_kind; /* dataset_kind.h */

enum dataset_placement {
    DATASET_BESIDE_GPU, /* workers go to nodes with GPUs, first those where jobs use the data */
    DATASET_ANY,
};

struct dataset_secret {
    const char *option, *secret, *key; /* the option's value is in this Secret under this key */
};

struct dataset_mount {
    const struct dataset_kind *kind;
    const char *mount_point, *path; /* path: where it is in the tree */
    char *claim, *claim_path;       /* owned; NULL: it is none; claim_path "" or "/dir" */
    bool read_only;
    int immutable;                 /* 1 nobody changes the source, 0 it may change, -1 not said */
    const json_t *options;         /* NULL if none; values are strings */
    const json_t *default_options; /* of the cluster; NULL if none */
    struct dataset_secret secrets[DATASET_SECRETS_MAX];
    size_t nsecrets;
    const char *secret_ref;            /* a whole Secret; NULL if none */
    const char *ca_configmap, *ca_key; /* certificates to trust; NULL if none */
};

struct dataset_tiers {
    struct conf_tier tier[DATASET_TIERS_MAX];
    size_t n;
    int64_t memory; /* bytes of the Memory tier, 0 if none */
};

/* What holds for path and all below it; the longest path counts. */
struct dataset_rule {
    const char *path, *write_type;
};

struct dataset_preload {
    const char *path;
    bool pin;
};

/* What users say of the pods of one kind. Each pointer NULL if they do not. */
struct dataset_component {
    const json_t *resources, *labels, *annotations;
    const json_t *node_selector; /* nodeAffinity.required; not of clients */
    const json_t *tolerations;   /* not of clients */
    const char *priority_class;  /* "" if none */
    struct dataset_tiers tiers;  /* not of loaders */
};

/* Borrows from the json it was parsed from. */
struct dataset {
    const json_t *cr;
    const char *ns, *name, *uid;
    int64_t generation;
    bool deleting;

    struct dataset_mount mounts[DATASET_MOUNTS_MAX];
    size_t nmounts;
    const json_t *access_modes; /* as given; NULL: ReadOnlyMany */
    bool read_only;             /* no access mode allows writing */
    /* as whom the pods of the cache ask stores; NULL: as nobody. token_audience: for whom */
    const char *service_account, *token_audience;
    json_t *cache; /* owned: spec.cache, the cluster's defaults filled in */
    int replicas;  /* cache workers that are made */
    int asked;     /* and that are asked for: more, where that is more than is of use */
    enum dataset_placement placement;
    bool exclusive; /* a node has one worker at most, of whatever Dataset */
    struct dataset_tiers
        tiers;         /* common to workers and clients; each has its own copy, or others */
    int metadata_sync; /* seconds, 0 if not given */
    struct dataset_rule rules[DATASET_RULES_MAX];
    size_t nrules;
    struct dataset_preload preload[DATASET_PRELOAD_MAX];
    size_t npreload;
    struct dataset_component worker, client, loader;
};

/* defaults: what the cluster's administrator says where a Dataset is silent, {"options": {scheme:
 * {…}}, "cache": {…}}; NULL: nothing. NULL on failure: *reason (a literal: InvalidURL,
 * InvalidOption, NameTooLong, InvalidSpec) and e say what to change, in words. dataset_free() it;
 * cr and defaults must outlive it. */
struct dataset *dataset_parse(
    const json_t *cr, const json_t *defaults, const char **reason, struct err *e);
/* So many cache workers are made at most in a cluster of that many nodes. */
int dataset_most_workers(size_t nodes);
/* No more workers than most, 0: any number; but what its status says that there are stays. */
void dataset_cap_workers(struct dataset *d, int most);
/* The defaults by themselves; NULL is fine. -1 with e INVALID, which names the field. */
int dataset_check_defaults(const json_t *defaults, struct err *e);
/* What a Dataset has that says nothing is within the chart's limits {"replicas", "tierQuota"}; each
 * may be NULL. -1 with e INVALID, which names limit and default. */
int dataset_check_limits(const json_t *defaults, const json_t *limits, struct err *e);
/* Of the operator's configuration: where it has "pluginTolerations", those of the node plugin, and
 * its defaults name none for cache workers, these get what they would tolerate anyway, as far as
 * the plugin goes. Without one on their node they do not start. */
void dataset_hold_to_plugin(json_t *config);
void dataset_free(struct dataset *d);
void cleanup_datasetp(struct dataset **d);
#define cleanup_dataset __attribute__((cleanup(cleanup_datasetp)))

/* Read from the recorded status of a Dataset, also of one whose spec is not valid. */
/* Can pods mount it? *reason, *message: those of the condition Ready, borrowed, "" where there is
 * none. */
bool dataset_is_ready(const json_t *cr, const char **reason, const char **message);
/* Is it another one in more than counters of what was read, cached and written? Progress is. */
bool dataset_is_news(const json_t *was, const json_t *now);
/* 0 … 100, rounded down; -1: the size of the data is not known (yet) */
int dataset_cached_percent(const json_t *cr);

struct dataset_members {
    int desired, ready;
    bool rolls; /* current, outdated: pods made of the spec as it is, and of others */
    int current, outdated;
    json_t *nodes; /* owned by the caller until dataset_status_json; array of strings */
};
struct dataset_status {
    const char *phase;
    const json_t *conditions;   /* array; copied */
    const struct dataset *spec; /* NULL if it is not valid: no mounts then */
    bool has_ufs, ufs_complete;
    int64_t ufs_bytes, ufs_files;
    /* of the pods that hold the cache: workers, or clients where there are none */
    int64_t cached, capacity;
    int64_t client_cached;
    /* delivered to pods: from their node's cache, from workers, from the store */
    int64_t read_cache, read_worker, read_direct;
    int64_t pending_files;
    bool unheard;           /* not all of them have told: the counters that are recorded stay */
    int64_t kept_files;     /* that are on a node and go to no store by themselves */
    const char *key_secret; /* once the Secret of its workers' key was made; else NULL */
    struct dataset_members workers, clients;
    bool has_preload;                 /* or the status says nothing of it */
    struct dataload_progress preload; /* not known: the recorded one stays */
};
/* The new status object, every field set that is known. Takes the two `nodes` arrays. */
json_t *dataset_status_json(const json_t *cr, struct dataset_status *s);
/* kept_files alone, of a status object. */
void dataset_status_set_kept(json_t *status, int64_t kept_files);

#endif
