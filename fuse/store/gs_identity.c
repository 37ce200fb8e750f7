/* SPDX-License-Identifier: Apache-2.0 */
/* As whom a bucket of Google's is asked: by credentials that a person gave, as the service account
 * of the pod, as the machine, or as nobody. */
#include "fuse/store/gs.h"

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MAX (64u << 10) /* bytes */
#define POOL     "//iam.googleapis.com/"

static const char *const given_names[] = {"credentials", NULL};

/* A file that Google's tools write; wanted: it was named. */
static int take_document(const struct store_params *p, const char *path, bool wanted,
    struct s3_identity *out, struct err *e)
{
    struct err inner = ERR_INIT;
    out->document = file_read(path, FILE_MAX, NULL, &inner);
    if (!out->document && (wanted || inner.cls != ERR_NOTFOUND))
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": no credentials in %s: %s", path, inner.msg);
    if (!out->document)
        return 0;
    log_redact(out->document);
    out->first = S3_DOCUMENT;
    out->origin = xasprintf("the file %s", path);
    return 0;
}

/* On a machine of one's own: what Google's tools find there, in their order. */
static int take_found(const struct store_params *p, struct s3_identity *out, struct err *e)
{
    const char *named = option_env("GOOGLE_APPLICATION_CREDENTIALS"), *home = option_env("HOME");
    if (named)
        return take_document(p, named, true, out, e);
    const char *config = option_env("CLOUDSDK_CONFIG");
    cleanup_free char *dir = config ? xstrdup(config)
        : home                      ? xasprintf("%s/.config/gcloud", home)
                                    : NULL;
    cleanup_free char *usual = dir ? path_join(dir, "application_default_credentials.json") : NULL;
    if (usual && take_document(p, usual, false, out, e))
        return -1;
    if (out->first != S3_NOBODY)
        return 0;
    cleanup_free char *endpoint = NULL;
    if (option_get(p, "endpoint", &endpoint, e))
        return -1;
    if (option_env("GCE_METADATA_HOST") || !endpoint)
        s3_identity_machine(
            out, !option_env("GCE_METADATA_HOST"), "the service account of this machine");
    return 0;
}

/* The pod's token, shown to a pool that trusts the cluster. */
static int take_provider(
    const struct store_params *p, const char *provider, struct s3_identity *out, struct err *e)
{
    const char *file = option_env(ENV_IDENTITY_TOKEN);
    if (strncmp(provider, "projects/", 9) != 0 || !http_is_word(provider, strlen(provider))
        || strpbrk(provider, "\"\\"))
        return option_err(p, "workload-provider", provider,
            "it takes projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER",
            e);
    if (!file)
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": option workload-provider needs a token to show: %s",
            p->secrets_dir ? "set spec.serviceAccountName of the Dataset"
                           : "name a file of external_account in GOOGLE_APPLICATION_CREDENTIALS");
    out->first = S3_WEB_IDENTITY;
    out->web.arn = xasprintf(POOL "%s", provider);
    out->token_file = xstrdup(file);
    out->origin = xasprintf("the service account at %s", provider);
    return 0;
}

static int take_any(const struct store_params *p, struct s3_identity *out, struct err *e)
{
    cleanup_free char *provider = NULL;
    bool instance = false;
    if (option_is_true(p, "instance-metadata", &instance, e)
        || option_get(p, "workload-provider", &provider, e)
        || option_get(p, given_names[0], &out->document, e))
        return -1;
    if (out->document) {
        out->first = S3_DOCUMENT;
        out->origin = option_origin(p, given_names);
        return 0;
    }
    if (provider)
        return take_provider(p, provider, out, e);
    if (!p->secrets_dir && !instance)
        return take_found(p, out, e);
    /* a cluster of Google's answers a pod as its own service account */
    if (instance || option_env(ENV_IDENTITY_TOKEN))
        s3_identity_machine(out, false,
            instance ? "the service account of the node" : "the service account of the Dataset");
    return 0;
}

int gs_identity_get(const struct store_params *p, struct s3_identity *out, struct err *e)
{
    *out = (struct s3_identity){0};
    bool anonymous = false;
    int rc = option_is_true(p, "anonymous", &anonymous, e);
    if (rc == 0 && !anonymous)
        rc = take_any(p, out, e);
    if (rc)
        s3_identity_clear(out);
    else if (!out->origin)
        out->origin = option_origin(p, given_names);
    return rc;
}
