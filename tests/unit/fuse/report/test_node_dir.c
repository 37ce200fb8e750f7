/* SPDX-License-Identifier: Apache-2.0 */
/* What the mounts of a client's pod tell of the node. */
#include "fuse/report/node_dir.h"

#include "lib/base/mem.h"
#include "tests/lib/unit.h"

static void what_lies_where(void **state)
{
    (void)state;
    static const char mounts[] =
        "21 1 0:40 / / rw - overlay overlay rw\n"
        "30 21 259:1 /var/lib/kubelet/plugins/csi.millrace.dev/volumes/team/u1 /run/millrace rw - ext4 /dev/root rw\n"
        "31 21 259:2 /csi.millrace.dev/volumes/team/u2 /disk rw - xfs /dev/nvme1n1 rw\n"
        "32 21 259:1 /var/lib/kubelet/pods/p/volumes/kubernetes.io~secret/s /run/secrets rw - tmpfs tmpfs rw\n"
        "33 30 0:50 / /run/millrace/cache/other rw - tmpfs tmpfs rw\n";
    static const struct {
        const char *dir, *there;
    } cases[] = {
        {"/run/millrace/cache/stage/kept", "csi.millrace.dev/volumes/team/u1/cache/stage/kept"},
        {"/run/millrace", "csi.millrace.dev/volumes/team/u1"},
        {"/disk/cache/stage/kept", "csi.millrace.dev/volumes/team/u2/cache/stage/kept"},
        {"/run/secrets/x", NULL},
        {"/home/me/.cache/millrace", NULL},
        {"/run/millrace/cache/other/x", NULL}, /* something of its own is mounted there */
        {"/run/millraces", NULL},
    };
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo m = {0};
    assert_int_equal(mountinfo_parse(mounts, &m, &e), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *there = node_dir_of(&m, cases[i].dir);
        if (!cases[i].there)
            assert_null(there);
        else
            assert_string_equal(there, cases[i].there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_lies_where)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
