/* SPDX-License-Identifier: Apache-2.0 */
/* cluster — the API server, for verbs that only look: flags, one object, all objects. What a person
 * may not read is skipped and said, not an error. */
#ifndef MILLRACE_FUSE_CLI_CLUSTER_H
#define MILLRACE_FUSE_CLI_CLUSTER_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/kube/kube.h"

struct cluster_flags {
    const char *ns, *kubeconfig, *context, *server;
};
/* rows of a table of flags */
#define CLUSTER_FLAGS(f)                                                                              \
    {"namespace", OPT_STRING, &(f).ns, "NAME", "of this namespace; else of the context's (-n)"},      \
        {"kubeconfig", OPT_STRING, &(f).kubeconfig, "FILE",                                           \
            "who and where; else $KUBECONFIG, the pod's service account or ~/.kube/config"},          \
        {"context", OPT_STRING, &(f).context, "NAME", "of the kubeconfig; else the current one"},     \
    {                                                                                                 \
        "server", OPT_STRING, &(f).server, "URL",                                                     \
            "of an API server that asks for no credentials: http://127.0.0.1:8001 of `kubectl proxy`" \
    }

struct cluster {
    struct kube *kube;
    char *ns;
    struct buf skipped; /* "nodes, volumeattachments": what may not be read */
    bool skipped_here;  /* some of it is of the namespace */
    bool skipped_whole; /* some of it is of no namespace, or of all */
};
int cluster_open(struct cluster *c, const struct cluster_flags *f, struct err *e);
void cluster_close(struct cluster *c);
#define cleanup_cluster __attribute__((cleanup(cluster_close)))

/* All objects, as an array that the caller owns; ns NULL: of all namespaces. NULL in *out: there is
 * no such resource, or it may not be read. fields NULL: all. */
int cluster_list(struct cluster *c, const struct kube_res *res, const char *ns,
    const struct kube_select *sel, json_t **out, struct err *e);
/* NULL in *out: there is none, or it may not be read. */
int cluster_get(struct cluster *c, const struct kube_res *res, const char *ns, const char *name,
    json_t **out, struct err *e);
/* Goes on (0) without what is not there or may not be read; -1: e was another error. */
int cluster_skip(struct cluster *c, const struct kube_res *res, struct err *e);
/* Can an object be called so? What cannot is not asked for: it might name something else. */
int cluster_check_name(const char *what, const char *name, struct err *e);
/* Was it skipped since it may not be read? */
bool cluster_denied(const struct cluster *c, const struct kube_res *res);
/* The error of a list of Datasets that is NULL: not installed, or not allowed. */
int cluster_no_datasets(const struct cluster *c, const char *ns, struct err *e);
/* "note: not looked at …" to out, if anything was skipped */
void cluster_say_skipped(struct cluster *c, FILE *out);

/* credential.c: a kube_exec */
json_t *credential_exec(const json_t *spec, const json_t *info, struct err *e);

#endif
