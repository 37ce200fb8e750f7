/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store: its options, what they make of a connection, and its table of functions. */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define MIB       (UINT64_C(1) << 20)
#define AHEAD_MAX 32 /* requests at a time beside those that a reader waits for */

/* As people and other systems name the keys of a Secret with credentials; the first wins. */
static const struct store_spelling s3_spellings[] = {
    {"options of a mount", false},
    {"environment of the AWS tools; External Secrets, ObjectBucketClaims", false},
    {"JuiceFS", false},
    {"Argo Workflows", false},
    {"AWS SDK for Java", false},
    {"Mountpoint for Amazon S3", true},
    {"many programs", false},
    {"Fluid, Alluxio", false},
    {"Hadoop S3A", false},
    {"AWS credentials file", false},
    {"Rook", false},
    {"MinIO", false},
};
#define KEYS(...) \
    .secret_keys = (const char *const[ARRAY_LEN(s3_spellings)]) { __VA_ARGS__ }

static const struct store_option s3_options[] = {
    {"endpoint", STORE_OPTION_URL, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
        {"alluxio.underfs.s3.endpoint", "url"},
        .help = "URL of the S3 server; default: Amazon's of the region"},
    {"region", STORE_OPTION_STRING, {"AWS_REGION", "AWS_DEFAULT_REGION"},
        {"alluxio.underfs.s3.endpoint.region"},
        .help = "region of the bucket; default: as the server says"},
    {"path-style", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "true: http://server/bucket/key instead of http://bucket.server/key; default true where endpoint is given and not Amazon's"},
    {"access-key-id", STORE_OPTION_SECRET, {"AWS_ACCESS_KEY_ID"}, {"aws.accessKeyId", "access-key"},
        .help = "access key",
        KEYS("access-key-id", "AWS_ACCESS_KEY_ID", "access-key", "accessKey", "accessKeyId",
            "key_id", "access_key", "aws.accessKeyId", "fs.s3a.access.key", "aws_access_key_id",
            "AccessKey", "accesskey"),
        .paired = true},
    {"secret-access-key", STORE_OPTION_SECRET, {"AWS_SECRET_ACCESS_KEY"},
        {"aws.secretKey", "secret-key"}, .help = "secret key",
        KEYS("secret-access-key", "AWS_SECRET_ACCESS_KEY", "secret-key", "secretKey",
            "secretAccessKey", "access_key", "secret_key", "aws.secretKey", "fs.s3a.secret.key",
            "aws_secret_access_key", "SecretKey", "secretkey"),
        .paired = true},
    {"session-token", STORE_OPTION_SECRET, {"AWS_SESSION_TOKEN"}, {0},
        .help = "token of temporary credentials",
        KEYS("session-token", "AWS_SESSION_TOKEN", "session-token", "sessionToken", "sessionToken",
            "session_token", "session_token", "aws.sessionToken", "fs.s3a.session.token",
            "aws_session_token")},
    {"role-arn", STORE_OPTION_STRING, {0}, {0},
        .help =
            "role to assume: with the token of the service account, or with the keys that are given"},
    {"external-id", STORE_OPTION_STRING, {0}, {0},
        .help = "what the role's trust policy wants to hear besides, if it does"},
    {"role-session-name", STORE_OPTION_STRING, {"AWS_ROLE_SESSION_NAME"}, {0},
        .help = "name of the session in the role's logs; default: millrace and the pod's name"},
    {"sts-endpoint", STORE_OPTION_URL, {"AWS_ENDPOINT_URL_STS"}, {0},
        .help =
            "URL of the token service; default: endpoint where that is not Amazon's, else Amazon's of the region"},
    {"anonymous", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "true: requests are not signed, whatever credentials there are; for public buckets"},
    {"instance-metadata", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "true: the role of the node, from its metadata service, where there are no other credentials"},
    {"profile", STORE_OPTION_STRING, {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}, {0},
        .help =
            "profile of ~/.aws/credentials and ~/.aws/config; on machines of one's own, not in a cluster"},
    {"server-side-encryption", STORE_OPTION_STRING, {0}, {0},
        .help =
            "how the server encrypts what is written: AES256, aws:kms or aws:kms:dsse; default: as the bucket says"},
    {"kms-key-id", STORE_OPTION_STRING, {0}, {0},
        .help = "key of aws:kms; default: the bucket's, or the account's"},
    {"sse-customer-key", STORE_OPTION_SECRET, {0}, {0},
        .help =
            "32 bytes in base64 with which the server encrypts what is written and decrypts what is read (SSE-C)"},
    {"storage-class", STORE_OPTION_STRING, {0}, {0},
        .help = "of what is written, like STANDARD_IA; default: the server's"},
    {"requester-pays", STORE_OPTION_BOOL, {0}, {0},
        .help = "true: whoever asks pays for it, and not the bucket's owner"},
    {"acl", STORE_OPTION_STRING, {0}, {0},
        .help =
            "canned access list of what is written, like bucket-owner-full-control; default: the server's"},
    {"expected-bucket-owner", STORE_OPTION_STRING, {0}, {0},
        .help = "account whose bucket it must be, else all is refused"},
    {"checksum", STORE_OPTION_STRING, {0}, {0},
        .help =
            "CRC32C or CRC64NVME: sent with what is written, and compared with what is read whole; default: none"},
    {S3_OPTION_S3FS, STORE_OPTION_BOOL, {0}, {0}, .help = S3_OPTION_S3FS_HELP},
    {"dualstack", STORE_OPTION_BOOL, {"AWS_USE_DUALSTACK_ENDPOINT"}, {0},
        .help = "true: Amazon's servers that have IPv6 addresses, too"},
    {"fips", STORE_OPTION_BOOL, {"AWS_USE_FIPS_ENDPOINT"}, {0},
        .help = "true: Amazon's servers with validated cryptography (FIPS 140)"},
    {"accelerate", STORE_OPTION_BOOL, {0}, {0},
        .help = "true: Amazon's servers near here (transfer acceleration), if the bucket has them"},
    {"ca-cert", STORE_OPTION_CERTS, {0}, {0},
        .help = "certificates to trust instead of the system's, as PEM text"},
    {"tls-verify", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "false: do not check the server's certificate, and send session tokens to http:// servers; default true"},
    {0},
};

int s3_connect(struct s3 *s, struct err *e)
{
    const struct store_params *p = &s->params;
    s->http = option_http(p, &s->clear_tokens, e);
    if (!s->http || option_is_true(p, S3_OPTION_S3FS, &s->s3fs, e))
        return -1;
    s->cred = s3_cred_new(p, s->http, e);
    return s->cred ? 0 : -1;
}

void s3_close(void *impl)
{
    struct s3 *s = impl;
    http_free(s->http);
    s3_cred_free(s->cred);
    s3_places_close(s);
    s3_terms_close(&s->terms);
    s3_notes_fini(&s->notes);
    pace_fini(&s->pace);
    free(s->bucket);
    free(s->prefix);
    free(s);
}

struct s3 *s3_new(const struct store_params *p, struct err *e)
{
    struct s3 *s = xcalloc(1, sizeof *s);
    s->params = *p;
    pace_init(&s->pace, p->max_connections + AHEAD_MAX);
    s3_notes_init(&s->notes);
    s->single_put_max = 64 * MIB;
    s->part_size = 16 * MIB;
    s->single_copy_max = 1024 * MIB; /* 5 GiB would do, but parts are copied at the same time */
    s->copy_part_size = 256 * MIB;
    s->parallel_parts = 4;
    const char *problem;
    if (s3_url_parse(p->rest, &s->bucket, &s->prefix, &problem)) {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url, ": %s; write %s", problem,
            p->kind->url_help);
        s3_notes_fini(&s->notes);
        pace_fini(&s->pace);
        free(s);
        return NULL;
    }
    return s;
}

static void *s3_open(const struct store_params *p, struct err *e)
{
    struct s3 *s = s3_new(p, e);
    if (s && (s3_places_open(s, e) || s3_terms_open(&s->terms, p, e) || s3_connect(s, e))) {
        s3_close(s);
        return NULL;
    }
    return s;
}

void s3_contact(void *impl, char **server, char **who)
{
    struct s3 *s = impl;
    bool lent;
    *server = xstrdup(atomic_load(&s->place)->origin);
    *who = s3_cred_anonymous(s->cred) ? xstrdup("nobody: requests are not signed")
                                      : s3_cred_origin(s->cred, &lent);
}

const struct store_ops store_s3 = {
    .kind = {"s3", "s3://bucket/prefix", s3_options, STORE_CAP_WRITE, s3_spellings,
        ARRAY_LEN(s3_spellings), NULL, 0},
    .open = s3_open,
    S3_OPS,
};
