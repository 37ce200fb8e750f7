/* SPDX-License-Identifier: Apache-2.0 */
/* serve — a small HTTP/1.1 server for health, metrics, status and the worker's data. Keep-alive,
 * one thread per connection up to a limit (then the one that is idle longest makes room for the
 * next). Requests larger than 16 KiB of head are refused with 431. */
#ifndef MILLRACE_LIB_HTTP_SERVE_H
#define MILLRACE_LIB_HTTP_SERVE_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct http_server; /* opaque */

struct serve_req {
    /* path is percent-decoded (a NUL in it is refused); query raw, "" if none */
    const char *method, *path, *query;
    const char *headers; /* "name: value\n", names in lower case */
    const void *body;    /* at most serve_conf.max_body bytes, else 413 */
    size_t body_len;
};
const char *serve_header(const struct serve_req *r, const char *lower_name, char *out, size_t cap);
/* decoded value; caller frees; NULL if absent */
char *serve_query(const struct serve_req *r, const char *key);

struct serve_resp {
    int status;               /* preset to 200 */
    const char *content_type; /* preset to text/plain; literal */
    struct buf headers;       /* further "Name: value\r\n" lines */
    struct buf body;          /* either this … */
    /* … or fd_len bytes of this file from fd_off by sendfile; -1 if unused; closed by the server */
    int fd;
    off_t fd_off;
    uint64_t fd_len;
    /* NULL, or called once when the response was sent or given up: fd's bytes are no longer needed
     */
    void (*done)(void *user);
    void *done_user;
    /* preset to false; true: who asked may take his time, whatever serve_conf.answer_ns says */
    bool patient;
};

typedef void (*serve_handler)(void *user, const struct serve_req *req, struct serve_resp *resp);
struct serve_route {
    const char *method; /* "GET" also answers HEAD */
    /* longest match wins; a prefix that does not end in / must match the whole path */
    const char *prefix;
    serve_handler handler;
    void *user;
};
struct serve_conf {
    const char *address;              /* "0.0.0.0:9400", "127.0.0.1:0", "[::]:9400" */
    int port;                         /* without an address: of every address of the host */
    const struct serve_route *routes; /* copied */
    size_t nroutes;
    unsigned max_threads; /* 0: 64 */
    size_t max_body;      /* 0: 1 MiB */
    int64_t idle_ns;      /* idle keep-alive connections are closed; 0: 60 s */
    /* 0: never. Where all threads are taken: an answer whose reader takes longer is cut when
     * another connection waits, and a connection ends with its answer, so that one which always has
     * the next request ready holds no thread either */
    int64_t answer_ns;
};
/* listens and runs in the background */
struct http_server *serve_start(const struct serve_conf *conf, struct err *e);
int serve_port(const struct http_server *s);
/* stops accepting, ends idle connections, waits for running handlers, frees */
void serve_stop(struct http_server *s);

#endif
