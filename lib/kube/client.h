/* SPDX-License-Identifier: Apache-2.0 */
/* client — inside lib/kube: what a struct kube holds, for client.c and watch.c. */
#ifndef MILLRACE_LIB_KUBE_CLIENT_H
#define MILLRACE_LIB_KUBE_CLIENT_H

#include "lib/http/http.h"
#include "lib/kube/conf.h"

#include <pthread.h>

struct kube {
    struct kube_conf *conf; /* owned */
    struct http *http;
    char *field_manager; /* escaped for a query */
    int64_t timeout_ns;
    unsigned max_in_flight;
    pthread_mutex_t mu;              /* leaf */
    pthread_cond_t ended;            /* a request has */
    unsigned in_flight;              /* mu */
    atomic_int_fast64_t answered_ns; /* mono: the last 2xx */
};

/* "<server>/api/v1/namespaces/<ns>/<plural>/<name>/<sub>"; ns, name, sub NULL or "" are left out.
 * Caller frees. */
char *client_url(const struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub);
/* appends ?key=value or &key=value, escaped */
void client_query(char **url, const char *key, const char *value);
#define CLIENT_HEADERS 5
/* Fills headers (Accept, Authorization, Content-Type) up to NULL; free them with
 * client_headers_free. */
void client_headers(
    struct kube *k, const char *content_type, bool fresh_token, char *headers[CLIENT_HEADERS]);
void client_headers_free(char *headers[CLIENT_HEADERS]);

/* One request; ns, name and body may be NULL. */
struct client_call {
    const char *verb; /* for people: "create" */
    const char *method, *content_type;
    const struct kube_res *res;
    const char *ns, *name;
    char *url; /* owned by the caller */
    const json_t *body;
    size_t max; /* bytes of the answer */
};
/* Of its answer, where the caller wants to know. */
struct client_bytes {
    size_t size;       /* if it was read */
    struct buf unread; /* what came of one that is good, but cannot be read or is longer than max */
    struct kube_warnings *warnings; /* or NULL: as struct kube_write has it */
};
int client_request(struct kube *k, const struct client_call *c, json_t **out,
    struct client_bytes *bytes /* or NULL */, struct err *e);
/* Counts one try; status 0: no answer; took_ns -1: a watch. */
void client_count(struct kube *k, const struct client_call *c, int status, int64_t took_ns);
/* puts "<verb> <plural> <key>: " before the error; -1 */
int client_say(const struct client_call *c, struct err *e);

#endif
