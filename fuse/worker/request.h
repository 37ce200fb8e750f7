/* SPDX-License-Identifier: Apache-2.0 */
/* request — what a request to a worker asks for. Pure parsers of what comes over the network. */
#ifndef MILLRACE_FUSE_WORKER_REQUEST_H
#define MILLRACE_FUSE_WORKER_REQUEST_H

#include "fuse/cache/cache.h"
#include "lib/base/err.h"
#include "lib/http/serve.h"

struct request {
    struct cache_key key; /* its strings are path and version */
    char *path, *version; /* owned */
};
/* mount=I&path=P&version=V&size=S; INVALID names the parameter. nmounts: mounts of this dataset. */
int request_parse(const struct serve_req *req, size_t nmounts, struct request *r, struct err *e);
void request_free(struct request *r);

/* An unsigned decimal parameter; absent: dflt. INVALID if it is something else. */
int request_number(
    const struct serve_req *req, const char *name, uint64_t dflt, uint64_t *out, struct err *e);
enum request_pin { REQUEST_PIN_AS_IS, REQUEST_PIN, REQUEST_UNPIN };
/* pin=1 or pin=0; absent: as it is. */
int request_pin(const struct serve_req *req, enum request_pin *out, struct err *e);
/* mark=1 to mark=255; absent: 0. */
int request_mark(const struct serve_req *req, uint8_t *out, struct err *e);

enum range { RANGE_OK, RANGE_BAD, RANGE_OUTSIDE };
/* One range of a Range header ("bytes=a-b", "bytes=a-", "bytes=-n") of an object of that size;
 * header NULL: all of it. */
enum range range_parse(const char *header, uint64_t size, uint64_t *off, uint64_t *len);

#endif
