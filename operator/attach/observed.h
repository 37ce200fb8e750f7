/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what the plan for one PersistentVolume's attachments looks at. Borrowed and immutable
 * while the plan is made. */
#ifndef MILLRACE_OPERATOR_ATTACH_OBSERVED_H
#define MILLRACE_OPERATOR_ATTACH_OBSERVED_H

#include "operator/ctl/plan.h"
#include "operator/dataset/cache_pod.h"
#include "operator/render/pod.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attach_observed {
    const char *pv;       /* the PersistentVolume's name */
    const json_t *volume; /* itself; NULL: it is gone, or none of ours */
    const json_t *cr;     /* its Dataset; NULL: there is none (any more) */
    /* the Dataset may be another operator's: leave the attachments alone if there is none here */
    bool foreign;
    /* VolumeAttachments of our driver for this PersistentVolume, sorted by name */
    const json_t *const *attachments;
    size_t nattachments;
    const json_t *const *nodes;   /* that of each attachment, NULL: it is gone; or not looked up */
    const struct cache_pod *pods; /* all with the Dataset's uid; workers: how many there are */
    size_t npods;
    const json_t *const *plugins; /* the pods of the node plugin, of all nodes */
    size_t nplugins;
    const json_t *said; /* of ctl/verdicts, of the Dataset's pods; may be NULL */
    int64_t now_ns;     /* since the epoch */
    struct render_env env;
};

/* One client a node with an attachment; attached once it serves, attachError in words while it
 * cannot. */
void attach_plan(const struct attach_observed *o, struct plan *p);
/* The server refused the client of this attachment. */
void attach_plan_refused(
    const json_t *cr, const json_t *attachment, const char *why, int64_t now_ns, struct plan *then);

#endif
