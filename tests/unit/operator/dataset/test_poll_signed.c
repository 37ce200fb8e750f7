/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for /status are signed with the key of the Dataset, and so are answers. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/dataset/poll.h"
#include "operator/dataset/report_news.h"
#include "operator/render/meta.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"
#include "tests/unit/operator/dataset/dataset_fixture.h"

#include <string.h>

static char *unreachable_of(const char *pod_uid)
{
    struct obj *report = poll_report(dx_mgr.poll, pod_uid);
    char *text = xstrdup(report ? jget_str(obj_json(report), REPORT_UNREACHABLE, "") : "");
    obj_unref(report);
    return text;
}

static bool is_unreachable(const char *pod_uid, const char *words)
{
    cleanup_free char *text = unreachable_of(pod_uid);
    return *words ? strstr(text, words) != NULL : !*text;
}

/* Whoever has the address of a pod that has signed what it answered is not believed in its place.
 */
static void test_signed(void **state)
{
    (void)state;
    cleanup_free char *name = render_client_name("mnist", "n6"), *client = kube_key("team", name);
    dx_make_dataset();
    dx_attach("n6");
    eventually(dx_exists(&kube_pods, client));
    cleanup_json json_t *pod = fake_api_get(dx_api, &kube_pods, client);
    const char *uid = kube_uid(pod);
    unsigned before = dx_asked_so_far(1);
    dx_say(1, "{}"); /* not ready: asked again soon */
    dx_pod_runs(client, CLIENT_IP, true);
    eventually(dx_asked_so_far(1) > before);
    eventually(is_unreachable(uid, "")); /* of an earlier release */
    dx_sign(1, DX_KEY);
    before = dx_asked_so_far(1);
    eventually(dx_asked_so_far(1) > before + 1);
    assert_true(dx_sign(1, DX_UNSIGNED));
    eventually(is_unreachable(uid, "the answer is not signed"));
    dx_sign(1, DX_OTHER_KEY);
    eventually(is_unreachable(uid, "signed with another key"));
    dx_sign(1, DX_KEY);
    eventually(is_unreachable(uid, ""));
    /* ready, and nothing counted yet: four more times before one that is left alone is asked once
     */
    dx_say(1, "{\"ready\":true,\"ufs\":{\"bytes\":0,\"files\":0,\"complete\":false}}");
    before = dx_asked_so_far(1);
    int64_t began = clock_mono_ns();
    eventually(dx_asked_so_far(1) > before + 4);
    int64_t four = clock_mono_ns() - began;
    dx_say(1, "{\"ready\":true,\"ufs\":{\"bytes\":0,\"files\":0,\"complete\":true}}");
    before = dx_asked_so_far(1);
    eventually(dx_asked_so_far(1) > before);
    before = dx_asked_so_far(1);
    began = clock_mono_ns();
    eventually(dx_asked_so_far(1) > before);
    assert_true(clock_mono_ns() - began > four);
    dx_sign(1, DX_UNSIGNED);
    fake_api_remove(dx_api, &kube_volumeattachments, "csi-n6");
    eventually(!dx_exists(&kube_pods, client));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signed)};
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests_name("poll_signed", tests, dx_start, dx_stop);
}
