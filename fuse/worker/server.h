/* SPDX-License-Identifier: Apache-2.0 */
/* server — what a worker is made of: its dataset's stores, its cache, and what it can say of
 * itself. The store of a mount is made and looked at in the background with a growing pause; a
 * store that can't be used makes the worker unready and says why, no more. Threads: any. Locks:
 * server.mu, a leaf. */
#ifndef MILLRACE_FUSE_WORKER_SERVER_H
#define MILLRACE_FUSE_WORKER_SERVER_H

#include "fuse/cache/cache.h"
#include "fuse/store/store.h"
#include "lib/base/buf.h"
#include "lib/base/task.h"
#include "lib/conf/report.h"
#include "lib/http/health.h"
#include "lib/http/scrape.h"
#include "lib/sign/sign.h"

#include <pthread.h>

struct server {
    const char *component;   /* COMPONENT_WORKER | COMPONENT_LOADER */
    const struct conf *conf; /* owned; NULL: the configuration can't be used */
    const char *secrets_dir, *cache_dir;
    /* NULL: who reaches the worker is answered. Else what it serves is for those who have the key,
     * and what it asks other workers is signed. Borrowed */
    const struct sign_key *key;
    /* one a mount; server.mu to write, NULL until made, then never changed */
    struct store **stores;
    _Atomic(struct cache *) cache; /* NULL until its directory can be used */
    pthread_mutex_t mu;
    struct report_problem whole, *mounts; /* mu */
    bool checked;                         /* mu: every mount was looked at once */
    atomic_bool cancel;                   /* set by server_stop */
    struct task checker;
    struct {
        uint64_t bytes, files;
        bool complete;
    } inventory; /* mu */
    bool has_inventory;
    _Atomic uint64_t served_bytes, requests, failed_requests;
    _Atomic uint64_t copied_bytes; /* of responses on their way that go through our memory */
    uint64_t started_ms;           /* since the epoch */
    /* mu, like more_user; or NULL. known: as report_common.to_stranger says, or all */
    void (*more)(void *user, bool known, struct buf *out);
    void *more_user;
    char pins_of[40]; /* mu: the last "unless" of /v1/unpin */
    struct health health;
    struct scrape scrape;
};

struct server *server_new(const char *component, const char *secrets_dir, const char *cache_dir);
/* The configuration as text (NULL: missing). Always succeeds: a bad one is the server's problem. */
void server_configure(struct server *s, const char *json);
/* the checker, which makes stores and cache */
void server_start(struct server *s);
void server_fail(struct server *s, const char *reason, const char *message);
bool server_ready(struct server *s);
/* What to tell of the whole, reason "" if all is well; s->mu is held. */
const struct report_problem *server_worst(const struct server *s);
struct store *server_store(struct server *s, size_t mount); /* NULL: can't be used (yet) */
/* more adds further members to /status, with the server's lock held; NULL: no more, and the last
 * one does not run any more. */
void server_tell_more(
    struct server *s, void (*more)(void *user, bool known, struct buf *out), void *user);
/* no thread of it runs afterwards; the server is stopped before */
void server_stop(struct server *s);
void server_free(struct server *s);

/* status.c: /healthz /readyz /status; and what server.scrape collects */
#define STATUS_ROUTES (HEALTH_ROUTES + 1)
void status_routes(struct server *s, struct serve_route out[STATUS_ROUTES]);
/* {"reason","message"} as a response's body. */
void server_answer_error(
    struct serve_resp *resp, int status, const char *reason, const char *message);
int server_status_of(const struct err *e); /* HTTP status of an error */

/* inventory.c: counts the dataset's files in the background, for the operator's ufsTotal.
 * inventory_stop comes before server_stop, and does nothing where it was not started. */
void inventory_start(struct server *s);
void inventory_stop(void);

/* serve_range.c: the worker's own routes: /v1/data, /v1/load, /v1/unpin, /v1/unmark. */
#define SERVE_RANGE_ROUTES 5
void serve_range_routes(struct server *s, struct serve_route out[SERVE_RANGE_ROUTES]);
/* The listener of a worker. Where it is full, those who have the key keep their connections, and
 * take their answers as slowly as they like; strangers have HEALTH_ANSWER_NS for one answer.
 * address: NULL for PORT_HTTP of every address. */
struct http_server *server_listen(const char *address, unsigned max_threads,
    const struct serve_route *routes, size_t n, struct err *e);

#endif
