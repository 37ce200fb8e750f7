/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and watches against an API server that misbehaves. */
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/conf.h"
#include "tests/fake/api.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static struct fake_api *api;
static struct kube *k;

static int setup(void **state)
{
    (void)state;
    api = fake_api_start();
    k = fake_api_client_opts(api, &(struct kube_opts){.timeout_ns = 60 * NS_PER_S});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_free(k);
    fake_api_stop(api);
    return 0;
}

static json_t *pod(const char *name)
{
    return json_pack(
        "{s:{s:s,s:s,s:{s:s}}}", "metadata", "name", name, "namespace", "n", "labels", "app", "x");
}

static void objects_are_created_changed_and_deleted(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *a = pod("a"), *made = NULL, *again = NULL, *patched = NULL,
                        *applied = NULL, *got = NULL;
    assert_int_equal(kube_create(k, &kube_pods, "n", a, &made, &e), 0);
    assert_true(*kube_uid(made));
    assert_int_equal(kube_create(k, &kube_pods, "n", a, &again, &e), -1);
    assert_int_equal(e.cls, ERR_EXISTS);
    assert_non_null(strstr(e.msg, "create pods n/a: "));

    cleanup_json json_t *patch = json_pack("{s:{s:s}}", "status", "phase", "Running");
    assert_int_equal(
        kube_patch(k, &kube_pods, "n", "a", "status", KUBE_PATCH_MERGE, patch, &patched, &e), 0);
    assert_string_equal(jget_str(patched, "status.phase", ""), "Running");
    assert_int_equal(fake_api_count(api, "PATCH",
                         "/api/v1/namespaces/n/pods/a/status?fieldManager=millrace-operator"),
        1);

    cleanup_json json_t *desired = json_pack(
        "{s:{s:s,s:s},s:{s:s}}", "metadata", "name", "b", "namespace", "n", "spec", "x", "y");
    assert_int_equal(kube_apply(k, &kube_services, "n", "b", "", desired, &applied, &e), 0);
    assert_int_equal(
        fake_api_count(api, "PATCH", "services/b?fieldManager=millrace-operator&force=true"), 1);
    cleanup_free char *sent = fake_api_last(api, "PATCH", "services"),
                      *headers = fake_api_last_headers(api);
    assert_non_null(strstr(sent, "\"kind\":\"Service\""));
    assert_non_null(strstr(headers, "content-type: application/apply-patch+yaml\n"));
    assert_null(json_object_get(desired, "kind")); /* ours is untouched */

    assert_int_equal(
        kube_delete(k, &kube_pods, "n", "a", &(struct kube_delete){"other", NULL, -1}, NULL, &e),
        -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
    json_t *left = NULL;
    assert_int_equal(kube_delete(k, &kube_pods, "n", "a",
                         &(struct kube_delete){kube_uid(made), "Background", 0}, &left, &e),
        0);
    assert_null(left);
    cleanup_free char *options = fake_api_last(api, "DELETE", NULL);
    assert_non_null(strstr(options, "\"gracePeriodSeconds\":0"));
    assert_non_null(strstr(options, "\"propagationPolicy\":\"Background\""));
    assert_int_equal(kube_get(k, &kube_pods, "n", "a", &got, &e), -1);
    assert_int_equal(e.cls, ERR_NOTFOUND);
}

static void updates_are_locked_by_version(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *a = pod("a"), *made = NULL, *next = NULL;
    assert_int_equal(kube_create(k, &kube_pods, "n", a, &made, &e), 0);
    assert_int_equal(kube_update(k, &kube_pods, "n", "a", made, &next, &e), 0);
    assert_true(kube_rv(next) > kube_rv(made));
    assert_int_equal(kube_update(k, &kube_pods, "n", "a", made, NULL, &e), -1);
    assert_int_equal(e.cls, ERR_CONFLICT);
}

static void busy_servers_are_waited_for(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *a = pod("a");
    fake_api_fault(api,
        &(struct fake_fault){.kind = FAULT_STATUS, .status = 429, .headers = "Retry-After: 1\r\n"});
    fake_api_fault(api,
        &(struct fake_fault){.kind = FAULT_STATUS, .status = 503, .headers = "Retry-After: 0\r\n"});
    int64_t begun = clock_mono_ns();
    assert_int_equal(kube_create(k, &kube_pods, "n", a, NULL, &e), 0);
    assert_true(clock_mono_ns() - begun >= NS_PER_S);
    assert_int_equal(fake_api_count(api, "POST", NULL), 3);
    /* but not for ever, and not unasked */
    fake_api_fault(api,
        &(struct fake_fault){.kind = FAULT_STATUS,
            .times = KUBE_RETRY_MAX + 1,
            .status = 429,
            .headers = "Retry-After: 0\r\n"});
    assert_int_equal(kube_get(k, &kube_pods, "n", "a", NULL, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    fake_api_forget(api);
    fake_api_fault(api, &(struct fake_fault){.kind = FAULT_STATUS, .status = 503});
    assert_int_equal(kube_get(k, &kube_pods, "n", "a", NULL, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    fake_api_fault(api,
        &(struct fake_fault){
            .kind = FAULT_STATUS, .status = 429, .headers = "Retry-After: 3600\r\n"});
    assert_int_equal(kube_get(k, &kube_pods, "n", "a", NULL, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
    assert_int_equal(fake_api_count(api, NULL, NULL), 2);
}

static void bad_answers_are_errors(void **state)
{
    (void)state;
    static const struct {
        struct fake_fault fault;
        enum err_class cls;
        const char *says;
    } cases[] = {
        {{.kind = FAULT_STATUS, .status = 200, .type = "text/html", .body = "<html>login</html>"},
            ERR_FATAL, "text/html"},
        {{.kind = FAULT_STATUS, .status = 200, .body = "{\"a\":"}, ERR_INVALID, "cannot be read"},
        {{.kind = FAULT_STATUS, .status = 200, .body = "[1]"}, ERR_FATAL, "not a json object"},
        {{.kind = FAULT_STATUS, .status = 500}, ERR_RETRY, "asked for by the test"},
        {{.kind = FAULT_STATUS, .status = 403}, ERR_DENIED, "asked for by the test"},
        {{.kind = FAULT_STATUS, .status = 502, .type = "text/html", .body = "<h1>Bad Gateway</h1>"},
            ERR_RETRY, "Bad Gateway"},
        {{.kind = FAULT_RESET, .times = 4}, ERR_RETRY, ""},
        {{.kind = FAULT_CUT, .bytes = 20}, ERR_RETRY, ""},
        {{.kind = FAULT_SLOW, .delay_ns = 60 * NS_PER_S}, ERR_RETRY, ""},
        {{.kind = FAULT_ENDLESS, .bytes = (size_t)32 << 20}, ERR_EXHAUSTED, "larger"},
    };
    fake_api_put(api, &kube_pods, pod("a"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        /* a fault that is left over must not meet the next case */
        struct fake_api *own = fake_api_start();
        bool slow = cases[i].fault.kind == FAULT_SLOW;
        struct kube *client = fake_api_client_opts(
            own, &(struct kube_opts){.timeout_ns = (slow ? 1 : 60) * NS_PER_S});
        fake_api_put(own, &kube_pods, pod("a"));
        fake_api_fault(own, &cases[i].fault);
        assert_int_equal(kube_get(client, &kube_pods, "n", "a", NULL, &e), -1);
        if (e.cls != cases[i].cls || !strstr(e.msg, cases[i].says)
            || strncmp(e.msg, "get pods n/a: ", 14) != 0)
            fail_msg("case %zu: %s: %s", i, err_class_name(e.cls), e.msg);
        kube_free(client);
        fake_api_stop(own);
    }
}

/* It was done; the next try is answered that it is there. */
static void a_spoilt_answer_to_a_write_says_nothing_of_it(void **state)
{
    (void)state;
    static const struct fake_fault faults[] = {
        {.kind = FAULT_STATUS, .status = 201, .body = "{\"metadata\":{\"na"},
        {.kind = FAULT_STATUS, .status = 200, .type = "text/html", .body = "<html>"}};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct err e = ERR_INIT;
        cleanup_json json_t *a = pod("a");
        fake_api_fault(api, &faults[i]);
        assert_int_equal(kube_create(k, &kube_pods, "n", a, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_RETRY);
    }
}

static void *get_once(void *user)
{
    struct err e = ERR_INIT;
    kube_get(user, &kube_pods, "n", "a", NULL, &e);
    return NULL;
}

static void requests_in_flight_are_bounded(void **state)
{
    (void)state;
    struct kube *narrow = fake_api_client_opts(api, &(struct kube_opts){.max_in_flight = 2});
    pthread_t threads[8];
    fake_api_fault(
        api, &(struct fake_fault){.kind = FAULT_SLOW, .times = 8, .delay_ns = 100 * NS_PER_MS});
    int64_t begun = clock_mono_ns();
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_create(&threads[i], NULL, get_once, narrow);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    /* 8 requests, two at a time, 100 ms each */
    assert_true(clock_mono_ns() - begun >= 400 * NS_PER_MS);
    assert_in_range(fake_api_connections(api), 1, 2);
    kube_free(narrow);
}

/* Its token is in a file of that directory. */
static struct kube *client_with_token(const char *dir)
{
    struct err e = ERR_INIT;
    cleanup_free char *text = xasprintf(
        "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}],"
        "\"users\":[{\"name\":\"u\",\"user\":{\"tokenFile\":\"token\"}}],"
        "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"%s\"}}]}",
        fake_api_url(api));
    struct kube_conf *conf = kube_conf_parse(text, strlen(text), dir, NULL, &e);
    struct kube *client = kube_new(conf, NULL, &e);
    assert_non_null(client);
    return client;
}

static void a_rotated_token_is_read_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char dir[] = "/tmp/test_kube_token.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *token = path_join(dir, "token");
    assert_int_equal(file_write_atomic(token, "token-one", 9, 0600, &e), 0);
    struct kube *client = client_with_token(dir);
    fake_api_put(api, &kube_pods, pod("a"));
    assert_int_equal(kube_get(client, &kube_pods, "n", "a", NULL, &e), 0);
    cleanup_free char *first = fake_api_last_headers(api);
    assert_non_null(strstr(first, "authorization: Bearer token-one\n"));
    assert_int_equal(file_write_atomic(token, "token-two\n", 10, 0600, &e), 0);
    fake_api_fault(api, &(struct fake_fault){.kind = FAULT_STATUS, .status = 401});
    assert_int_equal(kube_get(client, &kube_pods, "n", "a", NULL, &e), 0);
    cleanup_free char *second = fake_api_last_headers(api);
    assert_non_null(strstr(second, "authorization: Bearer token-two\n"));
    fake_api_fault(api, &(struct fake_fault){.kind = FAULT_STATUS, .times = 2, .status = 401});
    assert_int_equal(kube_get(client, &kube_pods, "n", "a", NULL, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    kube_free(client);
    file_remove_tree(dir, NULL);
}

/* ---- watch ---- */

struct seen {
    int counts[4];
    int stop_after; /* events; 0: never */
    char *last;
};

static int on_event(void *user, enum kube_event_type type, json_t *object_take)
{
    struct seen *s = user;
    s->counts[type]++;
    free(s->last);
    s->last = xstrdup(kube_name(object_take));
    json_decref(object_take);
    return s->stop_after && --s->stop_after == 0;
}

static int watch(struct seen *s, const char *version, int64_t timeout_ns, struct err *e)
{
    *e = (struct err)ERR_INIT;
    struct kube_watch w = {
        .version = version, .timeout_ns = timeout_ns, .event = on_event, .user = s};
    return kube_watch(k, &kube_pods, NULL, &w, e);
}

static void changes_are_told(void **state)
{
    (void)state;
    struct err e;
    struct seen s = {.stop_after = 4};
    fake_api_put(api, &kube_pods, pod("a"));
    fake_api_put(api, &kube_pods, pod("b"));
    fake_api_put(api, &kube_pods, pod("a"));
    fake_api_remove(api, &kube_pods, "n/b");
    assert_int_equal(watch(&s, "1000", 60 * NS_PER_S, &e), -1);
    assert_int_equal(e.sys, ECANCELED);
    assert_int_equal(s.counts[KUBE_ADDED], 2);
    assert_int_equal(s.counts[KUBE_MODIFIED], 1);
    assert_int_equal(s.counts[KUBE_DELETED], 1);
    assert_string_equal(s.last, "b");
    s.stop_after = 0;
    assert_int_equal(watch(&s, "1003", 3 * NS_PER_S, &e), 0); /* the server ends it in peace */
    assert_int_equal(s.counts[KUBE_DELETED], 2);
    assert_int_equal(
        fake_api_count(api, "GET",
            "watch=true&allowWatchBookmarks=true&resourceVersion=1003&timeoutSeconds=3"),
        1);
    free(s.last);
}

/* A watch that is refused takes the token anew: it may be the only request for hours. */
static void a_watch_reads_a_rotated_token(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char dir[] = "/tmp/test_kube_token.XXXXXX";
    assert_non_null(mkdtemp(dir));
    cleanup_free char *token = path_join(dir, "token");
    assert_int_equal(file_write_atomic(token, "token-one", 9, 0600, &e), 0);
    struct kube *client = client_with_token(dir);
    struct seen s = {.stop_after = 1};
    struct kube_watch w = {
        .version = "1000", .timeout_ns = 60 * NS_PER_S, .event = on_event, .user = &s};
    fake_api_put(api, &kube_pods, pod("a"));
    assert_int_equal(kube_watch(client, &kube_pods, NULL, &w, &e), -1);
    assert_int_equal(e.sys, ECANCELED); /* it has seen the pod, with the first token */
    assert_int_equal(file_write_atomic(token, "token-two", 9, 0600, &e), 0);
    fake_api_fault(api, &(struct fake_fault){.kind = FAULT_STATUS, .status = 401});
    s.stop_after = 1;
    assert_int_equal(kube_watch(client, &kube_pods, NULL, &w, &e), -1);
    assert_int_equal(e.cls, ERR_DENIED);
    assert_int_equal(kube_watch(client, &kube_pods, NULL, &w, &e), -1);
    assert_int_equal(e.sys, ECANCELED);
    cleanup_free char *sent = fake_api_last_headers(api);
    assert_non_null(strstr(sent, "authorization: Bearer token-two\n"));
    free(s.last);
    kube_free(client);
    file_remove_tree(dir, NULL);
}

#define LINE \
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}}"

static void broken_watches_are_errors(void **state)
{
    (void)state;
    static const struct {
        struct fake_fault fault;
        int added, rc;
        enum err_class cls;
        int sys;
    } cases[] = {
        {{.kind = FAULT_STREAM, .body = LINE "\n" LINE "\n"}, 2, 0, ERR_NONE, 0},
        {{.kind = FAULT_STREAM, .body = LINE "\n{\"type\":\"ADD"}, 1, -1, ERR_RETRY,
            0}, /* cut in the middle of a line */
        {{.kind = FAULT_STREAM, .body = LINE "\nnonsense\n" LINE "\n"}, 1, -1, ERR_INVALID,
            EBADMSG},
        {{.kind = FAULT_STREAM,
             .body =
                 "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"old\"}}\n"},
            0, -1, ERR_CONFLICT, ESTALE},
        {{.kind = FAULT_STREAM,
             .body =
                 "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"m\"}}\n"},
            0, -1, ERR_RETRY, 0},
        {{.kind = FAULT_STATUS, .status = 410}, 0, -1, ERR_CONFLICT, ESTALE},
        {{.kind = FAULT_STATUS, .status = 429}, 0, -1, ERR_RETRY, 0},
        {{.kind = FAULT_STATUS, .status = 403}, 0, -1, ERR_DENIED, 0},
        {{.kind = FAULT_STATUS, .status = 404}, 0, -1, ERR_NOTFOUND, 0},
        {{.kind = FAULT_ENDLESS, .bytes = KUBE_OBJECT_MAX * 2}, 0, -1, ERR_RETRY, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e;
        struct seen s = {0};
        fake_api_fault(api, &cases[i].fault);
        int rc = watch(&s, "1000", NS_PER_S, &e);
        if (rc != cases[i].rc || e.cls != cases[i].cls || e.sys != cases[i].sys
            || s.counts[KUBE_ADDED] != cases[i].added)
            fail_msg("case %zu: rc %d, %d added, %s (%d): %s", i, rc, s.counts[KUBE_ADDED],
                err_class_name(e.cls), e.sys, e.msg);
        free(s.last);
    }
    struct err e;
    struct seen s = {0};
    fake_api_fault(api, &(struct fake_fault){.kind = FAULT_RESET, .times = 4});
    assert_int_equal(watch(&s, "1000", NS_PER_S, &e), -1);
    assert_int_equal(e.cls, ERR_RETRY);
}

static void *bookmark_soon(void *user)
{
    while (!fake_api_watchers(user, &kube_pods))
        clock_sleep_ns(5 * NS_PER_MS);
    fake_api_bookmark(user);
    return NULL;
}

static void bookmarks_move_the_version(void **state)
{
    (void)state;
    struct err e;
    struct seen s = {.stop_after = 1};
    pthread_t thread;
    pthread_create(&thread, NULL, bookmark_soon, api);
    assert_int_equal(watch(&s, "1000", 60 * NS_PER_S, &e), -1);
    pthread_join(thread, NULL);
    assert_int_equal(s.counts[KUBE_BOOKMARK], 1);
    free(s.last);
}

/* A watch that hears nothing is normal; a server that is gone acknowledges nothing, either. */
static void a_dead_server_is_noticed_by_the_kernel(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    fake_api_put(api, &kube_pods, pod("a"));
    assert_int_equal(kube_get(k, &kube_pods, "n", "a", NULL, &e), 0);
    int port = atoi(strrchr(fake_api_url(api), ':') + 1), found = 0;
    for (int fd = 3; fd < 256; fd++) { /* its connection stays open */
        struct sockaddr_in at;
        socklen_t len = sizeof at, size = sizeof(int);
        int dead = 0, on = 0, idle = 0;
        if (getpeername(fd, (struct sockaddr *)&at, &len) || at.sin_family != AF_INET
            || ntohs(at.sin_port) != port)
            continue;
        found++;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, &size), 0);
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size), 0);
        assert_true(on);
        assert_int_equal(idle + dead / 1000, 45);
    }
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dead_server_is_noticed_by_the_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(objects_are_created_changed_and_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(updates_are_locked_by_version, setup, teardown),
        cmocka_unit_test_setup_teardown(busy_servers_are_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_answers_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_spoilt_answer_to_a_write_says_nothing_of_it, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_in_flight_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rotated_token_is_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_watch_reads_a_rotated_token, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_watches_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(bookmarks_move_the_version, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
