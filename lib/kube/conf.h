/* SPDX-License-Identifier: Apache-2.0 */
/* conf — inside lib/kube: what a kube_conf holds. */
#ifndef MILLRACE_LIB_KUBE_CONF_H
#define MILLRACE_LIB_KUBE_CONF_H

#include "lib/base/err.h"
#include "lib/kube/kube.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CONF_FILE_MAX ((size_t)4 << 20) /* a kubeconfig, a certificate, a token */
/* a token file is read again after that long: kubelet rotates it */
#define CONF_TOKEN_NS (60 * INT64_C(1000000000))
#define CONF_POD_DIR  "/var/run/secrets/kubernetes.io/serviceaccount"

struct kube_conf {
    char *server; /* no slash at the end */
    char *ns;
    char *ca_pem, *cert_pem, *key_pem; /* NULL: none */
    char *ca_file;                     /* wins over ca_pem, which it held at first; NULL: none */
    char *cert_file, *key_file;        /* as ca_file; both or neither */
    bool insecure, in_cluster;         /* in_cluster: of a pod's service account */
    char *token_file;                  /* NULL: token is constant */
    pthread_mutex_t mu;                /* leaf */
    char *token;                       /* mu; NULL: none */
    int64_t token_at;                  /* mu; mono ns of the last reading */
};

/* The pod's service account: dir holds token, ca.crt, namespace. */
struct kube_conf *kube_conf_pod(const char *dir, const char *host, const char *port, struct err *e);

/* One kubeconfig, YAML or JSON; relative file names in it are taken from dir. Of w, context and
 * exec count; NULL: none. */
struct kube_conf *kube_conf_parse(
    const char *text, size_t len, const char *dir, const struct kube_where *w, struct err *e);
/* credential.c: asks exec for what the user (users[].user, with `exec` in it) shows to the server
 * of c. */
int kube_conf_exec(struct kube_conf *c, const json_t *user, kube_exec exec, struct err *e);

/* The bearer token of now, caller frees; NULL if none is used. A token file is read again when it
 * is CONF_TOKEN_NS old, or at once if `fresh`; one that cannot be read leaves the last token in
 * place. The token is made known to log_redact(). */
char *kube_conf_token(struct kube_conf *c, bool fresh);

#endif
