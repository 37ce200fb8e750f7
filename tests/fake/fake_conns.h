/* SPDX-License-Identifier: Apache-2.0 */
/* fake_conns — the connections of the servers in memory that misbehave on purpose: reads a request,
 * has it answered, and sends the answer, or less than it. */
#ifndef MILLRACE_TESTS_FAKE_FAKE_CONNS_H
#define MILLRACE_TESTS_FAKE_FAKE_CONNS_H

#include "lib/base/buf.h"
#include "lib/http/head.h"

#include <stdbool.h>
#include <stddef.h>

#define BODY_MAX (256u << 20)

struct answer {
    int status;
    struct buf headers, body;
    bool head_only, drop, hang, slow; /* drop: close without a word */
    bool stall;                       /* what is cut is told to come, and does not */
    bool spoiled;                     /* by a fault that needs the object */
    size_t cut; /* bytes of the body held back, though the length says otherwise */
    int date_offset_s;
};

struct request {
    struct http_head h;
    const char *key; /* "" for the bucket */
    const char *body;
    size_t body_len;
};

typedef void (*fake_respond)(void *user, struct request *r, struct answer *a); /* of any thread */

struct fake_conns; /* opaque */
/* on the loopback; 0: any port; aborts if it cannot */
struct fake_conns *fake_conns_start(int port, fake_respond respond, void *user);
int fake_conns_port(const struct fake_conns *f);
void fake_conns_stop(struct fake_conns *f);

#endif
