/* SPDX-License-Identifier: Apache-2.0 */
/* source — what a volume is, from its volume_context. Pure. The context of a persistent volume was
 * written by the operator (whoever may write PersistentVolumes is trusted); of an inline volume by
 * the user, except for kubelet's csi.storage.k8s.io/ keys, which a user cannot set. Whatever ends
 * up in a path is checked here: labels of DNS, so no slash, no "..", no leading dot.
 *
 * Who may use an inline volume of kind client or worker: any pod of the Dataset's own namespace.
 * Such a pod can serve the dataset's files on this node, so a namespace is the border of trust: who
 * may create pods in it may also read its Secrets. */
#ifndef MILLRACE_CSI_VOLUME_CONTEXT_H
#define MILLRACE_CSI_VOLUME_CONTEXT_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum source_kind {
    SOURCE_DATASET, /* a Dataset's FUSE mount, served by a client pod */
    SOURCE_CLIENT,  /* inline volume of a client pod */
    SOURCE_WORKER,  /* inline volume of a cache worker */
    SOURCE_CHILD,   /* a FUSE mount served by a process of ours (standalone) */
};

#define SOURCE_LABEL_MAX 63
#define SOURCE_NAME_MAX  253
#define SOURCE_ID_MAX    128

struct source {
    enum source_kind kind;
    char ns[SOURCE_LABEL_MAX + 1];  /* namespace of the Dataset; "standalone" for SOURCE_CHILD */
    char uid[SOURCE_ID_MAX + 1];    /* of the Dataset; the volume id for SOURCE_CHILD */
    char name[SOURCE_NAME_MAX + 1]; /* of the Dataset, for messages; "" if unknown */
    char pod[SOURCE_NAME_MAX + 1];  /* inline volumes: the pod that has it */
    int read_only;                  /* 1, 0, or -1: not said, the access mode decides */
};

struct source_pair {
    const char *key, *value;
};

bool source_label(const char *s);     /* DNS label, 1–63 bytes */
bool source_subdomain(const char *s); /* labels with dots between, 1–253 bytes */
/* [A-Za-z0-9._-], 1–128 bytes, no leading dot: also a file name */
bool source_volume_id(const char *s);
bool source_path(const char *s); /* absolute, no "." or ".." in it, shorter than PATH_MAX */

/* NULL if absent; the first wins */
const char *source_value(const struct source_pair *p, size_t n, const char *key);
int source_of_persistent(const struct source_pair *p, size_t n, struct source *out, struct err *e);
int source_of_inline(const struct source_pair *p, size_t n, struct source *out, struct err *e);
bool source_is_inline(const struct source_pair *p, size_t n);
/* "dataset default/mnist" for messages */
void source_title(const struct source *s, char *out, size_t cap);
const char *source_kind_name(enum source_kind k);
int source_kind_parse(const char *text, enum source_kind *out); /* -1 if it is none */

#endif
