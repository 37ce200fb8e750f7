/* SPDX-License-Identifier: Apache-2.0 */
/* The store of Google Cloud Storage: its options, and its table of functions, which are S3's. */
#include "fuse/store/gs.h"

#include "fuse/store/s3.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define ENDPOINT "https://storage.googleapis.com"
#define MIB      (UINT64_C(1) << 20)

static const struct store_option gs_options[] = {
    {"endpoint", STORE_OPTION_URL, {0}, {"alluxio.underfs.s3.endpoint", "url"},
        .help = "URL of the server of the XML API; default: " ENDPOINT},
    {"credentials", STORE_OPTION_SECRET, {0}, {"key.json", "credentials.json"},
        .help =
            "text of a file of JSON as Google's tools write it: service_account, external_account or authorized_user",
        .lines = true},
    {"workload-provider", STORE_OPTION_STRING, {0}, {0},
        .help =
            "projects/NUMBER/.../providers/NAME: the pool's provider that trusts the cluster, where it is none of Google's; it is shown the token of the service account"},
    {"sts-endpoint", STORE_OPTION_URL, {0}, {0},
        .help = "URL of the token service of workload-provider; default: Google's"},
    {"anonymous", STORE_OPTION_BOOL, {0}, {0},
        .help = "true: nobody asks, whatever credentials there are; for public buckets"},
    {"instance-metadata", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "true: the service account of the node or pod, from the metadata server, where there are no other credentials"},
    {"user-project", STORE_OPTION_STRING, {0}, {0},
        .help = "project that pays for the requests, where the bucket's owner does not"},
    {"storage-class", STORE_OPTION_STRING, {0}, {0},
        .help = "of what is written, like NEARLINE; default: the bucket's"},
    {"kms-key-id", STORE_OPTION_STRING, {0}, {0},
        .help =
            "projects/NAME/.../cryptoKeys/NAME: key with which the server encrypts what is written; default: as the bucket says"},
    {"checksum", STORE_OPTION_STRING, {0}, {0},
        .help =
            "CRC32C: sent with what is written, and compared with what is read whole; default: none"},
    {S3_OPTION_S3FS, STORE_OPTION_BOOL, {0}, {0}, .help = S3_OPTION_S3FS_HELP},
    {"ca-cert", STORE_OPTION_CERTS, {0}, {0},
        .help = "certificates to trust instead of the system's, as PEM text"},
    {"tls-verify", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "false: do not check the server's certificate, and send tokens to http:// servers; default true"},
    {0},
};

static int take_place(struct s3 *s, struct err *e)
{
    const struct store_params *p = &s->params;
    int rc = option_get(p, "endpoint", &s->endpoint, e);
    /* a Secret may come later, and say another one */
    if (rc == 0 && !s->endpoint && (rc = option_require_whole(p, e)) == 0)
        s->endpoint = xstrdup(ENDPOINT);
    else if (rc == 0)
        rc = s3_endpoint_check(p, "endpoint", s->endpoint, e);
    if (!s->endpoint)
        s->endpoint = xstrdup(ENDPOINT);
    s3_places_open_fixed(s);
    return rc;
}

/* A header of what does that, with the option's word in it. */
static int take_term(struct s3 *s, const char *option, unsigned when, const char *header,
    const char *mend, struct err *e)
{
    cleanup_free char *value = NULL;
    if (option_get(&s->params, option, &value, e))
        return -1;
    if (!value)
        return 0;
    if (!*value || !http_is_word(value, strlen(value)))
        return option_err(&s->params, option, value, mend, e);
    s->terms.term[s->terms.n++] = (struct s3_term){when, xasprintf("%s: %s", header, value)};
    return 0;
}

static int take_terms(struct s3 *s, struct err *e)
{
    cleanup_free char *sum = NULL;
    if (take_term(s, "user-project", 0, "x-goog-user-project", "it takes the id of a project", e)
        || take_term(s, "storage-class", S3_MAKES, "x-goog-storage-class",
            "it takes a name like NEARLINE", e)
        || take_term(s, "kms-key-id", S3_MAKES, "x-goog-encryption-kms-key-name",
            "it takes the name of a key, projects/NAME/.../cryptoKeys/NAME", e)
        || option_get(&s->params, "checksum", &sum, e))
        return -1;
    if (sum && (!s3_sum_kind(sum, &s->terms.sum) || s->terms.sum != S3_SUM_CRC32C))
        return option_err(&s->params, "checksum", sum, "it takes CRC32C", e);
    return 0;
}

static void *gs_open(const struct store_params *p, struct err *e)
{
    struct s3 *s = s3_new(p, e);
    if (!s)
        return NULL;
    s->google = true;
    /* what is put together of parts has no condition there, and nothing is copied in parts */
    s->single_put_max = 128 * MIB;
    s->single_copy_max = UINT64_MAX;
    if (take_place(s, e) || take_terms(s, e) || s3_connect(s, e)) {
        s3_close(s);
        return NULL;
    }
    return s;
}

const struct store_ops store_gs = {
    .kind = {"gs", "gs://bucket/prefix", gs_options, STORE_CAP_WRITE, NULL, 0, "key.json", 0},
    .open = gs_open,
    S3_OPS,
};
