/* SPDX-License-Identifier: Apache-2.0 */
/* fake_s3_ops — inside of fake_s3: its objects and what S3's requests do to them. All with
 * fake_s3.mu held. */
#ifndef MILLRACE_TESTS_FAKE_FAKE_S3_OPS_H
#define MILLRACE_TESTS_FAKE_FAKE_S3_OPS_H

#include "tests/fake/fake_s3.h"

#include "tests/fake/fake_conns.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define FAULT_KINDS 32 /* at most */

/* what of metadata is kept */
#define FAKE_META 5
extern const char *const fake_meta[FAKE_META];

struct object {
    char *key; /* of a part: "<upload id>/<number>", apart from the others by its first byte, 1 */
    char *data;
    size_t len;
    char etag[40];
    char meta[FAKE_META][64]; /* x-amz-meta-…, by fake_meta; "" none */
};

struct fault {
    char method[8], kind[16];
    unsigned left;
};

struct fake_s3 {
    struct fake_conns *conns;
    pthread_mutex_t mu;     /* guards all below */
    struct object *objects; /* sorted by key */
    size_t n, room;
    struct fault faults[64];
    size_t nfaults;
    unsigned counts[6], struck[FAULT_KINDS], uploads, serial, generation;
    char expired[64];
    char region[128]; /* fake_s3_region; "" any */
    enum fake_s3_tells tells;
    bool untagged, touched; /* fake_s3_tags */
    bool unconditional;     /* fake_s3_unconditional */
    struct {
        char line[160];
        bool objects;
    } demands[8]; /* fake_s3_demand */
    size_t ndemands;
    bool sums;   /* fake_s3_sums */
    bool google; /* fake_s3_google */
    char token[256];
    char *heard; /* owned: the headers of the request in S3's words */
    struct {
        char method[8], key[64], data[64];
        size_t len;
        bool after;
    } race; /* fake_s3_race; no method: none */
    struct synth {
        char prefix[64];      /* "" none */
        unsigned dirs, files; /* so many directories of so many files each */
        size_t size;
    } synth;
};

struct object *object_find(struct fake_s3 *f, const char *key);
struct object *object_put(struct fake_s3 *f, const char *key, const void *data, size_t len);
void object_del(struct fake_s3 *f, struct object *o);

void answer_error(struct answer *a, int status, const char *code, const char *message);
/* What a listing below the made-up objects says; false: it is not below them. */
bool synth_list(
    const struct fake_s3 *f, const char *prefix, const char *token, size_t limit, struct answer *a);
/* One of them, for as long as the answer takes; false: it is none of them. The caller frees ->data.
 */
bool synth_object(const struct fake_s3 *f, const char *key, struct object *out);
/* In Google's words: headers become S3's. True: they are not what Google takes, and the answer says
 * so. */
bool google_hear(struct fake_s3 *f, struct request *r, struct answer *a);
void google_say(struct fake_s3 *f, const struct request *r, struct answer *a);
void op_list(struct fake_s3 *f, const struct request *r, struct answer *a);
/* True: a header that is demanded is not there, and the answer says so. */
bool lacks_header(const struct fake_s3 *f, const struct request *r, struct answer *a);
void op_get(struct fake_s3 *f, const struct request *r, const char *fault, struct answer *a);
void op_put(struct fake_s3 *f, const struct request *r, struct answer *a);
void op_post(struct fake_s3 *f, const struct request *r, struct answer *a);
void op_delete(struct fake_s3 *f, const struct request *r, struct answer *a);

#endif
