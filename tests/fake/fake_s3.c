/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fake_s3.h"

#include "tests/fake/fake_s3_ops.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/http/http.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SKEW_S 3600

static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};

void fake_s3_put(struct fake_s3 *f, const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&f->mu);
    object_put(f, key, data, len);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_del(struct fake_s3 *f, const char *key)
{
    pthread_mutex_lock(&f->mu);
    struct object *o = object_find(f, key);
    if (o)
        object_del(f, o);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_synth(
    struct fake_s3 *f, const char *prefix, unsigned dirs, unsigned files, size_t size)
{
    pthread_mutex_lock(&f->mu);
    f->synth = (struct synth){.dirs = dirs, .files = files, .size = size};
    snprintf(f->synth.prefix, sizeof f->synth.prefix, "%s", prefix);
    pthread_mutex_unlock(&f->mu);
}

void *fake_s3_get(struct fake_s3 *f, const char *key, size_t *len)
{
    pthread_mutex_lock(&f->mu);
    const struct object *o = object_find(f, key);
    void *copy = NULL;
    if (o) {
        copy = xmalloc(o->len + 1);
        memcpy(copy, o->data, o->len);
        *len = o->len;
    }
    pthread_mutex_unlock(&f->mu);
    return copy;
}

unsigned fake_s3_requests(struct fake_s3 *f, const char *method)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        n += !method || strcmp(method, methods[i]) == 0 ? f->counts[i] : 0;
    pthread_mutex_unlock(&f->mu);
    return n;
}

unsigned fake_s3_uploads(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    unsigned n = f->uploads;
    pthread_mutex_unlock(&f->mu);
    return n;
}

/* -- faults ---------------------------------------------------------------------------------- */

static const char *const kinds[] = {"slowdown", "throttled", "error", "reset", "truncated", "short",
    "long", "etag", "norange", "otherrange", "xml", "html", "redirect", "hang", "skew", "denied",
    "ok200", "lost", "slow", "stall", "forgotten", "damaged", "mute", "fine"};
_Static_assert(ARRAY_LEN(kinds) <= FAULT_KINDS, "a counter for each kind");

int fake_s3_fault(struct fake_s3 *f, const char *method, const char *kind, unsigned count)
{
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        known |= strcmp(kinds[i], kind) == 0;
    if (!known)
        return -1;
    pthread_mutex_lock(&f->mu);
    if (f->nfaults < ARRAY_LEN(f->faults)) {
        struct fault *x = &f->faults[f->nfaults++];
        snprintf(x->method, sizeof x->method, "%s", method);
        snprintf(x->kind, sizeof x->kind, "%s", kind);
        x->left = count;
    }
    pthread_mutex_unlock(&f->mu);
    return 0;
}

void fake_s3_clear(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->nfaults = 0;
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_tags(struct fake_s3 *f, bool etags, bool touched)
{
    pthread_mutex_lock(&f->mu);
    f->untagged = !etags;
    f->touched = touched;
    pthread_mutex_unlock(&f->mu);
}

unsigned fake_s3_faults(struct fake_s3 *f, const char *kind)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        n += strcmp(kinds[i], kind) == 0 ? f->struck[i] : 0;
    pthread_mutex_unlock(&f->mu);
    return n;
}

void fake_s3_race(
    struct fake_s3 *f, const char *method, const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->race.method, sizeof f->race.method, "%s", method);
    snprintf(f->race.key, sizeof f->race.key, "%s", key);
    f->race.len = MIN(len, sizeof f->race.data);
    f->race.after = false;
    memcpy(f->race.data, data, f->race.len);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_race_after(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->race.after = true;
    pthread_mutex_unlock(&f->mu);
}

static void run_race(struct fake_s3 *f, const char *method, bool after)
{
    if (strcmp(f->race.method, method) != 0 || f->race.after != after)
        return;
    object_put(f, f->race.key, f->race.data, f->race.len);
    f->race.method[0] = '\0';
}

void fake_s3_unconditional(struct fake_s3 *f)
{
    pthread_mutex_lock(&f->mu);
    f->unconditional = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_expire(struct fake_s3 *f, const char *key_id)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->expired, sizeof f->expired, "%s", key_id);
    pthread_mutex_unlock(&f->mu);
}

void fake_s3_region(struct fake_s3 *f, const char *region, enum fake_s3_tells how)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->region, sizeof f->region, "%s", region);
    f->tells = how;
    pthread_mutex_unlock(&f->mu);
}

/* The fault for this request, "" for none; one of its count is used up. mu held. */
static const char *next_fault(struct fake_s3 *f, const char *method)
{
    for (size_t i = 0; i < f->nfaults; i++)
        if (f->faults[i].left && strcmp(f->faults[i].method, method) == 0) {
            f->faults[i].left--;
            return f->faults[i].kind;
        }
    return "";
}

/* -- answers --------------------------------------------------------------------------------- */

/* Faults that need no look at the object. True: the answer is ready. */
static bool early_fault(
    struct fake_s3 *f, const struct request *r, const char *fault, struct answer *a)
{
    char auth[1024] = "", date[64] = "", key_id[64] = "";
    http_head_value(r->h.headers, "authorization", auth, sizeof auth);
    if (strncmp(auth, "AWS4-HMAC-SHA256 Credential=", 28) == 0)
        snprintf(key_id, sizeof key_id, "%.*s", (int)strcspn(auth + 28, "/"), auth + 28);
    if (strcmp(fault, "slowdown") == 0) {
        answer_error(a, 503, "SlowDown", "Please reduce your request rate.");
        buf_adds(&a->headers, "Retry-After: 1\r\n");
    } else if (strcmp(fault, "throttled") == 0) {
        answer_error(a, 429, "TooManyRequests", "Please reduce your request rate.");
    } else if (strcmp(fault, "error") == 0) {
        answer_error(
            a, 500, "InternalError", "We encountered an internal error. Please try again.");
    } else if (strcmp(fault, "denied") == 0) {
        answer_error(a, 403, "AccessDenied", "Access Denied");
    } else if (strcmp(fault, "redirect") == 0) {
        answer_error(a, 301, "PermanentRedirect",
            "The bucket you are attempting to access must be addressed using the specified endpoint.");
        buf_adds(&a->headers, "x-amz-bucket-region: eu-west-9\r\n");
    } else if (strcmp(fault, "xml") == 0) {
        buf_adds(&a->body, "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>half");
    } else if (strcmp(fault, "html") == 0) {
        buf_adds(&a->body, "<html><head/><body>Welcome to nginx!</body></html>");
    } else if (strcmp(fault, "mute") == 0) {
        a->status = 200;
    } else if (strcmp(fault, "ok200") == 0) {
        answer_error(
            a, 200, "InternalError", "We encountered an internal error. Please try again.");
    } else if (strcmp(fault, "forgotten") == 0) {
        answer_error(a, 404, "NoSuchUpload", "The specified upload does not exist.");
    } else if (strcmp(fault, "reset") == 0) {
        a->drop = true;
    } else if (strcmp(fault, "hang") == 0) {
        a->hang = true;
    } else if (strcmp(fault, "skew") == 0) {
        char want[16];
        time_t there = time(NULL) + SKEW_S;
        struct tm tm;
        strftime(want, sizeof want, "%Y%m%dT%H", gmtime_r(&there, &tm));
        http_head_value(r->h.headers, "x-amz-date", date, sizeof date);
        if (strncmp(date, want, 11) == 0)
            return false;
        answer_error(a, 403, "RequestTimeTooSkewed",
            "The difference between the request time and the server's time is too large.");
        a->date_offset_s = SKEW_S;
    } else if (*key_id && strcmp(key_id, f->expired) == 0) {
        answer_error(a, 400, "ExpiredToken", "The provided token has expired.");
    } else if (*key_id && strncmp(key_id, "good", 4) != 0) {
        answer_error(a, 403, "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.");
    } else {
        return false;
    }
    return true;
}

/* True: the request went to another region than the bucket's, and the answer says so. */
static bool wrong_region(struct fake_s3 *f, const struct request *r, struct answer *a)
{
    char auth[1024] = "", asked[128] = "";
    http_head_value(r->h.headers, "authorization", auth, sizeof auth);
    const char *scope = strchr(auth, '/'); /* Credential=ID/DAY/REGION/s3/aws4_request */
    if (scope)
        sscanf(scope, "/%*[^/]/%127[^/]", asked);
    const char *told = f->region;
    if (f->tells == FAKE_S3_TELLS_CIRCLE && strcmp(asked, f->region) == 0)
        told = "us-east-1";
    else if (strcmp(asked, f->region) == 0)
        return false;
    if (a->head_only && f->tells == FAKE_S3_TELLS_HEAD) {
        a->status = 403;
        buf_addf(&a->headers, "x-amz-bucket-region: %s\r\n", told);
    } else if (f->tells == FAKE_S3_TELLS_BODY || f->tells == FAKE_S3_TELLS_CIRCLE) {
        a->status = 400;
        buf_addf(&a->body,
            "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is malformed; the region is wrong</Message><Region>%s</Region></Error>",
            told);
    } else {
        answer_error(a, 301, "PermanentRedirect",
            "The bucket you are attempting to access must be addressed using the specified endpoint.");
        if (f->tells == FAKE_S3_TELLS_HEADER)
            buf_addf(&a->headers, "x-amz-bucket-region: %s\r\n", told);
    }
    return true;
}

static void respond(void *user, struct request *r, struct answer *a)
{
    struct fake_s3 *f = user;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        f->counts[i] += strcmp(methods[i], r->h.method) == 0;
    const char *fault = next_fault(f, r->h.method);
    run_race(f, r->h.method, false);
    bool bucket = strncmp(r->h.path, "/data", 5) == 0 && (r->h.path[5] == '/' || !r->h.path[5]);
    r->key = bucket && r->h.path[5] ? r->h.path + 6 : "";
    bool early = early_fault(f, r, fault, a) || (f->google && google_hear(f, r, a));
    if (early || (*f->region && wrong_region(f, r, a)) || lacks_header(f, r, a)) {
    } else if (!bucket) {
        answer_error(a, 404, "NoSuchBucket", "The specified bucket does not exist");
    } else if (!*r->key) {
        op_list(f, r, a);
    } else if (strcmp(r->h.method, "GET") == 0 || a->head_only) {
        op_get(f, r, fault, a);
    } else if (strcmp(r->h.method, "PUT") == 0) {
        op_put(f, r, a);
    } else if (strcmp(r->h.method, "POST") == 0) {
        op_post(f, r, a);
    } else {
        op_delete(f, r, a);
    }
    if (f->google)
        google_say(f, r, a);
    run_race(f, r->h.method, true);
    a->drop |= strcmp(fault, "lost") == 0;
    a->slow = strcmp(fault, "slow") == 0;
    bool struck = (early && *fault) || a->slow || a->spoiled || strcmp(fault, "lost") == 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        f->struck[i] += struck && strcmp(kinds[i], fault) == 0;
    pthread_mutex_unlock(&f->mu);
}

struct fake_s3 *fake_s3_start(int port)
{
    struct fake_s3 *f = xcalloc(1, sizeof *f);
    pthread_mutex_init(&f->mu, NULL);
    f->conns = fake_conns_start(port, respond, f);
    return f;
}

int fake_s3_port(const struct fake_s3 *f) { return fake_conns_port(f->conns); }

void fake_s3_stop(struct fake_s3 *f)
{
    fake_conns_stop(f->conns);
    while (f->n)
        object_del(f, &f->objects[f->n - 1]);
    free(f->objects);
    free(f->heard);
    pthread_mutex_destroy(&f->mu);
    free(f);
}
