/* SPDX-License-Identifier: Apache-2.0 */
/* worker_fixture — a worker in this process, served over HTTP, and the directory that is its store.
 */
#ifndef MILLRACE_TESTS_UNIT_FUSE_WORKER_WORKER_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_WORKER_WORKER_FIXTURE_H

#include "fuse/worker/server.h"
#include "lib/http/http.h"
#include "tests/lib/unit.h"

#include <jansson.h>

extern char worker_dir[64]; /* its files are in data/ */
extern struct server *worker;
extern char worker_url[64];
/* of the next worker_start; NULL and 0: none, and enough */
extern const struct sign_key *worker_key;
extern unsigned worker_threads;

int worker_setup(void **state);
int worker_teardown(void **state);
void worker_put_file(const char *name, size_t size);
char *worker_conf_json(const char *below, int64_t quota); /* caller frees */
void worker_start(const char *json);
void worker_stop(void);
/* The same, at the same address, as another process would be, with nothing in its cache. */
void worker_begin_again_empty(const char *json);
bool worker_becomes_ready(int seconds);
/* The status of the answer; -1: there was none. */
int worker_ask(const char *method, const char *path, const char *range, struct http_resp *resp);
/* "ROUTE?" and what names that file below data/; caller frees */
char *worker_path(const char *name, const char *route);
json_t *worker_status(void); /* caller owns */

#endif
