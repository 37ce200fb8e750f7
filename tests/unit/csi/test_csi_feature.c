/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of itself in its INIT: parsed, and asked for where this process may. */
#include "csi/feature.h"
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/handoff/fuse_kernel.h"
#include "lib/http/metric.h"
#include "tests/lib/unit.h"

#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct request {
    struct fuse_in_header h;
    struct fuse_init_in in;
};

static struct features parse(uint32_t flags, uint32_t flags2, size_t len)
{
    struct request r = {.h = {.opcode = FUSE_INIT}, .in = {.flags = flags, .flags2 = flags2}};
    struct features f = {0};
    assert_true(features_parse(&f, &r, len));
    return f;
}

static void test_parse(void **state)
{
    (void)state;
    const size_t whole = sizeof(struct request), old = sizeof(struct fuse_in_header) + 16;
    const uint32_t both = FUSE_KERNEL_PASSTHROUGH | FUSE_KERNEL_HAS_RESEND;
    struct features f = parse(FUSE_INIT_EXT, both, whole);
    assert_true(f.passthrough && f.resend);
    f = parse(FUSE_INIT_EXT, FUSE_KERNEL_HAS_RESEND, whole);
    assert_true(!f.passthrough && f.resend);
    f = parse(0, both, whole); /* it does not say that there is a second word */
    assert_true(!f.passthrough && !f.resend);
    f = parse(FUSE_INIT_EXT, both, old); /* before 7.36 */
    assert_true(!f.passthrough && !f.resend);
    struct request other = {.h = {.opcode = FUSE_GETATTR}};
    assert_false(features_parse(&f, &other, whole));
    assert_false(features_parse(&f, &other, 3));
}

/* Root may ask a real kernel; the metrics say what it answered. */
static void test_ask(void **state)
{
    (void)state;
    struct features f;
    struct err e = ERR_INIT;
    struct utsname name;
    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK))
        skip();
    if (features_ask(&f, &e))
        fail_msg("%s", e.msg);
    uname(&name);
    assert_string_equal(f.kernel, name.release);
    unsigned major = 0, minor = 0;
    assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
    bool newer = major > 6 || (major == 6 && minor >= 9);
    assert_int_equal(f.resend, newer);
    features_tell();
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    metric_write(&out);
    cleanup_free char *line = xasprintf(
        "\nmillrace_csi_feature{name=\"resend\",kernel=\"%s\"} %d\n", name.release, newer);
    assert_non_null(strstr(buf_str(&out), line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse), cmocka_unit_test(test_ask)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
