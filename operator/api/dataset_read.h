/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_read — what a Dataset and its recorded status say, for those who only look. Pure; nothing
 * fails: what is not there is unknown. Borrows from the Dataset. */
#ifndef MILLRACE_OPERATOR_API_DATASET_READ_H
#define MILLRACE_OPERATOR_API_DATASET_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* conditions that say why readers are slow */
#define DATASET_COND_FULL_SPEED "FullSpeed"
#define DATASET_COND_CACHE_FITS "CacheFits"
/* only where it is so: what pods wrote is on a node and goes to no store by itself */
#define DATASET_COND_WRITES_KEPT "WritesKept"

struct dataset_group {
    int64_t desired, ready;
    const json_t *nodes; /* array of names, the first of them; NULL: unknown */
};

/* Numbers are -1 where they are unknown; percentages are from 0 to 100. */
struct dataset_reading {
    const char *ns, *name, *uid;
    bool deleting, ready;
    const char *reason, *message; /* of the condition Ready; "" if there is none */
    int64_t bytes, files;         /* of the data in the store, as far as it was counted */
    bool counted;                 /* to the end */
    int64_t cached, capacity, client_cached, pending_files;
    int64_t cached_percent, hit_percent, local_percent, remote_percent;
    struct dataset_group workers, clients;
    bool preloads; /* spec.cache.preload asks for something */
    struct dataset_preloaded {
        int64_t files, bytes, done_files, done_bytes, failed_files, percent;
    } preload;
};
void dataset_read(const json_t *cr, struct dataset_reading *out);

/* Is the condition False (not: absent, or unknown)? *message is its own, "" unless it is. */
bool dataset_is_false(const json_t *cr, const char *type, const char **message);

/* Does a served version of the CustomResourceDefinition have the fields that this program knows? */
bool dataset_schema_is_ours(const json_t *crd_version);

/* Mount i as it is used, or, before it was, as it was asked for; false: there is none. */
bool dataset_mount_at(
    const json_t *cr, size_t i, const char **path, const char **url, bool *read_only);

#endif
