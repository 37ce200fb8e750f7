/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/operator/dataset/dataset_fixture.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/http/serve.h"
#include "lib/json/jget.h"
#include "lib/sign/sign.h"
#include "operator/api/cond.h"
#include "tests/lib/eventually.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_api *dx_api;
struct manager dx_mgr; /* what controllers keep stays reachable */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
/* mu: what /status of the pods answers: worker, client, loader, a stranger's pod */
static const char *said[4];
static unsigned asked[4]; /* mu */
static const struct sign_key master = {"of which those of Datasets come"};
static enum dx_signs signs[4]; /* mu: with what the answer is signed */
static bool knows[4];          /* mu: who asked last has the key of the Dataset */
static struct http_server *servers[4];

static void on_status(void *user, const struct serve_req *req, struct serve_resp *resp)
{
    char request[SIGN_REQUEST_MAX + 1], signature[SIGN_HEX + 1];
    struct sign_key key;
    struct err e = ERR_INIT;
    const struct sign_ask ask = {req->method, req->path, req->query, NULL};
    const char *header = serve_header(req, SIGN_REQUEST_HEADER, request, sizeof request);
    sign_key_derive(&master, UID, &key);
    pthread_mutex_lock(&mu);
    asked[(intptr_t)user]++;
    buf_adds(&resp->body, said[(intptr_t)user]);
    knows[(intptr_t)user] = sign_check_request(&key, &ask, header, clock_real_ns() / NS_PER_S, &e)
        == 0;
    const struct sign_answer answer = {.request = header ? header : "",
        .status = 200,
        .body = buf_str(&resp->body),
        .body_len = resp->body.len};
    sign_answer(signs[(intptr_t)user] == DX_OTHER_KEY ? &master : &key, &answer, signature);
    if (signs[(intptr_t)user])
        buf_addf(&resp->headers, SIGN_ANSWER_HEADER ": %s\r\n", signature);
    pthread_mutex_unlock(&mu);
}

bool dx_sign(int who, enum dx_signs how)
{
    pthread_mutex_lock(&mu);
    signs[who] = how;
    bool known = knows[who];
    pthread_mutex_unlock(&mu);
    return known;
}

void dx_say(int who, const char *json)
{
    pthread_mutex_lock(&mu);
    said[who] = json;
    pthread_mutex_unlock(&mu);
}

unsigned dx_asked_so_far(int who)
{
    pthread_mutex_lock(&mu);
    unsigned n = asked[who];
    pthread_mutex_unlock(&mu);
    return n;
}

/* Below 127.0.0.0/8: a process, and a pod. */
const char *dx_ip(int who)
{
    static char ips[32][24];
    unsigned pid = (unsigned)getpid();
    snprintf(ips[who], sizeof ips[who], "127.%u.%u.%d", 64 + (pid >> 8) % 64, pid % 256, 1 + who);
    return ips[who];
}

static void serve_at(int who, const char *ip)
{
    struct err e = ERR_INIT;
    cleanup_free char *address = xasprintf("%s:%d", ip, PORT_HTTP);
    const struct serve_route routes[] = {{"GET", "/status", on_status, (void *)(intptr_t)who}};
    const struct serve_conf conf = {
        .address = address, .routes = routes, .nroutes = 1, .max_threads = 4};
    servers[who] = serve_start(&conf, &e);
    if (!servers[who])
        fail_msg("%s", e.msg);
}

/* ---- what other parts of a cluster do ---- */

void dx_set_status(const struct kube_res *res, const char *key, const char *json)
{
    json_t *o = fake_api_get(dx_api, res, key);
    assert_non_null(o);
    json_t *status = json_loads(json, 0, NULL);
    assert_non_null(status);
    json_object_set_new(o, "status", status);
    fake_api_put(dx_api, res, o);
}

void dx_pod_runs(const char *key, const char *ip, bool ready)
{
    cleanup_free char *status = xasprintf(
        "{\"phase\":\"Running\",\"podIP\":\"%s\",\"startTime\":\"2026-01-01T00:00:00Z\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"%s\"}],\"containerStatuses\":[{\"name\":\"millrace\",\"restartCount\":0,\"state\":{\"running\":{}}}]}",
        ip, ready ? "True" : "False");
    dx_set_status(&kube_pods, key, status);
}

bool dx_exists(const struct kube_res *res, const char *key)
{
    cleanup_json json_t *o = fake_api_get(dx_api, res, key);
    return o != NULL;
}

bool dx_has_key(void)
{
    struct sign_key key;
    char name[SIGN_NAME_LEN];
    sign_key_derive(&master, UID, &key);
    sign_key_name(&key, name);
    cleanup_free char *secret = xasprintf("team/" NAME_KEY_FMT, UID, name);
    return dx_exists(&kube_secrets, secret);
}

bool dx_field_is(const struct kube_res *res, const char *key, const char *path, const char *want)
{
    cleanup_json json_t *o = fake_api_get(dx_api, res, key);
    return strcmp(jget_str(o, path, ""), want) == 0;
}

bool dx_dataset_says(const char *type, const char *status, const char *reason)
{
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_datasets, "team/mnist");
    const json_t *c = cond_find(jget_arr(o, "status.conditions"), type);
    return strcmp(jget_str(c, "status", ""), status) == 0
        && strcmp(jget_str(c, "reason", ""), reason) == 0;
}

void dx_make_dataset(void)
{
    static const char text[] =
        "{\"metadata\":{\"name\":\"mnist\",\"namespace\":\"team\",\"uid\":\"" UID
        "\",\"generation\":1},\"spec\":{\"mounts\":["
        "{\"mountPoint\":\"s3://digits\"}],\"accessModes\":[\"ReadWriteMany\"],\"cache\":{\"replicas\":1}}}";
    fake_api_put(dx_api, &kube_datasets, json_loads(text, 0, NULL));
}

void dx_attach(const char *node)
{
    cleanup_free char *text = xasprintf(
        "{\"metadata\":{\"name\":\"csi-%s\"},\"spec\":{\"attacher\":\"" NAME_DRIVER
        "\",\"nodeName\":\"%s\",\"source\":{"
        "\"persistentVolumeName\":\"" PV "\"}},\"status\":{\"attached\":false}}",
        node, node);
    fake_api_put(dx_api, &kube_volumeattachments, json_loads(text, 0, NULL));
}

void dx_bind_claim(void) { dx_set_status(&kube_pvcs, "team/mnist", "{\"phase\":\"Bound\"}"); }

/* ---- life ---- */

int dx_start(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    dx_api = fake_api_start();
    dx_say(0, "{}");
    dx_say(1, "{}");
    dx_say(2, "{}");
    serve_at(0, WORKER_IP);
    serve_at(1, CLIENT_IP);
    serve_at(2, LOADER_IP);
    dx_say(3, "{}");
    serve_at(3, OTHER_IP);
    dx_mgr = (struct manager){.workers = 2,
        .image = "localhost/millrace:1",
        .pull_policy = "",
        .pull_secrets = "",
        .ns = "millrace"};
    dx_mgr.kube = dx_mgr.apply.kube = fake_api_client(dx_api);
    dx_mgr.events = dx_mgr.apply.events = events_new(dx_mgr.kube, "millrace-operator", "test-0");
    dx_mgr.apply.kube = dx_mgr.kube;
    if (dataset_controller_start(&dx_mgr, &e) || attach_controller_start(&dx_mgr, &e)
        || dataload_controller_start(&dx_mgr, &e))
        fail_msg("%s", e.msg);
    size_t next = 0;
    assert_int_equal(manager_start(&dx_mgr, &e), 0);
    eventually((next = 0, !manager_unsynced(&dx_mgr, &next, &e)));
    dx_mgr.master = &master; /* as the operator: read once it leads */
    assert_int_equal(manager_lead(&dx_mgr, &e), 0);
    return 0;
}

int dx_stop(void **state)
{
    (void)state;
    manager_stop_leading(&dx_mgr);
    events_free(dx_mgr.events);
    manager_close(&dx_mgr);
    kube_free(dx_mgr.kube);
    for (size_t i = 0; i < ARRAY_LEN(servers); i++)
        serve_stop(servers[i]);
    fake_api_stop(dx_api);
    return 0;
}

void dx_put_load(const char *name)
{
    cleanup_free char *uid = xasprintf("uid-of-%s", name);
    json_t *o = json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:{s:s}}}", "metadata", "name", name,
        "namespace", "team", "uid", uid, "generation", 1, "spec", "dataset", "name", "mnist");
    fake_api_put(dx_api, &kube_dataloads, o);
}

bool dx_load_says(const char *key, const char *reason, const char *words)
{
    cleanup_json json_t *o = fake_api_get(dx_api, &kube_dataloads, key);
    const json_t *conditions = jget_arr(o, "status.conditions");
    return strcmp(cond_reason(conditions, "Ready"), reason) == 0
        && strcmp(cond_reason(conditions, "Stalled"), reason) == 0
        && strstr(cond_message(conditions, "Ready"), words);
}
