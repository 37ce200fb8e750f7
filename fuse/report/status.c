/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/status.h"

#include "fuse/cache/cache.h"
#include "fuse/file/passthrough.h"
#include "fuse/file/upload.h"
#include "fuse/index/index.h"
#include "fuse/peers/known.h"
#include "fuse/peers/peers.h"
#include "fuse/prefetch/hint.h"
#include "fuse/report/kept_copy.h"
#include "fuse/report/mount_why.h"
#include "fuse/report/stall.h"
#include "fuse/report/status_metrics.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/http/health.h"
#include "lib/http/scrape.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct status {
    pthread_mutex_t mu;
    const struct conf *conf;              /* mu */
    const struct sign_key *key;           /* mu; NULL: none */
    struct status_sources from;           /* mu: all or none */
    struct backings *backings;            /* mu */
    const char *profile;                  /* mu; NULL: not chosen yet */
    struct report_problem whole, *mounts; /* mu */
    bool ready, serving;                  /* mu */
    struct utsname kernel;                /* mu; release "": the kernel has not said what it can */
    bool passthrough, resend;             /* mu: what it can */
    int64_t lost_at_s;                    /* mu; 0: no mount was lost */
    char lost_why[256];                   /* mu */
    int64_t began_ns;                     /* monotonic */
    struct kept_copy *kept;
    struct health health;
    struct scrape scrape;
    struct http_server *server;
};

struct status *status_new(void)
{
    struct status *s = xcalloc(1, sizeof *s);
    s->began_ns = clock_mono_ns();
    s->kept = kept_copy_new();
    pthread_mutex_init(&s->mu, NULL);
    return s;
}

void status_free(struct status *s)
{
    if (!s)
        return;
    serve_stop(s->server);
    scrape_stop(&s->scrape);
    kept_copy_free(s->kept);
    pthread_mutex_destroy(&s->mu);
    free(s->mounts);
    free(s);
}

void status_conf(struct status *s, const struct conf *conf)
{
    pthread_mutex_lock(&s->mu);
    s->conf = conf;
    free(s->mounts);
    s->mounts = conf ? xcalloc(conf->nmounts, sizeof *s->mounts) : NULL;
    pthread_mutex_unlock(&s->mu);
}

void status_data(struct status *s, const struct status_sources *from)
{
    pthread_mutex_lock(&s->mu);
    s->from = from ? *from : (struct status_sources){0};
    pthread_mutex_unlock(&s->mu);
}

void status_profile(struct status *s, bool sealed, struct backings *backings)
{
    pthread_mutex_lock(&s->mu);
    s->profile = sealed ? "sealed" : "open";
    s->backings = backings;
    pthread_mutex_unlock(&s->mu);
}

void status_kernel(struct status *s, bool passthrough, bool resend)
{
    pthread_mutex_lock(&s->mu);
    if (uname(&s->kernel))
        s->kernel.release[0] = '\0';
    s->passthrough = passthrough;
    s->resend = resend;
    pthread_mutex_unlock(&s->mu);
}

void status_lost(struct status *s, int64_t at_s, const char *why)
{
    pthread_mutex_lock(&s->mu);
    s->lost_at_s = at_s;
    snprintf(s->lost_why, sizeof s->lost_why, "%s", why);
    pthread_mutex_unlock(&s->mu);
}

void status_fail(struct status *s, const char *reason, const char *message)
{
    pthread_mutex_lock(&s->mu);
    report_problem_set(&s->whole, reason, message);
    s->ready = false;
    pthread_mutex_unlock(&s->mu);
}

void status_mount(struct status *s, size_t mount, const char *reason, const char *message)
{
    pthread_mutex_lock(&s->mu);
    report_problem_set(&s->mounts[mount], reason, message);
    pthread_mutex_unlock(&s->mu);
}

void status_ready(struct status *s)
{
    pthread_mutex_lock(&s->mu);
    report_problem_set(&s->whole, "", "");
    s->ready = true;
    pthread_mutex_unlock(&s->mu);
}

void status_serving(struct status *s, bool serving)
{
    pthread_mutex_lock(&s->mu);
    s->serving = serving;
    pthread_mutex_unlock(&s->mu);
}

/* What to tell of the whole: its own problem, a mount's, or a full disk (which does not make it
 * unready). */
static const struct report_problem *status_worst(const struct status *s)
{
    mutex_assert_held(&s->mu);
    static const struct report_problem none,
        unwritten = {"CacheDiskFull",
            "the disk of the cache directory is full: written files cannot be staged; make room on the node or lower spec.cache.tiers[].quota"},
        uncached = {"CacheDiskFull", CACHE_FULL_MESSAGE};
    struct upload_stats w;
    struct cache_stats c = {0};
    if (*s->whole.reason)
        return &s->whole;
    for (size_t i = 0; s->conf && i < s->conf->nmounts; i++)
        if (*s->mounts[i].reason)
            return &s->mounts[i];
    upload_stats(&w);
    if (w.disk_full)
        return &unwritten;
    if (s->from.cache)
        cache_stats(s->from.cache, &c);
    return c.disk_full ? &uncached : &none;
}

static void add_stall(void *user, const struct stall_times *t)
{
    struct buf *out = user;
    const struct report_member members[] = {
        {REPORT_STALL_CALLER, REPORT_TEXT, 0, t->caller},
        {REPORT_STALL_READS, REPORT_COUNT, t->reads, NULL},
        {REPORT_STALL_WAITING_MS, REPORT_COUNT, t->waiting_ns / NS_PER_MS, NULL},
        {REPORT_STALL_STORE_MS, REPORT_COUNT, t->store_ns / NS_PER_MS, NULL},
        {REPORT_STALL_WORKER_MS, REPORT_COUNT, t->worker_ns / NS_PER_MS, NULL},
        {REPORT_STALL_DISK_MS, REPORT_COUNT, t->disk_ns / NS_PER_MS, NULL},
    };
    buf_adds(out, out->data[out->len - 1] == '[' ? "{" : ",{");
    report_add(out, members, ARRAY_LEN(members));
    buf_addc(out, '}');
}

/* Without the lock: it may take a moment. */
static void copy_kept(struct status *s, struct kept_seen *out)
{
    pthread_mutex_lock(&s->mu);
    cleanup_free char *dir = s->from.stage_dir ? xstrdup(s->from.stage_dir) : NULL;
    pthread_mutex_unlock(&s->mu);
    kept_copy_get(s->kept, dir, out);
}

static void add_kept(const struct kept_seen *seen, struct buf *out)
{
    const struct kept *k = &seen->kept;
    const size_t group = strlen(REPORT_KEPT) + 1; /* it is opened here, as it has an array */
    const struct report_member members[] = {
        {&REPORT_KEPT_FILES[group], REPORT_COUNT, k->files, NULL},
        {&REPORT_KEPT_BYTES[group], REPORT_COUNT, k->bytes, NULL},
        {&REPORT_KEPT_DIR[group], REPORT_TEXT, 0, seen->dir},
        {&REPORT_KEPT_NODE_DIR[group], REPORT_TEXT, 0, seen->node_dir},
    };
    buf_adds(out, ",\"" REPORT_KEPT "\":{");
    report_add(out, members, ARRAY_LEN(members));
    buf_addf(out, ",\"%s\":[", &REPORT_KEPT_PATHS[group]);
    for (size_t i = 0; i < k->nshown; i++) {
        const struct report_member file[] = {
            {REPORT_KEPT_PATH, REPORT_TEXT, 0, k->shown[i].path},
            {REPORT_KEPT_WHY, REPORT_TEXT, 0, k->shown[i].why},
            {REPORT_KEPT_FILE, REPORT_TEXT, 0, k->shown[i].name},
        };
        buf_adds(out, i ? ",{" : "{");
        report_add(out, file, ARRAY_LEN(file));
        buf_addc(out, '}');
    }
    buf_adds(out, "]}");
}

static void add_hints_and_index(const struct status *s, bool known, struct buf *out)
{
    struct hints_stats h = {0};
    struct inodes_stats ix = {0};
    if (s->from.hints)
        hints_stats(s->from.hints, &h);
    if (s->from.inodes)
        inodes_stats(s->from.inodes, &ix);
    const struct report_member members[] = {
        {REPORT_HINTS_LISTS, REPORT_COUNT, h.lists, NULL},
        {REPORT_HINTS_ENTRIES, REPORT_COUNT, h.entries, NULL},
        {REPORT_HINTS_DONE, REPORT_COUNT, h.done, NULL},
        {REPORT_HINTS_BYTES, REPORT_COUNT, h.bytes, NULL},
        {REPORT_HINTS_FOLLOWED, REPORT_COUNT, h.followed, NULL},
        {REPORT_HINTS_MISSING, REPORT_COUNT, h.missing, NULL},
        {REPORT_HINTS_REFUSED, REPORT_COUNT, h.refused, NULL},
        {REPORT_HINTS_FAILED, REPORT_COUNT, h.failed, NULL},
        {REPORT_HINTS_FIRST_MISSING, REPORT_TEXT, 0, known ? h.first_missing : ""},
        {REPORT_INDEX_INODES, REPORT_COUNT, ix.inodes, NULL},
        {REPORT_INDEX_NAME_BYTES, REPORT_COUNT, ix.name_bytes, NULL},
    };
    report_add(out, members, ARRAY_LEN(members));
}

static void add_kernel(struct status *s, struct buf *out)
{
    char refused[BACKINGS_REFUSAL_MAX] = "";
    if (!*s->kernel.release)
        return;
    if (s->backings)
        backings_refusal(s->backings, refused);
    const struct report_member members[] = {
        {REPORT_KERNEL_RELEASE, REPORT_TEXT, 0, s->kernel.release},
        {REPORT_KERNEL_PASSTHROUGH, REPORT_BOOL, s->passthrough, NULL},
        {REPORT_KERNEL_RESEND, REPORT_BOOL, s->resend, NULL},
        {REPORT_KERNEL_REFUSED, REPORT_TEXT, 0, refused},
    };
    report_add(out, members, ARRAY_LEN(members));
}

static void status_told(struct status *s, bool known, struct buf *out)
{
    struct cache_stats c = {0};
    struct upload_stats w;
    struct peers_stats r = {0};
    struct kept_seen kept;
    upload_stats(&w);
    copy_kept(s, &kept);
    pthread_mutex_lock(&s->mu);
    if (s->from.cache)
        cache_stats(s->from.cache, &c);
    if (s->from.peers)
        peers_stats(s->from.peers, &r);
    report_begin(out,
        &(struct report_common){.component = COMPONENT_CLIENT,
            .ready = s->ready,
            .serving = s->serving,
            .problem = status_worst(s),
            .conf = s->conf,
            .mounts = s->mounts,
            .to_stranger = !known,
            .checked = true,
            .cache = {c.used_bytes, c.capacity_bytes, c.files, c.complete_files, c.pinned_bytes,
                c.pinned_most, c.pinned_files, c.evicted_bytes},
            .reads = {c.hit_bytes, r.worker_bytes, r.store_bytes},
            .writes = {w.bytes, w.pending}});
    const struct report_member members[] = {
        {REPORT_PROFILE, REPORT_TEXT, 0, s->profile ? s->profile : ""},
        {REPORT_BACKING_FILES, REPORT_COUNT, s->backings ? backings_count(s->backings) : 0, NULL},
        {REPORT_PID, REPORT_COUNT, (uint64_t)getppid(), NULL}, /* the supervisor */
        {REPORT_UP_MS, REPORT_COUNT, (uint64_t)(clock_mono_ns() - s->began_ns) / NS_PER_MS, NULL},
    };
    report_add(out, members, ARRAY_LEN(members));
    add_kernel(s, out);
    const struct report_member lost[] = {
        {REPORT_LOST_AT, REPORT_COUNT, (uint64_t)s->lost_at_s, NULL},
        {REPORT_LOST_WHY, REPORT_TEXT, 0, known ? s->lost_why : ""},
    };
    if (s->lost_at_s > 0)
        report_add(out, lost, ARRAY_LEN(lost));
    buf_adds(out, ",\"" REPORT_STALLS "\":[");
    if (s->from.stalls)
        stalls_each(s->from.stalls, add_stall, out);
    buf_addc(out, ']');
    if (known)
        add_kept(&kept, out);
    add_hints_and_index(s, known, out);
    buf_adds(out, "}\n");
    pthread_mutex_unlock(&s->mu);
    kept_seen_free(&kept);
}

void status_json(struct status *s, struct buf *out) { status_told(s, true, out); }

void status_key(struct status *s, const struct sign_key *key)
{
    pthread_mutex_lock(&s->mu);
    s->key = key;
    pthread_mutex_unlock(&s->mu);
}

void status_why(
    struct status *s, pid_t pid, const char *error, int64_t error_age_ns, struct buf *out)
{
    struct upload_stats w;
    struct mount_facts f = {.error = error, .error_age_ns = error_age_ns};
    upload_stats(&w);
    f.pending_files = w.pending;
    pthread_mutex_lock(&s->mu);
    struct stalls *stalls = s->from.stalls; /* lives as long as requests are answered */
    pthread_mutex_unlock(&s->mu);
    if (stalls)
        f.window_ns = stalls_recent(stalls, pid, &f.recent, &f.own);
    pthread_mutex_lock(&s->mu);
    const struct report_problem *p = status_worst(s);
    f.ready = s->ready;
    f.reason = p->reason;
    f.message = p->message;
    f.window_ns = MIN(f.window_ns, clock_mono_ns() - s->began_ns);
    if (s->from.cache)
        cache_stats(s->from.cache, &f.cache);
    if (s->from.peers)
        peers_stats(s->from.peers, &f.reads);
    mount_why(&f, out);
    pthread_mutex_unlock(&s->mu);
}

static bool status_is_ready(void *user, struct buf *out)
{
    struct status *s = user;
    pthread_mutex_lock(&s->mu);
    const struct report_problem *p = status_worst(s);
    bool ready = s->ready;
    if (!ready)
        buf_addf(out, "%s: %s\n", *p->reason ? p->reason : "Starting",
            *p->message ? p->message : "the store is being looked at");
    pthread_mutex_unlock(&s->mu);
    return ready;
}

static void answer_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    struct status *s = user;
    char request[SIGN_REQUEST_MAX + 1];
    pthread_mutex_lock(&s->mu);
    const struct sign_key *key = s->key;
    pthread_mutex_unlock(&s->mu);
    bool known = known_asker(key, req, request);
    resp->content_type = "application/json";
    status_told(s, known, &resp->body);
    if (known)
        known_sign(key, request, resp);
}

static void collect_client_metrics(void *user, struct buf *out)
{
    struct status *s = user;
    struct kept_seen seen;
    copy_kept(s, &seen);
    status_metrics_kept(seen.kept.files, seen.kept.bytes);
    kept_seen_free(&seen);
    pthread_mutex_lock(&s->mu); /* the sources stay as long as it is held */
    status_metrics_collect(&s->from, s->ready, s->serving, out);
    pthread_mutex_unlock(&s->mu);
}

void status_listen(struct status *s, const char *address, const char *metrics)
{
    struct serve_route routes[HEALTH_ROUTES + 1];
    struct err e = ERR_INIT;
    s->scrape = (struct scrape){.collect = collect_client_metrics, .user = s};
    if (scrape_start(&s->scrape, metrics, &e))
        log_kv(LOG_ERROR, "metrics are not served", "error", e.msg, NULL);
    if (address && !*address)
        return;
    s->health = (struct health){.ready = status_is_ready, .user = s};
    health_routes(&s->health, routes);
    routes[HEALTH_ROUTES] = (struct serve_route){"GET", "/status", answer_status, s};
    const struct serve_conf conf = {.address = address,
        .port = PORT_HTTP,
        .routes = routes,
        .nroutes = ARRAY_LEN(routes),
        .max_threads = 4,
        .answer_ns = HEALTH_ANSWER_NS};
    s->server = serve_start(&conf, &e);
    if (!s->server)
        log_kv(LOG_ERROR, "health and status are not served", "error", e.msg, NULL);
}
