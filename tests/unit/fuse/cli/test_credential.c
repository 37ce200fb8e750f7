/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a kubeconfig names for credentials: what it is given, and what goes wrong. */
#include "fuse/cli/cluster.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "tests/lib/unit.h"

#include <string.h>

static json_t *run_script(const char *script, struct err *e)
{
    cleanup_json json_t *spec = json_pack("{s:s, s:[s, s, s, s], s:[{s:s, s:s}]}", "command", "sh",
        "args", "-c", script, "sh", "a word; $HOME", "env", "name", "GIVEN", "value", "here");
    cleanup_json json_t *info = json_pack("{s:s}", "kind", "ExecCredential");
    *e = (struct err)ERR_INIT;
    return credential_exec(spec, info, e);
}

static void it_gets_words_and_environment(void **state)
{
    (void)state;
    struct err e;
    cleanup_json json_t *answer = run_script(
        "printf '{\"word\":\"%s\",\"given\":\"%s\",\"info\":%s}' \"$1\" \"$GIVEN\" \"$KUBERNETES_EXEC_INFO\"",
        &e);
    assert_non_null(answer);
    assert_string_equal(jget_str(answer, "word", ""), "a word; $HOME"); /* no shell in between */
    assert_string_equal(jget_str(answer, "given", ""), "here");
    assert_string_equal(jget_str(answer, "info.kind", ""), "ExecCredential");
}

static void what_goes_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *script, *says;
    } cases[] = {
        {"exit 7", "\"sh\" failed with status 7: log in again; or start `kubectl proxy`"},
        {"kill -9 $$", "\"sh\" failed with status 137"},
        {"echo no json", "what the kubeconfig's program \"sh\" printed"},
        {"cat", "what the kubeconfig's program \"sh\" printed"}, /* it cannot ask */
    };
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_null(run_script(cases[i].script, &e));
        if (!strstr(e.msg, cases[i].says))
            fail_msg("\"%s\" does not say \"%s\"", e.msg, cases[i].says);
    }
    cleanup_json json_t *spec = json_pack("{s:s, s:s}", "command", "/nowhere/at-all", "installHint",
        "install the tools of your cloud");
    assert_null(credential_exec(spec, spec, &e));
    assert_non_null(strstr(e.msg, "cannot be started"));
    assert_non_null(strstr(e.msg, "install the tools of your cloud"));
    assert_non_null(strstr(e.msg, "--server http://127.0.0.1:8001"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gets_words_and_environment),
        cmocka_unit_test(what_goes_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
