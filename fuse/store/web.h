/* SPDX-License-Identifier: Apache-2.0 */
/* web — inside of the store of a web server: one request with its redirects, what a file is, its
 * bytes. Read-only. */
#ifndef MILLRACE_FUSE_STORE_WEB_H
#define MILLRACE_FUSE_STORE_WEB_H

#include "fuse/store/impl.h"
#include "fuse/store/web_hub.h"
#include "lib/http/http.h"

/* What the server turned out to be, whose URL may be that of a repository. */
enum web_layout { WEB_UNKNOWN, WEB_REPO, WEB_PAGES };
struct web {
    struct store_params params;
    struct http *http;
    char *base;                     /* URL of the root, "/" at its end */
    struct web_auth *auth;          /* for the server of base alone */
    struct web_manifest *manifest;  /* the list of files; NULL: index pages are read */
    struct web_hub *hub;            /* … or, if it may be a repository of a hub, its tree API */
    _Atomic enum web_layout layout; /* where there is a hub */
    struct web_bucket *_Atomic bucket; /* … or where it turned out to be in a bucket; set once */
    atomic_bool no_bucket;             /* … or not to be in one */
};

/* -- credentials (web_auth.c) ------------------------------------------------------------------ */

struct web_auth; /* opaque; borrows what it is made of */
struct web_auth *web_auth_new(const struct store_params *p);
void web_auth_free(struct web_auth *a);
struct web_lines { /* header lines, owned; each may be NULL */
    char *authorization, *header;
};
/* A copy of those of now. DENIED (SecretMissing, InvalidOption). */
int web_auth_get(struct web_auth *a, struct web_lines *out, struct err *e);
/* These were refused: they become those that there are now. True: those are others. */
bool web_auth_renew(struct web_auth *a, struct web_lines *lines);
void web_lines_clear(struct web_lines *l);
#define cleanup_lines __attribute__((cleanup(web_lines_clear)))
/* pure: a header of the user's own, "Name: value", and none that HTTP itself needs */
bool web_header_ok(const char *line);

/* -- one request (web_request.c)
 * ----------------------------------------------------------------------- */

struct web_call {
    const char *method, *url;
    const char *range, *match; /* header lines, or NULL */
    bool may_be_same;          /* 304 is an answer, too */
    bool listing;              /* what is refused is a directory's index page */
    sink_fn sink;              /* as of http_req */
    int (*begin)(void *sink_user, const struct http_resp *resp);
    void *sink_user;
    struct web_linked *linked; /* gets that; HEAD needs no more. NULL: not of a repository */
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
/* Of a file of that size, by its ETag as it is sent (NULL: none) and its time. */
void web_version_of(const char *etag, int64_t mtime_ns, uint64_t size, char out[STORE_VERSION_MAX]);
/* the same by an answer's headers */
void web_version(const struct http_resp *resp, uint64_t size, char out[STORE_VERSION_MAX]);

/* -- lists of files (web_manifest.c) ------------------------------------------------------------
 */

struct web_manifest *web_manifest_new(char *url_take);
void web_manifest_free(struct web_manifest *m);
/* Tells the path of each file, as the list has them; asks for it where it is not fresh. */
int web_manifest_each(struct web *w, struct retry *r, void (*fn)(void *user, const char *path),
    void *user, struct err *e);

/* -- repositories (web_repo.c) ------------------------------------------------------------------
 */

/* One page; a cursor is the URL of the next one. fn NULL: is the directory there? */
int web_repo_list(struct web *w, const char *dir, bool tree, char **cursor, struct retry *r,
    store_list_fn fn, void *user, struct err *e);
int web_repo_stat(struct web *w, const char *path, struct retry *r, struct store_stat *st,
    int *status, struct err *e);

/* -- buckets that list themselves (web_bucket.c) ------------------------------------------------
 */

void web_bucket_free(struct web_bucket *b);
struct web_bucket *web_bucket_known(struct web *w); /* NULL: it is none, as far as is known */
/* After index pages were refused: asks whether it is one. */
struct web_bucket *web_bucket_look(struct web *w, const struct retry *r);
/* One page of one that is known; a cursor is its token. fn NULL: is the directory there? */
int web_bucket_list(struct web *w, const char *dir, bool tree, char **cursor, struct retry *r,
    store_list_fn fn, void *user, struct err *e);
/* 1: something is below it; 0, -1 */
int web_bucket_has_dir(struct web *w, const char *path, struct retry *r, struct err *e);

/* -- what the server is (web_layout.c) ----------------------------------------------------------
 */

/* The index page of a directory; *at: its URL, caller frees. */
int web_index_page(struct web *w, const char *dir, struct retry *r, struct http_resp *resp,
    char **at, struct err *e);
/* Is it a repository? What has no tree API but index pages is none; as long as neither answers,
 * the URL is believed. */
bool web_is_repo(struct web *w, const struct retry *r);

/* -- operations (web_list.c, web_read.c) --------------------------------------------------------
 */

/* *status: of the last answer, 0 if there was none. */
int web_stat_by(struct web *w, const char *path, struct retry *r, struct store_stat *st,
    int *status, struct err *e);
int web_stat(void *impl, const char *path, struct store_stat *st, struct err *e);
int web_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
int web_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int web_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int web_check(void *impl, struct err *e);

#endif
