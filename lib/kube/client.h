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
    pthread_mutex_t mu;   /* leaf */
    pthread_cond_t ended; /* a request has */
    unsigned in_flight;   /* mu */
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

#endif
