/* SPDX-License-Identifier: Apache-2.0 */
/* Where an S3 bucket is: server and region, as options say it or, without option region, as the
 * server does when it is asked at the wrong place. */
#include "fuse/store/s3.h"
#include "fuse/store/s3_identity.h"

#include "lib/base/buf.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX      4  /* of one store, ever: a bucket does not move */
#define TOLD_REGION_MAX 32 /* bytes; longer ones are none */
#define ALNUM           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

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

static bool region_ok(const char *region)
{
    size_t n = strlen(region);
    return n > 0 && n < S3_REGION_MAX && strspn(region, ALNUM "-_") == n;
}

/* A region becomes part of a host name and of headers: what a server says must look like one. */
static bool told_region_ok(const char *region)
{
    size_t n = strlen(region);
    return region_ok(region) && n <= TOLD_REGION_MAX && region[0] != '-' && region[n - 1] != '-';
}

static void place_free(struct s3_place *p)
{
    free(p->region);
    free(p->origin);
    free(p->host);
    free(p->path_prefix);
    free(p);
}

char *s3_origin(const char *url)
{
    bool tls = strncmp(url, "https", 5) == 0;
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "/");
    const char *standard = tls ? ":443" : ":80";
    size_t plen = strlen(standard);
    if (n > plen && strncmp(host + n - plen, standard, plen) == 0)
        n -= plen;
    char *origin = xasprintf("%s://%.*s", tls ? "https" : "http", (int)n, host);
    for (char *c = origin; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return origin;
}

/* endpoint: scheme, host and port, checked; NULL: Amazon's of the region. */
static struct s3_place *place_new(
    const struct s3 *s, const char *endpoint, bool path_style, const char *region)
{
    const char *stack = s->dualstack ? ".dualstack" : "", *fips = s->fips ? "-fips" : "";
    cleanup_free char *amazon = s->accelerate
        ? xasprintf("https://s3-accelerate%s.amazonaws.com", stack)
        : xasprintf("https://s3%s%s.%s.amazonaws.com%s", fips, stack, region,
            strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    cleanup_free char *origin = s3_origin(endpoint ? endpoint : amazon);
    const char *host = strstr(origin, "://") + 3;
    struct s3_place *p = xcalloc(1, sizeof *p);
    p->region = xstrdup(region);
    p->host = path_style ? xstrdup(host) : xasprintf("%s.%s", s->bucket, host);
    p->origin = xasprintf("%.*s%s", (int)(host - origin), origin, p->host);
    p->path_prefix = path_style ? xasprintf("/%s", s->bucket) : xstrdup("");
    return p;
}

static int check_shape(
    const struct store_params *p, const char *option, const char *url, struct err *e)
{
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "/?#");
    if (n && !memchr(host, '@', n) && (!host[n] || strcmp(host + n, "/") == 0))
        return 0;
    return option_err(p, option, url,
        "write scheme, host and port only, for example https://s3.example.com:9000", e);
}

static bool has_value(const struct conf_pair *pair, const char *value)
{
    return pair && strcmp(pair->value, value) == 0;
}

/* Options are judged when a Dataset is written, the cluster's default is the cluster's. What a
 * Secret says is seen by nobody before us: it must be one of those that the cluster allows. */
static int check_allowed(
    const struct store_params *p, const char *option, const char *url, struct err *e)
{
    const struct conf_mount *m = p->mount;
    const struct store_option *o = store_option_find(p->kind->options, option);
    if (!m->nendpoints || has_value(option_pair(m->options, m->noptions, o), url)
        || has_value(option_pair(m->default_options, m->ndefault_options, o), url))
        return 0;
    cleanup_buf struct buf list = BUF_INIT(4096);
    for (size_t i = 0; i < m->nendpoints; i++) {
        if (strcmp(m->endpoints[i], url) == 0)
            return 0;
        buf_addf(&list, "%s%s", i ? ", " : "", m->endpoints[i]);
    }
    cleanup_free char *shown = option_shown(p, option, url);
    return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, p->url,
        ": option %s is %s, but this cluster allows %s only: use one of them, or ask whoever installed Millrace (value limits.endpoints)",
        option, shown, buf_str(&list));
}

int s3_endpoint_check(
    const struct store_params *p, const char *option, const char *url, struct err *e)
{
    return check_shape(p, option, url, e) ? -1 : check_allowed(p, option, url, e);
}

/* Which of Amazon's servers. An endpoint that is given is one of them already, or none. */
static int choose_servers(struct s3 *s, struct err *e)
{
    const struct store_params *p = &s->params;
    if (option_is_true(p, "dualstack", &s->dualstack, e) || option_is_true(p, "fips", &s->fips, e)
        || option_is_true(p, "accelerate", &s->accelerate, e))
        return -1;
    const char *one = s->accelerate ? "accelerate" : s->fips ? "fips" : "dualstack";
    const struct store_option *o = store_option_find(p->kind->options, one);
    if (s->endpoint && (s->dualstack || s->fips || s->accelerate)) {
        if (option_is_explicit(p, o))
            return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
                ": option %s chooses among Amazon's servers, but option endpoint names one: keep one of them",
                one);
        s->dualstack = s->fips = s->accelerate = false; /* the environment's, for others */
    }
    if (s->accelerate && s->fips)
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": options accelerate and fips contradict each other: keep one");
    if (s->accelerate && (s->path_style || !fits_host(s->bucket)))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option accelerate needs the bucket in the host's name: %s",
            s->path_style ? "leave out path-style"
                          : "this one's name has dots, or capitals, and cannot be there");
    return 0;
}

/* A name of Amazon's, of whatever kind: "https://s3.dualstack.eu-west-1.amazonaws.com". */
bool s3_is_amazons(const char *endpoint)
{
    const char *host = strstr(endpoint, "://") + 3;
    cleanup_free char *name = xstrndup(host, strcspn(host, ":/"));
    static const char *const ends[] = {".amazonaws.com", ".amazonaws.com.cn", ".api.aws"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (strlen(name) > strlen(ends[i])
            && strcmp(name + strlen(name) - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

int s3_places_open(struct s3 *s, struct err *e)
{
    const struct store_params *p = &s->params;
    cleanup_free char *region = NULL, *style = NULL;
    pthread_mutex_init(&s->places_mu, NULL);
    if (s3_endpoint_get(p, &s->endpoint, e) || option_get(p, "region", &region, e)
        || option_get(p, "path-style", &style, e))
        return -1;
    if (!region)
        region = s3_file_setting(p, "region");
    /* it may come later, and say where the server is: Amazon's is no guess to send keys to */
    if (!s->endpoint && option_require_whole(p, e))
        return -1;
    if (region && !region_ok(region))
        return option_err(p, "region", region, "write for example eu-central-1", e);
    if (s->endpoint && s3_endpoint_check(p, "endpoint", s->endpoint, e))
        return -1;
    bool others = s->endpoint && !s3_is_amazons(s->endpoint);
    s->path_style = style ? strcmp(style, "true") == 0 : others;
    if (choose_servers(s, e))
        return -1;
    s->path_style |= !style && !fits_host(s->bucket);
    if (!s->path_style && !fits_host(s->bucket))
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": option path-style is false, but the bucket's name cannot be part of a host name; set it to true");
    s->region_given = region != NULL;
    s->places = place_new(s, s->endpoint, s->path_style, region ? region : "us-east-1");
    atomic_store(&s->place, s->places);
    return 0;
}

void s3_places_open_fixed(struct s3 *s)
{
    pthread_mutex_init(&s->places_mu, NULL);
    s->path_style = s->region_given = true;
    s->places = place_new(s, s->endpoint, true, "auto");
    atomic_store(&s->place, s->places);
}

void s3_places_close(struct s3 *s)
{
    for (struct s3_place *p = s->places, *next; p; p = next) {
        next = p->next;
        place_free(p);
    }
    pthread_mutex_destroy(&s->places_mu);
    free(s->endpoint);
}

/* A place that no request has been to; NULL: it is known (the server leads in a circle), or there
 * were too many. */
static struct s3_place *place_add(struct s3 *s, const char *region)
{
    mutex_assert_held(&s->places_mu);
    size_t n = 0;
    for (const struct s3_place *p = s->places; p; p = p->next, n++)
        if (strcmp(p->region, region) == 0)
            return NULL;
    if (n >= PLACES_MAX)
        return NULL;
    struct s3_place *p = place_new(s, s->endpoint, s->path_style, region);
    p->next = s->places;
    s->places = p;
    return p;
}

bool s3_place_learn(struct s3 *s, const struct s3_place *asked, const char *region)
{
    if (s->region_given || !told_region_ok(region))
        return false;
    pthread_mutex_lock(&s->places_mu);
    const struct s3_place *now = atomic_load(&s->place);
    if (now == asked) {
        struct s3_place *other = place_add(s, region);
        if (other) {
            atomic_store(&s->place, other);
            now = other;
            log_info("%s: the bucket is in region %s: requests go to %s from now on", s->params.url,
                now->region, now->origin);
        }
    }
    pthread_mutex_unlock(&s->places_mu);
    return now != asked;
}

void s3_place_ask(
    struct s3 *s, const struct s3_place *place, const struct retry *r, char region[S3_REGION_MAX])
{
    *region = '\0';
    if (s->region_given)
        return;
    cleanup_free char *url = xasprintf(
        "%s%s", place->origin, *place->path_prefix ? place->path_prefix : "/");
    struct http_req req = {
        .method = "HEAD", .url = url, .timeout_ns = retry_left_ns(r), .cancel = r->cancel};
    cleanup_resp struct http_resp resp;
    struct err unused = ERR_INIT;
    if (http_do(s->http, &req, &resp, &unused) == 0)
        http_header(&resp, "x-amz-bucket-region", region, S3_REGION_MAX);
}
