/* SPDX-License-Identifier: Apache-2.0 */
/* The table of URLs that the CRD's rules are compared with, too: the operator and the client's
 * store take and refuse what it says. */
#include "tests/lib/unit.h"

#include "fuse/store/store.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/obj.h"
#include "operator/api/dataset.h"
#include "tests/lib/mount.h"

#include <stdlib.h>
#include <string.h>

static unsigned failures;

static bool operator_takes(const char *url, struct err *e)
{
    const char *reason = "";
    cleanup_json json_t *cr = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s, s:b}]}}", "metadata",
        "name", "d", "namespace", "ns", "uid", "u", "spec", "mounts", "mountPoint", url, "readOnly",
        1);
    cleanup_dataset struct dataset *d = dataset_parse(cr, NULL, &reason, e);
    return d != NULL;
}

static bool client_takes(const char *url, struct err *e)
{
    struct mount *m = mount_new(url);
    m->conf.read_only = true;
    struct store *s = store_new(&(struct store_conf){.mount = &m->conf}, e);
    bool takes = s != NULL;
    store_free(s);
    mount_free(m);
    return takes;
}

static void expect(const char *who, bool takes, bool should, const char *line, const struct err *e)
{
    if (takes != should)
        print_error(
            "%s: the %s %s it: %s\n", line, who, takes ? "takes" : "refuses", takes ? "" : e->msg),
            failures++;
}

static void test_table(void **state)
{
    (void)state;
    cleanup_free char *path = path_join(getenv("MILLRACE_SOURCE"), "tests/lib/mount_points.txt");
    cleanup_free char *text = file_read(path, 1 << 20, NULL, NULL);
    assert_non_null(text);
    size_t rows = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (!*line || *line == '#')
            continue;
        cleanup_free char *json = xasprintf("\"%s\"", strrchr(line, '|') + 1);
        cleanup_json json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
        const char *url = json_string_value(value);
        assert_non_null(url);
        bool ok = strncmp(line, "ok|", 3) == 0, apply = strncmp(line, "apply|", 6) == 0,
             cluster = strncmp(line, "cluster|", 8) == 0, late = strncmp(line, "late|", 5) == 0;
        assert_true(ok || apply || cluster || late || strncmp(line, "no|", 3) == 0);
        struct err e = ERR_INIT, of_client = ERR_INIT;
        bool takes = operator_takes(url, &e);
        expect("operator", takes, ok || apply || late, line, &e);
        if (strncmp(url, "pvc:", 4) != 0) { /* a client sees directories */
            takes = client_takes(url, &of_client);
            expect("client", takes, ok || apply || cluster, line, &of_client);
        }
        rows++;
    }
    assert_true(rows > 100);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests_name("mount_points", tests, NULL, NULL);
}
