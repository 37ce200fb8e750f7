/* SPDX-License-Identifier: Apache-2.0 */
/* session_init — what libfuse 3.14 does not know of the kernel's INIT and OPEN, put into its
 * answers. The kernel's structures are spelled here, as they are on the wire: headers name some of
 * their fields differently, by their age. Pure. */
#ifndef MILLRACE_FUSE_SESSION_INIT_H
#define MILLRACE_FUSE_SESSION_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the kernel says in its INIT. */
struct session_offer {
    uint64_t unique;        /* of the request */
    uint32_t flags, flags2; /* 0 in what an older kernel leaves out */
};

/* a request with its header */
void session_offer_read(struct session_offer *o, const void *request, size_t len);
bool session_offer_passthrough(const struct session_offer *o);
bool session_offer_resend(const struct session_offer *o);
/* Agrees to what was offered. reply: without its header. stack_depth 0: not to passthrough. */
void session_init_patch(
    const struct session_offer *o, unsigned stack_depth, void *reply, size_t len);
/* The answer of an OPEN: reads and writes go to that backing file. Too short for one: nothing
 * happens. */
void session_open_patch(int32_t backing_id, void *reply, size_t len);

#endif
