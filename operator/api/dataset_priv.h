/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_priv — the parts of dataset_parse(), one file each. All return -1 with e INVALID, which
 * names the field and the remedy. */
#ifndef MILLRACE_OPERATOR_API_DATASET_PRIV_H
#define MILLRACE_OPERATOR_API_DATASET_PRIV_H

#include "operator/api/dataset.h"

/* reasons of the condition Ready */
#define REASON_URL    "InvalidURL"
#define REASON_OPTION "InvalidOption"
#define REASON_NAME   "NameTooLong"
#define REASON_SPEC   "InvalidSpec"

/* "Memory", "SSD", "HDD" */
const char *dataset_medium_name(enum conf_medium medium);
/* list ends with NULL */
bool dataset_word_in(const char *word, const char *const *list);
/* Names of objects, and of files in our volumes: letters, digits and the given others, not
 * beginning with a dot. */
bool dataset_plain_name(const char *s, const char *others);
/* "/", or "/a/b": no empty names, no "." and "..", nothing at the end. */
bool dataset_plain_path(const char *path);

/* Fields that earlier versions had, in words that name what to write now (dataset_gone.c). */
int dataset_refuse_gone(const struct dataset *d, struct err *e);
/* dataset_defaults_cache.c: of the cluster's defaults by themselves; NULL if there are none */
int dataset_check_default_cache(const json_t *cache, struct err *e);
/* dataset_mount.c; options: of the cluster's defaults, by scheme, NULL if none */
int dataset_parse_mounts(
    struct dataset *d, const json_t *options, const char **reason, struct err *e);
/* dataset_cache.c; d->cache, d->read_only and the mounts are there already */
int dataset_parse_cache(struct dataset *d, struct err *e);

#endif
