/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/preload.h"

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/human.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS      (5 * NS_PER_S)
#define LOOK_NS      (60 * NS_PER_S)
#define LOOK_FACTOR  20 /* at most a twentieth of the time goes into looking */
#define WHOLE_NS     (3600 * NS_PER_S)
#define PAUSE_MIN_NS (2 * NS_PER_S) /* after a pass that failed; doubles */
#define PAUSE_MAX_NS (60 * NS_PER_S)
#define READY_NS     (5 * NS_PER_S)
#define ASK_NS       (5 * NS_PER_S)
#define ROUNDS       3 /* of loading what is missing, before it is the cache that has no room */
#define LOSSES       3 /* of what was loaded, soon one after the other: there is no room, too */
/* of a pass's time, where there is no room: loading takes it from readers */
#define REST_FACTOR 4
#define MAKE_ROOM   "raise spec.cache.tiers[].quota, or pin what must stay"

/* What the workers say of themselves, put together. */
struct preload_facts {
    uint64_t starts;   /* hash of when each began */
    uint64_t capacity; /* bytes */
    uint64_t evicted;  /* bytes of what we asked for */
};

struct preload {
    struct load l;
    const struct preload_conf *conf;
    char pins_of[17]; /* which paths are pinned, as a word */
    unsigned losses;  /* soon one after the other: evictions of what was loaded */
    /* l.mu guards what follows */
    bool complete;  /* the last pass found everything, and nothing is known to be missing since */
    bool verifying; /* this pass looks after another that has loaded */
    /* all is what there is, or was when it was counted last; otherwise as far as it is counted */
    bool counted;
    bool too_large;                  /* all does not fit into capacity */
    uint64_t capacity;               /* of the workers, together */
    struct load_counts all;          /* what there is to keep: files and bytes */
    char workers[REPORT_STARTS_LEN]; /* in which workers it found everything last, "": in none */
    uint64_t evicted;                /* of facts, before it looked at them */
    char reason[32], message[512];   /* why the last pass failed, until one has succeeded */
};

/* ---- what it says ---- */

static void add_preload_status(void *user, bool known, struct buf *out)
{
    struct preload *k = user;
    pthread_mutex_lock(&k->l.mu);
    const struct load_counts *n = &k->l.n;
    bool complete = k->complete && n->missing == 0 && n->failed_files == 0,
         whole = complete || (k->verifying && n->missing == 0);
    struct report_problem why = {0};
    if (*k->reason) {
        snprintf(why.reason, sizeof why.reason, "%s", k->reason);
        snprintf(why.message, sizeof why.message, "%s", k->message);
    } else if (!complete) {
        load_waits_for(&k->l, &why);
    }
    uint64_t files = k->counted ? k->all.files : MAX(k->all.files, n->files),
             bytes = k->counted ? k->all.bytes : MAX(k->all.bytes, n->bytes);
    const struct report_member members[] = {
        {REPORT_LOAD_FILES, REPORT_COUNT, files, NULL},
        {REPORT_LOAD_BYTES, REPORT_COUNT, bytes, NULL},
        {REPORT_LOAD_COUNTED, REPORT_BOOL, k->counted, NULL},
        {REPORT_LOAD_DONE_FILES, REPORT_COUNT, whole ? files : MIN(n->done_files, files), NULL},
        {REPORT_LOAD_DONE_BYTES, REPORT_COUNT, whole ? bytes : MIN(n->done_bytes, bytes), NULL},
        {REPORT_LOAD_FAILED, REPORT_COUNT, n->failed_files, NULL},
        {REPORT_LOAD_MISSING, REPORT_COUNT, n->missing, NULL},
        {REPORT_LOAD_VERIFYING, REPORT_BOOL, k->verifying, NULL},
        {REPORT_LOAD_COMPLETE, REPORT_BOOL, complete, NULL},
        {REPORT_LOAD_WORKERS, REPORT_TEXT, 0, k->workers},
        {REPORT_LOAD_EVICTED, REPORT_COUNT, k->evicted, NULL},
        {REPORT_LOAD_REASON, REPORT_TEXT, 0, why.reason},
        {REPORT_LOAD_MESSAGE, REPORT_TEXT, 0, known ? why.message : ""},
    };
    report_add(out, members, ARRAY_LEN(members));
    pthread_mutex_unlock(&k->l.mu);
}

static void preload_failed(struct preload *k, const char *reason, const struct err *e)
{
    struct report_problem p;
    report_problem_set(&p, reason, e->msg);
    pthread_mutex_lock(&k->l.mu);
    bool news = strcmp(k->reason, p.reason) != 0;
    snprintf(k->reason, sizeof k->reason, "%s", p.reason);
    snprintf(k->message, sizeof k->message, "%s", p.message);
    k->complete = false;
    pthread_mutex_unlock(&k->l.mu);
    if (news)
        log_kv(
            LOG_WARN, "not all of it is in the cache", "reason", reason, "error", p.message, NULL);
}

static void preload_succeeded(struct preload *k, const struct preload_facts *facts)
{
    char bytes[HUMAN_BYTES_LEN];
    pthread_mutex_lock(&k->l.mu);
    bool news = !k->complete;
    report_starts_text(facts->starts, k->workers);
    k->evicted = facts->evicted;
    k->complete = true;
    k->verifying = false;
    k->counted = true;
    k->all = k->l.n; /* what the last pass has seen: the count beside the first may be older */
    *k->reason = *k->message = '\0';
    uint64_t files = k->l.n.files, size = k->l.n.bytes;
    pthread_mutex_unlock(&k->l.mu);
    if (news)
        log_fmt(LOG_INFO, "%" PRIu64 " files, %s, are in the cache workers", files,
            human_bytes(size, bytes));
}

static void preload_lost(struct preload *k, const char *why)
{
    log_kv(LOG_INFO, "looking again", "why", why, NULL);
    pthread_mutex_lock(&k->l.mu);
    k->complete = false;
    pthread_mutex_unlock(&k->l.mu);
}

/* ---- what it looks at ---- */

static uint64_t preload_number(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

static int ask_facts(struct preload *k, struct preload_facts *out, struct err *e)
{
    *out = (struct preload_facts){0};
    if (k->l.nurls == 0)
        return err_set(e, ERR_RETRY, LOAD_NO_WORKERS);
    for (int i = 0; i < k->l.nurls; i++) {
        cleanup_free char *url = xasprintf("%s/status", k->l.urls[i]);
        struct http_req req = {
            .method = "GET", .url = url, .stall_ns = ASK_NS, .cancel = &k->l.s->cancel};
        cleanup_resp struct http_resp resp = {0};
        if (http_do(k->l.http, &req, &resp, e))
            return -1;
        const char *text = buf_str(&resp.body);
        if (resp.status != 200)
            return err_set(e, http_class_of_status(resp.status), "%s: status %d", url, resp.status);
        out->starts = report_starts(out->starts, preload_number(text, "\"startedMs\":"));
        out->capacity += preload_number(text, "\"capacityBytes\":");
        out->evicted += preload_number(text, "\"" REPORT_EVICTED_LOADED "\":");
    }
    return 0;
}

struct counting {
    struct preload *k;
    struct load_counts n;
    bool changing; /* only what may change; else each file is in what is told, too */
    int rc;        /* once it has ended */
    struct err e;
    struct task task;
};

static void count_file(
    void *user, size_t mount, char *path_taken, const struct store_stat *st, enum request_pin pin)
{
    struct counting *c = user;
    struct preload *k = c->k;
    load_count(&k->l, &c->n, mount, path_taken, st, pin);
    free(path_taken);
    if (c->changing)
        return;
    pthread_mutex_lock(&k->l.mu);
    /* what was known stays until there is more, or it is counted anew to the end */
    k->counted &= c->n.files <= k->all.files && c->n.bytes <= k->all.bytes;
    k->all.files = MAX(k->all.files, c->n.files);
    k->all.bytes = MAX(k->all.bytes, c->n.bytes);
    k->too_large = k->capacity && c->n.bytes > k->capacity;
    k->l.enough |= k->too_large;
    pthread_mutex_unlock(&k->l.mu);
}

static void count_all(struct counting *c)
{
    const struct preload_conf *kc = c->k->conf;
    struct load_each each = {.changing = c->changing, .fn = count_file, .user = c};
    c->rc = load_list(&c->k->l, kc->paths, kc->npaths, &each, &c->e);
    if (c->rc == 0 && atomic_load(&c->k->l.s->cancel))
        c->rc = err_set(&c->e, ERR_RETRY, "stopped before the end");
    /* of paths that are not there nothing is to be kept */
    if (c->changing || (c->rc && c->e.cls != ERR_NOTFOUND))
        return;
    pthread_mutex_lock(&c->k->l.mu);
    c->k->all = c->n;
    c->k->counted = true;
    pthread_mutex_unlock(&c->k->l.mu);
}

static void count_thread(void *arg) { count_all(arg); }

/* ---- one pass, and what comes of it ---- */

static int set_too_large(struct preload *k, struct err *e)
{
    char bytes[HUMAN_BYTES_LEN], room[HUMAN_BYTES_LEN];
    return err_set(e, ERR_EXHAUSTED,
        "%s%s in %" PRIu64
        " files do not fit into the %s of %d cache worker%s: raise spec.cache.replicas or "
        "spec.cache.tiers[].quota, or preload fewer paths",
        k->counted ? "" : "more than ", human_bytes(k->all.bytes, bytes), k->all.files,
        human_bytes(k->capacity, room), k->l.nurls, k->l.nurls == 1 ? "" : "s");
}

/* Counts beside the pass, so that there is a goal to see early, which does not shrink while it is
 * counted again. What was too large is counted first: nothing is loaded for as long as it is. */
static int pass_and_count(struct preload *k, struct err *e)
{
    struct counting c = {.k = k, .e = ERR_INIT};
    pthread_mutex_lock(&k->l.mu);
    bool count_first = k->too_large;
    k->too_large = k->l.enough = false;
    pthread_mutex_unlock(&k->l.mu);
    if (count_first)
        count_all(&c);
    if (k->too_large)
        return set_too_large(k, e);
    if (!count_first && task_start(&c.task, "count", count_thread, &c, e))
        return -1;
    int rc = load_pass(&k->l, k->conf->paths, k->conf->npaths, e);
    if (!count_first)
        task_stop(&c.task);
    if (k->too_large)
        return set_too_large(k, e);
    if (rc == 0 && c.rc)
        *e = c.e;
    return rc ? rc : c.rc;
}

static int pass_failed(struct preload *k, const char **reason, struct err *e)
{
    const char *refused = k->l.waits.refused.reason; /* no listing is under way */
    *reason = k->too_large        ? "TooLarge"
        : k->l.pins_full          ? "PinLimit"
        : k->l.empty              ? "NothingFound"
        : e->cls == ERR_NOTFOUND  ? "PathNotFound"
        : e->cls == ERR_EXHAUSTED ? "CacheFull"
        : e->cls != ERR_RETRY     ? store_reason(e)
        : *refused                ? refused
                                  : "LoadFailed";
    return -1;
}

/* A file that is no more, or has another version, may still hold room for pins. */
static int pass_with_room_for_pins(struct preload *k, struct err *e)
{
    int rc = pass_and_count(k, e);
    if (rc && k->l.pins_full)
        rc = load_unpin_all(&k->l, NULL, e) || pass_and_count(k, e) ? -1 : 0;
    return !rc && k->l.empty ? load_set_empty(&k->l, k->l.empty, e) : rc;
}

static void set_verifying(struct preload *k, bool verifying)
{
    pthread_mutex_lock(&k->l.mu);
    k->verifying = verifying;
    pthread_mutex_unlock(&k->l.mu);
}

static bool is_all_there(const struct preload *k)
{
    return k->l.n.failed_files == 0 && k->l.n.missing == 0;
}

/* 0: everything is in the cache. -1: *reason and e say why it is not. facts: of before it looked,
 * which it does again for what it loaded. */
static int preload_pass(
    struct preload *k, struct preload_facts *facts, const char **reason, struct err *e)
{
    set_verifying(k, false);
    *reason = "WorkersNotReady";
    if (load_unpin_all(&k->l, k->pins_of, e))
        return -1;
    if (pass_with_room_for_pins(k, e))
        return pass_failed(k, reason, e);
    if (is_all_there(k))
        k->losses = 0; /* what was evicted was not of these files, or has come back by itself */
    for (int round = 0; round < ROUNDS && !is_all_there(k) && k->losses < LOSSES; round++) {
        *reason = "WorkersNotReady";
        if (ask_facts(k, facts, e))
            return -1;
        set_verifying(k, k->l.n.failed_files == 0);
        if (load_pass(&k->l, k->conf->paths, k->conf->npaths, e))
            return pass_failed(k, reason, e);
    }
    if (is_all_there(k))
        return 0;
    *reason = k->l.n.failed_files ? "LoadFailed" : "CacheTooSmall";
    if (k->l.n.failed_files)
        return err_set(e, ERR_RETRY,
            "%" PRIu64 " of %" PRIu64 " files are not in the cache; first: %s", k->l.n.failed_files,
            k->l.n.files, k->l.first_error);
    return err_set(
        e, ERR_EXHAUSTED, "the cache evicts files while others are loaded or read: " MAKE_ROOM);
}

/* ---- between passes ---- */

static int64_t look_ns(const struct preload *k)
{
    int64_t sync = k->l.s->conf->metadata_sync_ns;
    return k->conf->look_ns ? k->conf->look_ns : sync > 0 ? MAX(sync, NS_PER_S) : LOOK_NS;
}

static int64_t preload_tick(const struct preload *k)
{
    return k->conf->tick_ns ? k->conf->tick_ns : TICK_NS;
}

/* Have files changed since the last pass has listed them? *next: when to look again. Mounts that
 * are immutable are not listed. */
static bool has_changed(struct preload *k, int64_t *next)
{
    struct counting c = {.k = k, .changing = true, .e = ERR_INIT};
    int64_t begin = clock_mono_ns();
    count_all(&c);
    int64_t end = clock_mono_ns();
    *next = end + MAX(look_ns(k), (end - begin) * LOOK_FACTOR);
    if (c.rc)
        return c.e.cls != ERR_RETRY; /* a store that does not answer takes nothing away */
    return c.n.digest != k->l.n.digest || c.n.changing != k->l.n.changing;
}

/* Until something may be missing. */
static void preload_watch(struct preload *k, const struct preload_facts *seen, int64_t pass_ns)
{
    int64_t begin = clock_mono_ns(), next = begin + MAX(look_ns(k), pass_ns);
    int64_t soon = MAX(look_ns(k), pass_ns * LOOK_FACTOR);
    struct preload_facts f;
    while (load_pause(&k->l, preload_tick(k))) {
        struct err e = ERR_INIT;
        int64_t age = clock_mono_ns() - begin;
        if (load_look(&k->l)) {
            preload_lost(k, "the number of cache workers has changed");
            return;
        }
        if (ask_facts(k, &f, &e))
            continue; /* it does not answer, or has not begun again yet */
        if (f.starts != seen->starts) {
            preload_lost(k, "a cache worker has started again");
            return;
        }
        if (f.evicted != seen->evicted) {
            k->losses = age < soon ? k->losses + 1 : 1;
            preload_lost(k, "a cache worker has evicted some of it: " MAKE_ROOM);
            return;
        }
        if (clock_mono_ns() >= next && has_changed(k, &next)) {
            preload_lost(k, "files have changed");
            return;
        }
        if (age >= MAX(WHOLE_NS, pass_ns * LOOK_FACTOR))
            return;
    }
}

/* Or until a worker has begun again: perhaps there is room now. */
static void preload_rest(struct preload *k, const struct preload_facts *seen, int64_t ns)
{
    struct preload_facts f;
    int64_t tick = preload_tick(k);
    for (int64_t until = clock_mono_ns() + ns, now; (now = clock_mono_ns()) < until;) {
        struct err e = ERR_INIT;
        if (!load_pause(&k->l, MIN(tick, until - now)) || load_look(&k->l)
            || (ask_facts(k, &f, &e) == 0 && f.starts != seen->starts))
            return;
    }
}

/* With other workers the pins of those that lost a chunk are to end, too. */
static void name_pins(struct preload *k)
{
    uint64_t hash = (uint64_t)k->l.nurls;
    for (size_t i = 0; i < k->conf->npaths; i++)
        if (k->conf->paths[i].pin == REQUEST_PIN)
            hash = hash64_mix(hash, hash64(k->conf->paths[i].path, strlen(k->conf->paths[i].path)));
    snprintf(k->pins_of, sizeof k->pins_of, "%016" PRIx64, hash);
}

/* One pass when the stores and the workers answer. *took: its time. */
static int preload_once(struct preload *k, struct preload_facts *facts, int64_t *took,
    const char **reason, struct err *e)
{
    *reason = "WorkersNotReady";
    load_look(&k->l);
    name_pins(k);
    if (k->l.s->conf && ask_facts(k, facts, e))
        return -1;
    *reason = "StoreUnavailable";
    if (load_wait_ready(&k->l, READY_NS, e))
        return -1;
    pthread_mutex_lock(&k->l.mu);
    k->capacity = facts->capacity;
    if (!*k->workers)
        k->evicted = facts->evicted;
    pthread_mutex_unlock(&k->l.mu);
    k->l.mark = (uint8_t)(k->l.mark % UINT8_MAX + 1);
    int64_t begin = clock_mono_ns();
    int rc = preload_pass(k, facts, reason, e);
    *took = clock_mono_ns() - begin;
    return rc;
}

int preload_run(struct server *s, const struct preload_conf *kc)
{
    struct preload k = {.conf = kc};
    struct err e = ERR_INIT;
    int rc = load_open(&k.l, s, kc->urls, kc->nurls, &e);
    k.l.threads = kc->threads;
    k.l.waits.slow_ns = kc->slow_ns;
    k.l.mark = (uint8_t)(clock_real_ns() / NS_PER_S); /* not that of a process before */
    k.l.unpin_how = "pin fewer paths in spec.cache.preload";
    server_tell_more(s, add_preload_status, &k);
    if (rc)
        log_kv(LOG_ERROR, "can't keep anything loaded", "error", e.msg, NULL);
    for (int64_t pause = PAUSE_MIN_NS; rc == 0 && !atomic_load(&s->cancel);) {
        struct preload_facts facts = {0};
        const char *reason = "";
        int64_t took = 0;
        err_clear(&e);
        if (preload_once(&k, &facts, &took, &reason, &e) == 0) {
            pause = PAUSE_MIN_NS;
            preload_succeeded(&k, &facts);
            load_unmark(&k.l, &e); /* else it looks again for nothing, no more */
            preload_watch(&k, &facts, took);
        } else if (!atomic_load(&s->cancel)) {
            preload_failed(&k, reason, &e);
            bool small = strcmp(reason, "CacheTooSmall") == 0;
            preload_rest(&k, &facts, small ? MAX(pause, took * REST_FACTOR) : pause);
            pause = MIN(pause * 2, PAUSE_MAX_NS);
        }
    }
    server_tell_more(s, NULL, NULL);
    load_close(&k.l);
    return rc ? 1 : 0;
}
