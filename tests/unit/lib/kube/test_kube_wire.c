/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"
#include "lib/kube/wire.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void statuses_become_errors(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *body;
        enum err_class cls;
        int sys;
        const char *msg;
    } cases[] = {
        {404,
            "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"message\":\"pods \\\"a\\\" not found\",\"code\":404}",
            ERR_NOTFOUND, 0, "pods \"a\" not found: NotFound (404)"},
        {409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"m\",\"code\":409}",
            ERR_EXISTS, 0, "m: AlreadyExists (409)"},
        {409, "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"m\",\"code\":409}",
            ERR_CONFLICT, 0, "m: Conflict (409)"},
        {410, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":\"m\",\"code\":410}",
            ERR_CONFLICT, ESTALE, "m: Expired (410)"},
        {422, "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"m\",\"code\":422}",
            ERR_INVALID, 0, "m: Invalid (422)"},
        {403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"m\",\"code\":403}",
            ERR_DENIED, 0, "m: Forbidden (403)"},
        {500, "{\"kind\":\"Status\",\"message\":\"m\"}", ERR_RETRY, 0, "m (500)"},
        {502, "<html>Bad\n\x01 Gateway\xff</html>", ERR_RETRY, 0,
            "HTTP status 502: <html>Bad   Gateway </html>"},
        {410, "", ERR_CONFLICT, ESTALE, "HTTP status 410"},
        {400, "{\"kind\":\"Pod\"}", ERR_INVALID, 0, "HTTP status 400: {\"kind\":\"Pod\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        assert_int_equal(wire_fail(cases[i].status, cases[i].body, strlen(cases[i].body), &e), -1);
        assert_int_equal(e.cls, cases[i].cls);
        assert_int_equal(e.sys, cases[i].sys);
        assert_string_equal(e.msg, cases[i].msg);
    }
}

static int collect(void *user, const char *text, size_t len, bool cut)
{
    (void)cut;
    struct buf *out = user;
    buf_add(out, text, len);
    buf_addc(out, '|');
    return memchr(text, '!', len) != NULL;
}

static void lines_are_cut_wherever_the_bytes_break(void **state)
{
    (void)state;
    static const char stream[] = "one\n\ntwo two\nthree\nrest";
    for (size_t step = 1; step <= sizeof stream; step++) {
        struct wire_lines l = WIRE_LINES_INIT;
        struct buf out = BUF_INIT(1000);
        for (size_t at = 0; at < sizeof stream - 1; at += step)
            assert_int_equal(
                wire_lines_feed(&l, stream + at, MIN(step, sizeof stream - 1 - at), collect, &out),
                0);
        assert_string_equal(buf_str(&out), "one|two two|three|");
        assert_string_equal(buf_str(&l.rest), "rest");
        wire_lines_free(&l);
        buf_free(&out);
    }
}

static void a_line_may_stop_the_feed(void **state)
{
    (void)state;
    struct wire_lines l = WIRE_LINES_INIT;
    struct buf out = BUF_INIT(1000);
    assert_int_equal(wire_lines_feed(&l, "a\nb!\nc\n", 7, collect, &out), 1);
    assert_string_equal(buf_str(&out), "a|b!|");
    wire_lines_free(&l);
    buf_free(&out);
}

struct long_line {
    size_t lines, len;
    bool cut;
    char first, next;
};

static int measure(void *user, const char *text, size_t len, bool cut)
{
    struct long_line *l = user;
    if (l->lines++ == 0) {
        l->len = len;
        l->cut = cut;
        l->first = *text;
    } else {
        assert_false(cut);
        l->next = *text;
    }
    return 0;
}

static void of_a_long_line_only_the_beginning_is_kept(void **state)
{
    (void)state;
    struct wire_lines l = WIRE_LINES_INIT;
    struct long_line seen = {0};
    char block[65536];
    memset(block, 'x', sizeof block);
    for (size_t fed = 0; fed < KUBE_OBJECT_MAX * 2; fed += sizeof block)
        assert_int_equal(wire_lines_feed(&l, block, sizeof block, measure, &seen), 0);
    assert_int_equal(wire_lines_feed(&l, "\ny\n", 3, measure, &seen), 0);
    assert_int_equal(seen.lines, 2);
    assert_int_equal(seen.len, KUBE_OBJECT_MAX);
    assert_true(seen.cut);
    assert_int_equal(seen.first, 'x');
    assert_int_equal(seen.next, 'y');
    assert_true(l.rest.cap < KUBE_OBJECT_MAX); /* its memory is given back */
    wire_lines_free(&l);
}

static int event(const char *text, enum kube_event_type *type, json_t **object, struct err *e)
{
    *object = NULL;
    *e = (struct err)ERR_INIT;
    return wire_event(text, strlen(text), false, type, object, e);
}

static void events_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum kube_event_type type;
    } good[] = {
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}", KUBE_ADDED},
        {"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}",
            KUBE_MODIFIED},
        {"{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}",
            KUBE_DELETED},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}",
            KUBE_BOOKMARK},
    };
    enum kube_event_type type;
    json_t *object;
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(event(good[i].text, &type, &object, &e), 0);
        assert_int_equal(type, good[i].type);
        assert_int_equal(kube_rv(object), 5);
        json_decref(object);
    }
    static const struct {
        const char *text;
        enum err_class cls;
        int sys;
    } bad[] = {
        {"{\"type\":\"ADDED\",\"obj", ERR_INVALID, EBADMSG},
        {"[]", ERR_FATAL, EBADMSG},
        {"{\"type\":\"ADDED\"}", ERR_FATAL, EBADMSG},
        {"{\"type\":\"ADDED\",\"object\":{}}", ERR_FATAL, EBADMSG},
        {"{\"type\":\"CHANGED\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\"}}}", ERR_FATAL,
            EBADMSG},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"old\"}}",
            ERR_CONFLICT, ESTALE},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"etcd\"}}",
            ERR_RETRY, 0},
        {"{\"type\":\"ERROR\",\"object\":{}}", ERR_RETRY, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(event(bad[i].text, &type, &object, &e), -1);
        assert_null(object);
        assert_int_equal(e.cls, bad[i].cls);
        assert_int_equal(e.sys, bad[i].sys);
    }
}

#define META(rv)                                                                                         \
    "\"metadata\":{\"labels\":{\"name\":\"wrong\"},\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\"," rv \
    "}"
#define RV5 "\"resourceVersion\":\"5\""

/* Of a line that cannot be read it is enough to know whose it is. */
static void a_line_that_cannot_be_read_names_its_object(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool cut;
        int type; /* -1: an error */
    } cases[] = {
        {"{\"type\":\"ADDED\",\"object\":{" META(RV5) ",\"spec\":[1}", false, KUBE_SKIPPED},
        {"{\"type\":\"MODIFIED\",\"object\":{\"spec\":{\"metadata\":{\"name\":\"wrong\"}}," META(
             RV5),
            false, KUBE_SKIPPED},
        {"{\"object\":{" META(RV5) ",\"x\":tru},\"type\":\"MODIFIED\"}", false, KUBE_SKIPPED},
        {"{\"type\":\"DELETED\",\"object\":{" META(RV5) ",\"spec\":[1}", false, KUBE_DELETED},
        {"{\"type\":\"ADDED\",\"object\":{" META(RV5) "}}", true, KUBE_SKIPPED},
        {"{\"type\":\"ADDED\",\"object\":{" META("\"x\":1") ",\"spec\":[1}", false, -1},
        {"{\"type\":\"BOOKMARK\",\"object\":{" META(RV5) ",\"spec\":[1}", false, -1},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{" RV5 "},\"spec\":[1}", false, -1},
        {"{\"object\":{" META(RV5) ",\"spec\":[1}", false, -1},
        {"{\"type\":\"ADDED\",\"object\":{\"spec\":\"\\\"},{" META(RV5) "\"", false, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum kube_event_type type = KUBE_BOOKMARK;
        cleanup_json json_t *object = NULL;
        struct err e = ERR_INIT;
        int rc = wire_event(cases[i].text, strlen(cases[i].text), cases[i].cut, &type, &object, &e);
        if ((cases[i].type < 0) != (rc < 0) || (rc == 0 && (int)type != cases[i].type))
            fail_msg("case %zu: %d, type %d", i, rc, type);
        if (rc) {
            assert_int_equal(e.sys, EBADMSG);
            continue;
        }
        assert_int_equal(kube_rv(object), 5);
        assert_string_equal(kube_name(object), "a");
        assert_string_equal(kube_namespace(object), "n");
        assert_string_equal(kube_uid(object), "u");
        assert_true(*jget_str(object, "message", ""));
    }
}

/* One object must not keep all others of its kind from being listed. */
static void what_an_object_may_hold_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *as;
    } cases[] = {
        {"{\"a\":\"x\\u0000y\"}", "{\"a\":\"x\xef\xbf\xbdy\"}"},
        {"{\"a\\u0000\":1,\"a\xef\xbf\xbd\":2}", "{\"a\xef\xbf\xbd\":2}"},
        {"{\"a\":\"\\\\u0000\\u0000\"}", "{\"a\":\"\\\\u0000\xef\xbf\xbd\"}"},
        {"[18446744073709552000,-18446744073709552000]",
            "[1.8446744073709552e19,-1.8446744073709552e19]"},
        {"[9223372036854775807,\"\\u0000\",18446744073709552000]",
            "[9223372036854775807,\"\xef\xbf\xbd\",1.8446744073709552e19]"},
        {"[\"18446744073709552000\",0.12345678901234567890,\"\\u0000\"]",
            "[\"18446744073709552000\",0.12345678901234568,\"\xef\xbf\xbd\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        cleanup_json json_t *j = wire_json(cases[i].text, strlen(cases[i].text), &e);
        assert_non_null(j);
        cleanup_free char *text = json_text(j);
        assert_string_equal(text, cases[i].as);
    }
}

static void deep_values_are_cut_off(void **state)
{
    (void)state;
    enum { LEVELS = 5000 };
    struct buf b = BUF_INIT(1 << 20);
    buf_adds(&b, "{\"deep\":");
    for (int i = 0; i < LEVELS; i++)
        buf_adds(&b, "[\"]\",");
    buf_adds(&b, "1");
    for (int i = 0; i < LEVELS; i++)
        buf_addc(&b, ']');
    buf_adds(&b, ",\"other\":[[[7]]]}");
    struct err e = ERR_INIT;
    cleanup_json json_t *j = wire_json(buf_str(&b), b.len, &e);
    assert_non_null(j);
    assert_int_equal(json_array_size(json_object_get(j, "deep")), 2);
    assert_int_equal(jget_int(j, "other[0][0][0]", 0), 7);
    buf_free(&b);
}

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "{", "[\"\\u0000", "{\"a\":\"\\", "[1}", "\"", "]]", "[00]"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = ERR_INIT;
        assert_null(wire_json(bad[i], strlen(bad[i]), &e));
        assert_int_equal(e.cls, ERR_INVALID);
    }
    struct err e = ERR_INIT;
    assert_null(wire_json("[1]\0[", 5, &e));
}

static void retry_after_is_a_number_or_a_date(void **state)
{
    (void)state;
    assert_int_equal(wire_retry_after_ns("7", 0), 7 * NS_PER_S);
    assert_int_equal(wire_retry_after_ns("0", 0), 0);
    assert_int_equal(wire_retry_after_ns("-1", 0), -1);
    assert_int_equal(wire_retry_after_ns("soon", 0), -1);
    assert_int_equal(wire_retry_after_ns("", 0), -1);
    assert_int_equal(
        wire_retry_after_ns("Thu, 01 Jan 1970 00:01:00 GMT", 20 * NS_PER_S), 40 * NS_PER_S);
    assert_int_equal(wire_retry_after_ns("Thu, 01 Jan 1970 00:01:00 GMT", 90 * NS_PER_S), 0);
    assert_true(wire_retry_after_ns("99999999999999999999", 0) > 0);
}

static void warnings_are_collected(void **state)
{
    (void)state;
    struct kube_warnings w = {.n = 0};
    cleanup_buf struct buf headers = BUF_INIT(64 << 10);
    buf_adds(&headers,
        "content-type: application/json\n"
        "warning: 299 - \"unknown field \\\"spec.x\\\"\"\n"
        "warning: 299 - \"unknown field \\\"spec.x\\\"\"\n" /* the same again */
        "warning: 299\nwarning: \nx-warning: 299 - \"no\"\n"
        "warning: 299 - \"caf\xc3\n");
    wire_warnings(buf_str(&headers), &w);
    assert_int_equal(w.n, 2);
    assert_string_equal(w.text[0], "unknown field \"spec.x\"");
    assert_string_equal(w.text[1], "caf\xef\xbf\xbd");
    for (int i = 0; i < 20; i++)
        buf_addf(&headers, "warning: 299 - \"%d%0999d\"\n", i, 0);
    wire_warnings(buf_str(&headers), &w);
    assert_int_equal(w.n, KUBE_WARNINGS);
    assert_int_equal(strlen(w.text[4]), KUBE_WARNING_MAX);
}

static void keys_name_objects(void **state)
{
    (void)state;
    static const struct {
        const char *ns, *name, *key;
    } cases[] = {{"a", "b", "a/b"}, {"", "node", "node"}, {NULL, "node", "node"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_free char *key = kube_key(cases[i].ns, cases[i].name);
        assert_string_equal(key, cases[i].key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_become_errors),
        cmocka_unit_test(lines_are_cut_wherever_the_bytes_break),
        cmocka_unit_test(a_line_may_stop_the_feed),
        cmocka_unit_test(of_a_long_line_only_the_beginning_is_kept),
        cmocka_unit_test(events_are_read),
        cmocka_unit_test(a_line_that_cannot_be_read_names_its_object),
        cmocka_unit_test(what_an_object_may_hold_is_read),
        cmocka_unit_test(deep_values_are_cut_off),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(retry_after_is_a_number_or_a_date),
        cmocka_unit_test(warnings_are_collected),
        cmocka_unit_test(keys_name_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
