/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_kind — what kinds of sources a Dataset may have: one row for each scheme of
 * spec.mounts[].mountPoint. Options and their shapes are in lib/conf/option_name.h. Pure. */
#ifndef MILLRACE_OPERATOR_API_DATASET_KIND_H
#define MILLRACE_OPERATOR_API_DATASET_KIND_H

#include "lib/conf/option_name.h"
#include "operator/api/dataset.h"

struct dataset_kind {
    const char *scheme, *form;   /* "s3", "s3://bucket/prefix" */
    const char *behind;          /* what stands behind "://": "bucket" */
    const char *defaults;        /* where the cluster's are: this, below defaults.options */
    enum option_source options;  /* it takes those */
    const char *takes_no_secret; /* in words, "a PersistentVolumeClaim"; NULL: it takes some */
    const char *takes_no_writes; /* in words, "a web server"; NULL: it is written to */
    /* m->mount_point is a URL of that scheme with something behind it, which begins at rest. Fills
     * in what is its own; -1 with e INVALID. NULL: there is nothing to look at. */
    int (*parse)(const struct dataset *d, struct dataset_mount *m, size_t i, const char *rest,
        struct err *e);
};
const struct dataset_kind *dataset_kind_at(size_t i); /* NULL: no more */
/* "s3://bucket/prefix or pvc://claim/directory"; caller frees */
char *dataset_kind_forms(void);

/* Fills in m->kind and what is the kind's own, by m->mount_point. -1 with e INVALID. */
int dataset_kind_parse(const struct dataset *d, struct dataset_mount *m, size_t i, struct err *e);

#endif
