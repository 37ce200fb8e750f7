/* SPDX-License-Identifier: Apache-2.0 */
/* api — an API server for tests: a small one that really keeps objects (get, list in pages, watch,
 * create, update, merge patch, a good-enough server-side apply, delete with preconditions and
 * finalizers), and that misbehaves on request. It listens on 127.0.0.1. Threads: any test thread
 * may call these. */
#ifndef MILLRACE_TESTS_FAKE_API_H
#define MILLRACE_TESTS_FAKE_API_H

#include "lib/kube/kube.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_api; /* opaque */

struct fake_api *fake_api_start(void);
void fake_api_stop(struct fake_api *f);                 /* cuts all connections, frees */
const char *fake_api_url(const struct fake_api *f);     /* "http://127.0.0.1:port" */
char *fake_api_kubeconfig(const struct fake_api *f);    /* caller frees */
struct kube *fake_api_client(const struct fake_api *f); /* a new client of it; the caller frees */
struct kube *fake_api_client_opts(const struct fake_api *f, const struct kube_opts *opts);

/* ---- objects, as if another client wrote them ---- */
/* A string value that is this one is sent as something that is no JSON: always, so that the object
 * cannot be read, wherever it comes from. */
#define FAKE_BROKEN "@broken@"
/* creates or replaces, with status */
void fake_api_put(struct fake_api *f, const struct kube_res *res, json_t *object_take);
/* at once, whatever its finalizers */
void fake_api_remove(struct fake_api *f, const struct kube_res *res, const char *key);
/* a copy, the caller owns it; NULL if absent */
json_t *fake_api_get(struct fake_api *f, const struct kube_res *res, const char *key);
size_t fake_api_len(struct fake_api *f, const struct kube_res *res);
/* Objects of a resource that is not installed answer 404. All are, until this is called. */
void fake_api_uninstall(struct fake_api *f, const struct kube_res *res, bool gone);

/* ---- watches ---- */
/* every version up to now is too old for a watch or a continue token */
void fake_api_compact(struct fake_api *f);
void fake_api_bookmark(struct fake_api *f);     /* all watches get one */
void fake_api_drop_watches(struct fake_api *f); /* ends them, as a server does that restarts */
unsigned fake_api_watchers(struct fake_api *f, const struct kube_res *res);

/* ---- misbehaviour ---- */
enum fake_fault_kind {
    FAULT_STATUS,  /* answers with status, headers, body; does nothing else */
    FAULT_RESET,   /* RST instead of an answer */
    FAULT_LOSE,    /* does what is asked, then RST instead of the answer */
    FAULT_CUT,     /* the right answer, but only its first `bytes` of body */
    FAULT_SLOW,    /* the right answer, delay_ns later; or when the server stops */
    FAULT_STREAM,  /* status 200 and body, then the connection ends (no length): for watches */
    FAULT_ENDLESS, /* status 200 and `bytes` bytes without a line's end */
};
struct fake_fault {
    const char *method; /* NULL: any */
    const char *in;     /* must be in path?query; NULL: any */
    unsigned times;     /* how often; 0: once */
    enum fake_fault_kind kind;
    int status;
    const char *headers; /* further "Name: value\r\n" lines; NULL: none */
    const char *type;    /* content type; NULL: application/json */
    const char *body;    /* NULL: a Status that fits */
    size_t bytes;
    int64_t delay_ns;
};
/* copies; earlier ones first */
void fake_api_fault(struct fake_api *f, const struct fake_fault *fault);
/* what is left of them is forgotten */
void fake_api_mend(struct fake_api *f);

/* Asked about every write before it is done, on the connection's thread. user_agent: the header's
 * value, borrowed. */
enum fake_verdict {
    FAKE_DO,
    FAKE_DROP,        /* not done; RST */
    FAKE_DO_AND_DROP, /* done; RST instead of the answer */
};
typedef enum fake_verdict (*fake_judge)(
    void *user, const char *method, const char *target, const char *user_agent);
void fake_api_judge(struct fake_api *f, fake_judge fn, void *user); /* before there are writes */

/* ---- what was asked ---- */
/* requests so far; NULL: any */
unsigned fake_api_count(struct fake_api *f, const char *method, const char *in);
/* body of the last one; the caller frees; NULL: none */
char *fake_api_last(struct fake_api *f, const char *method, const char *in);
/* of the last request; the caller frees */
char *fake_api_last_headers(struct fake_api *f);
/* accepted so far */
unsigned fake_api_connections(struct fake_api *f);
/* counts start again */
void fake_api_forget(struct fake_api *f);

#endif
