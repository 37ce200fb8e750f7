/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/session/init.h"

#include "lib/handoff/fuse_kernel.h"

#include <string.h>

#define PARALLEL_DIROPS    (1u << 18)
#define HANDLE_KILLPRIV_V2 (1u << 28)
#define INIT_EXT           (1u << 30)
#define OPEN_KEEP_CACHE    (1u << 1)
#define OPEN_PASSTHROUGH   (1u << 7)

struct in_header {
    uint32_t len, opcode;
    uint64_t unique, nodeid;
    uint32_t uid, gid, pid, more;
};

struct init_in {
    uint32_t major, minor, max_readahead, flags;
    uint32_t flags2; /* since 7.36 */
};
_Static_assert(sizeof(struct in_header) == 40 && offsetof(struct init_in, flags2) == 16,
    "as the kernel has it");

struct init_out {
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2;
    uint32_t max_stack_depth; /* since 7.40; unused before */
    uint32_t unused[6];
};
_Static_assert(sizeof(struct init_out) == 64 && offsetof(struct init_out, max_stack_depth) == 36,
    "as the kernel has it");

struct open_out {
    uint64_t fh;
    uint32_t flags;
    int32_t backing_id; /* since 7.40; padding before */
};
_Static_assert(sizeof(struct open_out) == 16, "as the kernel has it");

void session_offer_read(struct session_offer *o, const void *request, size_t len)
{
    struct {
        struct in_header h;
        struct init_in in;
    } r = {0};
    memcpy(&r.h, request, len < sizeof r.h ? len : sizeof r.h);
    if (len > sizeof r.h)
        memcpy(&r.in, (const char *)request + sizeof r.h,
            len - sizeof r.h < sizeof r.in ? len - sizeof r.h : sizeof r.in);
    *o = (struct session_offer){.unique = r.h.unique,
        .flags = r.in.flags,
        .flags2 = r.in.flags & INIT_EXT ? r.in.flags2 : 0};
}

bool session_offer_passthrough(const struct session_offer *o)
{
    return o->flags2 & FUSE_KERNEL_PASSTHROUGH;
}

bool session_offer_resend(const struct session_offer *o)
{
    return o->flags2 & FUSE_KERNEL_HAS_RESEND;
}

void session_init_patch(
    const struct session_offer *o, unsigned stack_depth, void *reply, size_t len)
{
    struct init_out out = {0};
    size_t have = len < sizeof out ? len : sizeof out;
    memcpy(&out, reply, have);
    out.flags |= o->flags & (PARALLEL_DIROPS | HANDLE_KILLPRIV_V2);
    if ((o->flags & INIT_EXT) && have >= offsetof(struct init_out, unused)) {
        out.flags |= INIT_EXT;
        out.flags2 |= o->flags2 & FUSE_KERNEL_HAS_RESEND;
        if (stack_depth && session_offer_passthrough(o)) {
            out.flags2 |= FUSE_KERNEL_PASSTHROUGH;
            out.max_stack_depth = stack_depth;
        }
    }
    memcpy(reply, &out, have);
}

void session_open_patch(int32_t backing_id, void *reply, size_t len)
{
    struct open_out out;
    if (len < sizeof out)
        return;
    memcpy(&out, reply, sizeof out);
    out.flags = (out.flags | OPEN_PASSTHROUGH) & ~OPEN_KEEP_CACHE; /* the two exclude each other */
    out.backing_id = backing_id;
    memcpy(reply, &out, sizeof out);
}
