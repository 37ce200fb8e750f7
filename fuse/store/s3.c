/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store: its options, what they make of a connection, and its table of functions. */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const struct store_option s3_options[] = {
    {"endpoint", STORE_OPTION_URL, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
        {"alluxio.underfs.s3.endpoint", "url"},
        "URL of the S3 server; default: Amazon's of the region"},
    {"region", STORE_OPTION_STRING, {"AWS_REGION", "AWS_DEFAULT_REGION"},
        {"alluxio.underfs.s3.endpoint.region"}, "region of the bucket; default us-east-1"},
    {"path-style", STORE_OPTION_BOOL, {0}, {0},
        "true: http://server/bucket/key instead of http://bucket.server/key; default true where endpoint is given"},
    {"access-key-id", STORE_OPTION_SECRET, {"AWS_ACCESS_KEY_ID"}, {"aws.accessKeyId", "access-key"},
        "access key"},
    {"secret-access-key", STORE_OPTION_SECRET, {"AWS_SECRET_ACCESS_KEY"},
        {"aws.secretKey", "secret-key"}, "secret key"},
    {"session-token", STORE_OPTION_SECRET, {"AWS_SESSION_TOKEN"}, {0},
        "token of temporary credentials"},
    {"ca-cert", STORE_OPTION_STRING, {0}, {0},
        "certificates to trust instead of the system's, as PEM text"},
    {"tls-verify", STORE_OPTION_BOOL, {0}, {0},
        "false: do not check the server's certificate; default true"},
    {0},
};

/* Can the bucket be the first label of a host name that a wildcard certificate covers? */
static bool fits_host(const char *bucket)
{
    size_t n = strlen(bucket);
    if (n > 63 || bucket[0] == '-' || bucket[n - 1] == '-')
        return false;
    for (const char *p = bucket; *p; p++)
        if (!(islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '-'))
            return false;
    return true;
}

static int set_endpoint(struct s3 *s, const char *endpoint, bool path_style, struct err *e)
{
    bool tls = strncmp(endpoint, "https", 5) == 0;
    const char *host = strstr(endpoint, "://") + 3;
    size_t n = strcspn(host, "/?#");
    if (n == 0 || memchr(host, '@', n) || (host[n] && strcmp(host + n, "/") != 0))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, s->params.url,
            ": option endpoint is '%s'; write scheme, host and port only, for example https://s3.example.com:9000",
            endpoint);
    /* libcurl leaves the usual port out of the Host header */
    const char *standard = tls ? ":443" : ":80";
    size_t plen = strlen(standard);
    if (n > plen && strncmp(host + n - plen, standard, plen) == 0)
        n -= plen;
    s->host = path_style ? xstrndup(host, n) : xasprintf("%s.%.*s", s->bucket, (int)n, host);
    for (char *p = s->host; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    s->origin = xasprintf("%s://%s", tls ? "https" : "http", s->host);
    s->path_prefix = path_style ? xasprintf("/%s", s->bucket) : xstrdup("");
    return 0;
}

static bool region_ok(const char *region)
{
    size_t n = strlen(region);
    return n > 0 && n < 40
        && strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == n;
}

static int s3_configure(struct s3 *s, struct err *e)
{
    const struct store_params *p = &s->params;
    cleanup_free char *endpoint = NULL, *style = NULL, *verify = NULL, *ca = NULL;
    if (option_get(p, "endpoint", &endpoint, e) || option_get(p, "region", &s->region, e)
        || option_get(p, "path-style", &style, e) || option_get(p, "tls-verify", &verify, e)
        || option_get(p, "ca-cert", &ca, e))
        return -1;
    s->endpoint_given = endpoint != NULL;
    s->region_given = s->region != NULL;
    if (!s->region)
        s->region = xstrdup("us-east-1");
    if (!region_ok(s->region))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option region is '%s'; write for example eu-central-1", s->region);
    if (!endpoint)
        endpoint = xasprintf("https://s3.%s.amazonaws.com%s", s->region,
            strncmp(s->region, "cn-", 3) == 0 ? ".cn" : "");
    bool path_style = style ? strcmp(style, "true") == 0
                            : s->endpoint_given || !fits_host(s->bucket);
    if (!path_style && !fits_host(s->bucket))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option path-style is false, but the bucket's name cannot be part of a host name; set it to true");
    if (set_endpoint(s, endpoint, path_style, e))
        return -1;
    struct http_conf conf = {
        .ca_pem = ca,
        .insecure = verify && strcmp(verify, "false") == 0,
        .connect_ns = MIN(p->deadline_ns, 5 * NS_PER_S),
        .max_idle = p->max_connections,
        .user_agent = "millrace/" MILLRACE_VERSION,
    };
    s->http = http_new(&conf, e);
    if (!s->http)
        return -1;
    s->cred = s3_cred_new(p, s->region);
    return 0;
}

static void s3_close(void *impl)
{
    struct s3 *s = impl;
    http_free(s->http);
    s3_cred_free(s->cred);
    free(s->bucket);
    free(s->prefix);
    free(s->origin);
    free(s->host);
    free(s->path_prefix);
    free(s->region);
    free(s);
}

static void *s3_open(const struct store_params *p, struct err *e)
{
    struct s3 *s = xcalloc(1, sizeof *s);
    s->params = *p;
    s->single_put_max = 64 * MIB;
    s->part_size = 16 * MIB;
    s->single_copy_max = 1024 * MIB; /* 5 GiB would do, but parts are copied at the same time */
    s->copy_part_size = 256 * MIB;
    s->parallel_parts = 4;
    const char *problem;
    if (s3_url_parse(p->rest, &s->bucket, &s->prefix, &problem)) {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url, ": %s; write s3://bucket/prefix",
            problem);
        s3_close(s);
        return NULL;
    }
    if (s3_configure(s, e)) {
        s3_close(s);
        return NULL;
    }
    return s;
}

const struct store_ops store_s3 = {
    .kind = {"s3", "s3://bucket/prefix", s3_options, STORE_CAP_WRITE},
    .open = s3_open,
    .close = s3_close,
    .check = s3_check,
    .stat_path = s3_stat,
    .list = s3_list,
    .list_tree = s3_list_tree,
    .read = s3_read,
    .put = s3_put,
    .remove = s3_remove,
    .mkdir = s3_mkdir,
    .rmdir = s3_rmdir,
    .rename = s3_rename,
};
