/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/session/init.h"
#include "lib/base/mem.h"

#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

/* By the kernel's protocol, whatever the header at hand knows of it. */
#define DIROPS         (1u << 18)
#define KILLPRIV2      (1u << 28)
#define EXT            (1u << 30)
#define PASSTHROUGH    (1u << 5) /* of the second word */
#define RESEND         (1u << 7)
#define AT_FLAGS2      32
#define AT_STACK_DEPTH 36

_Static_assert(sizeof(struct fuse_in_header) == 40 && sizeof(struct fuse_init_in) == 64
        && sizeof(struct fuse_init_out) == 64 && sizeof(struct fuse_open_out) == 16
        && offsetof(struct fuse_init_out, flags2) == AT_FLAGS2,
    "the header says the same");

struct request {
    struct fuse_in_header h;
    struct fuse_init_in in;
};

static struct session_offer offer(uint32_t flags, uint32_t flags2, size_t len)
{
    struct request r = {.h = {.opcode = FUSE_INIT, .unique = 42},
        .in = {.major = 7, .minor = 40, .flags = flags, .flags2 = flags2}};
    struct session_offer o;
    char *exact = xmalloc(len); /* the sanitizer sees the end of it */
    memcpy(exact, &r, len);
    session_offer_read(&o, exact, len);
    free(exact);
    return o;
}

static uint32_t word(const void *reply, size_t at)
{
    uint32_t w;
    memcpy(&w, (const char *)reply + at, sizeof w);
    return w;
}

static void test_offers(void **state)
{
    (void)state;
    struct session_offer o = offer(EXT | DIROPS, PASSTHROUGH | RESEND, sizeof(struct request));
    assert_true(o.unique == 42 && o.flags == (EXT | DIROPS) && session_offer_passthrough(&o)
        && session_offer_resend(&o));
    o = offer(EXT, RESEND, sizeof(struct request));
    assert_true(!session_offer_passthrough(&o) && session_offer_resend(&o));
    o = offer(EXT, PASSTHROUGH, sizeof(struct request));
    assert_true(session_offer_passthrough(&o) && !session_offer_resend(&o));
    /* the second word says nothing */
    o = offer(DIROPS, PASSTHROUGH | RESEND, sizeof(struct request));
    assert_true(o.flags == DIROPS && !session_offer_passthrough(&o) && !session_offer_resend(&o));
    o = offer(EXT | DIROPS, PASSTHROUGH, 40 + 16); /* before 7.36 */
    assert_true(o.unique == 42 && o.flags == (EXT | DIROPS) && !o.flags2);
    o = offer(EXT | DIROPS, PASSTHROUGH, 40 + 8); /* before 7.6 */
    assert_true(o.unique == 42 && !o.flags && !o.flags2);
    o = offer(EXT, PASSTHROUGH, 8); /* no request at all */
    assert_true(!o.unique && !o.flags);
}

/* Only what was offered is agreed to, nothing else is changed, and nothing is written behind the
 * end. */
static void test_answers(void **state)
{
    (void)state;
    static const uint32_t flags[] = {0, DIROPS, KILLPRIV2, EXT, EXT | DIROPS | KILLPRIV2, ~0u},
                          flags2[] = {0, PASSTHROUGH, RESEND, ~0u};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        for (size_t k = 0; k < ARRAY_LEN(flags2); k++)
            for (unsigned depth = 0; depth < 3; depth++) {
                struct session_offer o = offer(flags[i], flags2[k], sizeof(struct request));
                struct fuse_init_out out = {.major = 7,
                                         .minor = 38,
                                         .max_readahead = 1,
                                         .flags = FUSE_ASYNC_READ,
                                         .max_background = 2,
                                         .congestion_threshold = 3,
                                         .max_write = 4,
                                         .time_gran = 5,
                                         .max_pages = 6,
                                         .map_alignment = 7,
                                         .flags2 = 1},
                                     was = out;
                session_init_patch(&o, depth, &out, sizeof out);
                bool ext = flags[i] & EXT, pass = ext && depth && (flags2[k] & PASSTHROUGH);
                assert_int_equal(
                    out.flags, FUSE_ASYNC_READ | (flags[i] & (DIROPS | KILLPRIV2 | EXT)));
                assert_int_equal(
                    out.flags2, 1 | (pass ? PASSTHROUGH : 0) | (ext ? flags2[k] & RESEND : 0));
                assert_int_equal(word(&out, AT_STACK_DEPTH), pass ? depth : 0);
                out.flags = was.flags;
                out.flags2 = was.flags2;
                memset((char *)&out + AT_STACK_DEPTH, 0, 4);
                assert_memory_equal(&out, &was, sizeof out);
            }
}

static void test_short_answers(void **state)
{
    (void)state;
    static const size_t lens[] = {
        FUSE_COMPAT_INIT_OUT_SIZE, FUSE_COMPAT_22_INIT_OUT_SIZE, AT_STACK_DEPTH};
    struct session_offer o = offer(~0u, ~0u, sizeof(struct request));
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        char *out = xcalloc(1, lens[i]);
        session_init_patch(&o, 1, out, lens[i]);
        if (lens[i] > 12)
            /* no room for the rest: not said to be there */
            assert_int_equal(word(out, 12), DIROPS | KILLPRIV2);
        free(out);
    }
}

static void test_opens(void **state)
{
    (void)state;
    struct fuse_open_out out = {.fh = 7, .open_flags = FOPEN_KEEP_CACHE | FOPEN_NONSEEKABLE};
    session_open_patch(-2, &out, sizeof out);
    assert_true(out.fh == 7 && out.open_flags == (FOPEN_NONSEEKABLE | 1u << 7));
    assert_int_equal((int32_t)word(&out, 12), -2);
    char *cut = xcalloc(1, 8);
    session_open_patch(1, cut, 8);
    free(cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_offers),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_short_answers),
        cmocka_unit_test(test_opens)};
    return cmocka_run_group_tests_name("session_init", tests, NULL, NULL);
}
