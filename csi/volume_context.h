/* SPDX-License-Identifier: Apache-2.0 */
/* volume_context — what a volume is, from its volume_context. Pure. The context of a persistent
 * volume was written by the operator (whoever may write PersistentVolumes is trusted); of an inline
 * volume by the user, except for kubelet's csi.storage.k8s.io/ keys, which a user cannot set.
 * Each value that ends up in a path is checked here: labels of DNS, so no slash, no "..", no
 * leading dot.
 *
 * Any pod of the Dataset's own namespace may use an inline volume of kind client or worker.
 * Such a pod can serve the dataset's files on this node, so a namespace is the border of trust: who
 * may create pods in it may also read its Secrets. */
#ifndef MILLRACE_CSI_VOLUME_CONTEXT_H
#define MILLRACE_CSI_VOLUME_CONTEXT_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum volume_kind {
    VOLUME_KIND_DATASET, /* a Dataset's FUSE mount, served by a client pod */
    VOLUME_KIND_CLIENT,  /* inline volume of a client pod */
    VOLUME_KIND_WORKER,  /* inline volume of a cache worker */
    VOLUME_KIND_PROCESS, /* a FUSE mount served by a process of ours (standalone) */
};

#define VOLUME_LABEL_MAX 63
#define VOLUME_NAME_MAX  253
#define VOLUME_ID_MAX    128

struct volume_context {
    enum volume_kind kind;
    char ns[VOLUME_LABEL_MAX
        + 1]; /* namespace of the Dataset; "standalone" for VOLUME_KIND_PROCESS */
    char uid[VOLUME_ID_MAX + 1];    /* of the Dataset; the volume id for VOLUME_KIND_PROCESS */
    char name[VOLUME_NAME_MAX + 1]; /* of the Dataset, for messages; "" if unknown */
    char pod[VOLUME_NAME_MAX + 1];  /* inline volumes: the pod that has it */
    int read_only;                  /* 1, 0, or -1: not said, the access mode decides */
};

struct volume_pair {
    const char *key, *value;
};

bool volume_is_label(const char *s);     /* DNS label, 1–63 bytes */
bool volume_is_subdomain(const char *s); /* labels with dots between, 1–253 bytes */
/* [A-Za-z0-9._-], 1–128 bytes, no leading dot: also a file name */
bool volume_is_id(const char *s);
bool volume_is_path(const char *s); /* absolute, no "." or ".." in it, shorter than PATH_MAX */

/* NULL if absent; the first wins */
const char *volume_pair_value(const struct volume_pair *p, size_t n, const char *key);
int volume_context_persistent(
    const struct volume_pair *p, size_t n, struct volume_context *out, struct err *e);
int volume_context_inline(
    const struct volume_pair *p, size_t n, struct volume_context *out, struct err *e);
bool volume_context_is_inline(const struct volume_pair *p, size_t n);
/* "dataset default/mnist" for messages */
void volume_context_title(const struct volume_context *s, char *out, size_t cap);
const char *volume_kind_name(enum volume_kind k);
int volume_kind_parse(const char *text, enum volume_kind *out); /* -1 if it is none */

#endif
