/* SPDX-License-Identifier: Apache-2.0 */
/* fake_s3 — an S3 server in memory that misbehaves on purpose. One bucket, "data"; key ids that
 * begin with "good" (any secret) or no signature at all. Faults are given per method and happen to
 * the next requests of it, in the order given; "fine" lets that many requests pass first. */
#ifndef MILLRACE_TESTS_FAKE_FAKE_S3_H
#define MILLRACE_TESTS_FAKE_FAKE_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_s3; /* opaque */

struct fake_s3 *fake_s3_start(int port); /* on the loopback; 0: any port; aborts if it cannot */
void fake_s3_stop(struct fake_s3 *f);
int fake_s3_port(const struct fake_s3 *f);
/* Of what is read and listed from now on: with ETags (true, as at first) or none; touched:
 * Last-Modified is an hour later. */
void fake_s3_tags(struct fake_s3 *f, bool etags, bool touched);
/* Just before the next request of that method, somebody else writes that object. */
void fake_s3_race(
    struct fake_s3 *f, const char *method, const char *key, const void *data, size_t len);
/* … or just after it. */
void fake_s3_race_after(struct fake_s3 *f);
/* Writes with conditions are refused from now on, as servers do that do not know them. */
void fake_s3_unconditional(struct fake_s3 *f);
/* Objects <prefix>/d<nnnn>/f<nnnnnnnn>, dirs × files of them and size bytes each, that cost no
 * memory. Listings of what is above them do not show them, and only those with a delimiter do.
 * Content: byte i is the i-th of the key, repeated. */
void fake_s3_synth(
    struct fake_s3 *f, const char *prefix, unsigned dirs, unsigned files, size_t size);
void fake_s3_put(struct fake_s3 *f, const char *key, const void *data, size_t len);
void fake_s3_del(struct fake_s3 *f, const char *key);
/* Content of the object, caller frees; NULL if there is none. */
void *fake_s3_get(struct fake_s3 *f, const char *key, size_t *len);
unsigned fake_s3_requests(struct fake_s3 *f, const char *method); /* so far; NULL: all */
/* multipart uploads begun and neither finished nor aborted */
unsigned fake_s3_uploads(struct fake_s3 *f);
/* Requests without that header line are refused from now on; objects: only those of an object.
 * Several lines may be demanded. */
void fake_s3_demand(struct fake_s3 *f, const char *line, bool objects);
/* Answers without a range that ask for it tell a CRC64NVME from now on. */
void fake_s3_sums(struct fake_s3 *f, bool told);
/* From now on it is Cloud Storage: it takes that token alone ("": anybody), and no word of S3's. */
void fake_s3_google(struct fake_s3 *f, const char *token);
/* requests signed with that key id: 400 ExpiredToken */
void fake_s3_expire(struct fake_s3 *f, const char *key_id);

/* Signed requests for another region than that one are refused. "": all regions are fine. */
enum fake_s3_tells {
    FAKE_S3_TELLS_BODY,   /* 400 AuthorizationHeaderMalformed with <Region> */
    FAKE_S3_TELLS_HEADER, /* 301 with x-amz-bucket-region */
    FAKE_S3_TELLS_HEAD,   /* 301 without a word; HEAD of the bucket tells */
    FAKE_S3_TELLS_NOT,    /* nor does that */
    FAKE_S3_TELLS_CIRCLE, /* the region is never right: it is that one, then us-east-1 */
};
void fake_s3_region(struct fake_s3 *f, const char *region, enum fake_s3_tells how);

/* kind: slowdown (503 SlowDown, Retry-After: 1), throttled (429), error (500), reset (connection
 * closed without an answer), truncated (half the body), stall (half of it, and
 * the other does not come), short (a shorter body that claims to be
 * whole), long (more bytes than asked for), etag (another version's ETag and bytes), norange (200
 * with the whole object), otherrange (other bytes than those asked for), xml (malformed), html (a
 * page of some other server), redirect (301 to eu-west-9), hang (no byte until the client gives
 * up), skew (refused for its time until the client uses ours, an hour from now), denied (403),
 * ok200 (200 with an Error document), mute (200, nothing is done or said), lost (done, but the
 * answer is lost), slow (after 50 ms), forgotten (404 NoSuchUpload), damaged (a bit is another
 * one). -1: no such kind. */
int fake_s3_fault(struct fake_s3 *f, const char *method, const char *kind, unsigned count);
void fake_s3_clear(struct fake_s3 *f); /* no more faults */
/* requests so far to which one of that kind made a difference */
unsigned fake_s3_faults(struct fake_s3 *f, const char *kind);

#endif
