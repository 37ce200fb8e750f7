/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of client.authentication.k8s.io, made by a program of the user's: what it is told,
 * and what it answers. */
#include "lib/kube/conf.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define GROUP "client.authentication.k8s.io/"

/* What KUBERNETES_EXEC_INFO says: of the cluster only if the kubeconfig wants that. */
static json_t *exec_info(const struct kube_conf *c, const json_t *spec)
{
    json_t *info = json_pack("{s:s, s:s, s:{s:b}}", "apiVersion", jget_str(spec, "apiVersion", ""),
        "kind", "ExecCredential", "spec", "interactive", 0);
    if (!jget_bool(spec, "provideClusterInfo", false))
        return info;
    json_t *cluster = json_pack(
        "{s:s, s:b}", "server", c->server, "insecure-skip-tls-verify", c->insecure);
    if (c->ca_pem) {
        size_t len = strlen(c->ca_pem);
        cleanup_free char *base64 = xcalloc(1, len / 3 * 4 + 8);
        EVP_EncodeBlock((unsigned char *)base64, (const unsigned char *)c->ca_pem, (int)len);
        json_object_set_new(cluster, "certificate-authority-data", json_string(base64));
    }
    json_object_set_new(json_object_get(info, "spec"), "cluster", cluster);
    return info;
}

static char *secret_of(const json_t *answer, const char *path)
{
    const char *text = jget_str(answer, path, "");
    if (!*text)
        return NULL;
    log_redact(text);
    return xstrdup(text);
}

int kube_conf_exec(struct kube_conf *c, const json_t *user, kube_exec exec, struct err *e)
{
    const json_t *spec = jget_obj(user, "exec");
    const char *command, *version = jget_str(spec, "apiVersion", "");
    if (!exec)
        return err_set(e, ERR_INVALID,
            "\"exec\" is not supported: use a token, tokenFile or client certificate");
    if (jget_str_req(user, "exec.command", &command, e))
        return -1;
    if (strcmp(version, GROUP "v1") != 0 && strcmp(version, GROUP "v1beta1") != 0)
        return err_set(e, ERR_INVALID,
            "exec.apiVersion \"%s\" is neither " GROUP "v1 nor " GROUP
            "v1beta1: make the kubeconfig again with a newer tool",
            version);
    cleanup_json json_t *info = exec_info(c, spec);
    cleanup_json json_t *answer = exec(spec, info, e);
    if (!answer)
        return -1;
    c->token = secret_of(answer, "status.token");
    c->cert_pem = secret_of(answer, "status.clientCertificateData");
    c->key_pem = secret_of(answer, "status.clientKeyData");
    if ((c->cert_pem != NULL) != (c->key_pem != NULL) || (!c->token && !c->cert_pem))
        return err_set(e, ERR_DENIED,
            "\"%s\" printed an ExecCredential without a token or a pair of certificate and key",
            command);
    return 0;
}
