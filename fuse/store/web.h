/* SPDX-License-Identifier: Apache-2.0 */
/* web — inside of the store of a web server: one request with its redirects, what a file is, its
 * bytes. Read-only. */
#ifndef MILLRACE_FUSE_STORE_WEB_H
#define MILLRACE_FUSE_STORE_WEB_H

#include "fuse/store/impl.h"
#include "lib/http/http.h"

struct web {
    struct store_params params;
    struct http *http;
    char *base;          /* URL of the root, "/" at its end */
    size_t origin;       /* bytes of it that are scheme, host and port */
    char *authorization; /* header line, for that origin alone; or NULL */
    char *manifest;      /* URL of the list of files; NULL: index pages are read */
};

struct web_call {
    const char *method, *url;
    const char *range, *match; /* header lines, or NULL */
    sink_fn sink;              /* as of http_req */
    int (*begin)(void *sink_user, const struct http_resp *resp);
    void *sink_user;
    size_t max_body;
    const char *what; /* object for error texts */
};

/* One attempt, redirects followed. 0: 2xx; *at: the URL that answered, caller frees. resp is always
 * initialised; *after_ns: as of retry_again. */
int web_once(struct web *w, const struct web_call *c, const struct retry *r, struct http_resp *resp,
    char **at, int64_t *after_ns, struct err *e);
/* As many as it takes. */
int web_do(struct web *w, const struct web_call *c, struct retry *r, struct http_resp *resp,
    char **at, struct err *e);
char *web_url(const struct web *w, const char *path, bool directory); /* caller frees */
/* of a file of that size, by an answer's headers */
void web_version(const struct http_resp *resp, uint64_t size, char out[STORE_VERSION_MAX]);

int web_stat(void *impl, const char *path, struct store_stat *st, struct err *e);
int web_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
int web_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int web_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int web_check(void *impl, struct err *e);

#endif
