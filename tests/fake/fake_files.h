/* SPDX-License-Identifier: Apache-2.0 */
/* fake_files — files in memory, all in the directory /set, by two protocols at once: as a web
 * server has them, and by WebHDFS, as name node and as data node. For faults only: there are no
 * other directories. */
#ifndef MILLRACE_TESTS_FAKE_FAKE_FILES_H
#define MILLRACE_TESTS_FAKE_FAKE_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct fake_files; /* opaque */

struct fake_files *fake_files_start(void); /* on the loopback; aborts if it cannot */
void fake_files_stop(struct fake_files *f);
int fake_files_port(const struct fake_files *f);
void fake_files_put(struct fake_files *f, const char *path, const void *data, size_t len);
/* Content, caller frees; NULL if there is none. */
void *fake_files_get(struct fake_files *f, const char *path, size_t *len);
unsigned fake_files_count(struct fake_files *f); /* files that there are, half ones, too */
/* The only token that is taken from now on: of a bearer, and for delegation. */
void fake_files_token(struct fake_files *f, const char *token);
/* Requests with another token so far. */
unsigned fake_files_refused(struct fake_files *f);
/* It is a name node on standby from now on, or active. */
void fake_files_standby(struct fake_files *f, bool on);

/* It is HttpFS from now on, as far as a rename to a name that is taken goes: not done, without
 * words. */
void fake_files_httpfs(struct fake_files *f);

/* Happens to the next requests of where: "web", "name" (node) or "data" (node). kind: busy (503,
 * Retry-After: 1), error (500), reset (connection closed without an answer), truncated (half the
 * body), stall (half of it, and the other does not come), hang (no byte until the client gives up),
 * short (a shorter body that claims to be whole; of an upload, half is kept), long (more bytes than
 * asked for), circle (a redirect to itself), safemode, nohead (405), lost (done, but the answer is
 * lost), fine (nothing happens). */
void fake_files_fault(struct fake_files *f, const char *where, const char *kind, unsigned count);
void fake_files_clear(struct fake_files *f); /* no more faults */
/* requests so far to which one happened */
unsigned fake_files_struck(struct fake_files *f);

#endif
