/* SPDX-License-Identifier: Apache-2.0 */
/* site — what a worker is made of: its dataset's stores, its cache, and what it can say of itself.
 * The store of a mount is made and looked at in the background with a growing pause; a store that
 * can't be used makes the worker unready and says why, no more. Threads: any. Locks: site.mu, a
 * leaf. */
#ifndef MILLRACE_FUSE_WORKER_SERVER_H
#define MILLRACE_FUSE_WORKER_SERVER_H

#include "fuse/cache/cache.h"
#include "fuse/store/store.h"
#include "lib/base/buf.h"
#include "lib/conf/conf.h"
#include "lib/http/serve.h"

#include <pthread.h>

struct site_trouble {
    char reason[32], message[512]; /* reason "" : none */
};

struct site {
    const char *component;   /* COMPONENT_WORKER | COMPONENT_LOADER */
    const struct conf *conf; /* owned; NULL: the configuration can't be used */
    const char *secrets_dir, *cache_dir;
    /* one a mount; site.mu to write, NULL until made, then never changed */
    struct store **stores;
    _Atomic(struct cache *) cache; /* NULL until its directory can be used */
    pthread_mutex_t mu;
    pthread_cond_t wake;                /* of the checker, with mu */
    struct site_trouble whole, *mounts; /* mu */
    bool checked, stopping;             /* mu; checked: every mount was looked at once */
    atomic_bool cancel;                 /* set by site_stop */
    bool has_checker;
    pthread_t checker;
    struct {
        uint64_t bytes, files;
        bool complete;
    } ufs; /* mu */
    bool has_ufs;
    _Atomic uint64_t served_bytes, requests, failed_requests;
    /* further members of /status, each beginning with a comma; or NULL */
    void (*more)(void *user, struct buf *out);
    void *more_user;
};

struct site *site_new(const char *component, const char *secrets_dir, const char *cache_dir);
/* The configuration as text (NULL: missing). Always succeeds: a bad one is the site's trouble. */
void site_configure(struct site *s, const char *json);
/* the checker, which makes stores and cache */
void site_start(struct site *s);
void site_fail(struct site *s, const char *reason, const char *message);
bool site_ready(struct site *s);
/* What to tell of the whole, reason "" if all is well; s->mu is held. */
const struct site_trouble *site_worst(const struct site *s);
struct store *site_store(struct site *s, size_t mount); /* NULL: can't be used (yet) */
/* no thread of it runs afterwards; the server is stopped before */
void site_stop(struct site *s);
void site_free(struct site *s);

/* status.c: /healthz /readyz /status /metrics */
#define SITE_ROUTES 4
void site_routes(struct site *s, struct serve_route out[SITE_ROUTES]);
/* {"reason","message"} as a response's body. */
void site_answer_error(
    struct serve_resp *resp, int status, const char *reason, const char *message);
int site_status_of(const struct err *e); /* HTTP status of an error */

/* inventory.c: counts the dataset's files in the background, for the operator's ufsTotal. Ends once
 * the site is stopped; ufs_stop waits for that, and comes between site_stop and site_free. */
void ufs_start(struct site *s);
void ufs_stop(void);

/* serve_range.c: the worker's own routes: /v1/data, /v1/load, /v1/unpin. */
#define DATA_ROUTES 3
void data_routes(struct site *s, struct serve_route out[DATA_ROUTES]);

#endif
