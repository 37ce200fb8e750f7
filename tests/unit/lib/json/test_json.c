/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "{\"a\":{\"b.c/d\":\"x\",\"n\":5,\"t\":true,\"nul\":null},\"l\":[{\"k\":1},{\"k\":2}]}";

static void paths(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *j = json_parse(doc, strlen(doc), &e);
    assert_string_equal(jget_str(j, "a.\"b.c/d\"", ""), "x");
    assert_int_equal(jget_int(j, "l[1].k", 0), 2);
    assert_int_equal(jget_int(j, "l[2].k", -1), -1);
    assert_true(jget_bool(j, "a.t", false));
    assert_null(jget(j, "a.nul"));
    assert_null(jget(j, "a.n.deeper"));
    assert_int_equal(jget_len(j, "l"), 2);
    assert_int_equal(jget_len(j, "a"), 0);
    const char *s;
    int64_t n;
    assert_int_equal(jget_str_req(j, "a.missing", &s, &e), -1);
    assert_string_equal(e.msg, "a.missing is missing");
    assert_int_equal(jget_str_req(j, "a.n", &s, &e), -1);
    assert_int_equal(jget_int_req(j, "a.n", 1, 4, &n, &e), -1);
    assert_string_equal(e.msg, "a.n must be a whole number from 1 to 4");
    assert_int_equal(jget_int_req(j, "a.n", 1, 5, &n, &e), 0);
}

static void parse_errors_say_where(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(json_parse("{\"a\":\n 1,}", 10, &e));
    assert_int_equal(e.cls, ERR_INVALID);
    assert_non_null(strstr(e.msg, "line 2"));
    assert_null(json_parse("{\"a\":1,\"a\":2}", 13, &e));
}

static void equal_documents_have_equal_hashes(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *a = json_parse("{\"x\":1,\"y\":[2]}", 15, &e),
                        *b = json_parse("{ \"y\":[2],\"x\":1}", 16, &e);
    cleanup_json json_t *c = json_parse("{\"x\":1,\"y\":[3]}", 15, &e);
    assert_int_equal(json_hash(a), json_hash(b));
    assert_int_not_equal(json_hash(a), json_hash(c));
}

static void *reader(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        struct obj *o = obj_ref(arg);
        if (jget_int(obj_json(o), "a.n", 0) != 5)
            abort();
        obj_unref(o);
    }
    return NULL;
}

static void objects_are_shared_between_threads(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct obj *o = obj_take(json_parse(doc, strlen(doc), &e));
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, reader, o), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(jget_int(obj_json(o), "a.n", 0), 5);
    obj_unref(o);
}

static void a_folded_object_becomes_whole_again(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    cleanup_json json_t *j = json_parse(doc, strlen(doc), &e);
    cleanup_obj struct obj *folded = obj_fold(j);
    cleanup_obj struct obj *a = obj_unfold(obj_ref(folded)), *b = obj_unfold(obj_ref(folded)),
                           *same = obj_unfold(obj_ref(a));
    assert_true(json_equal(obj_json(a), j) && json_equal(obj_json(b), j));
    assert_ptr_not_equal(a, b); /* nobody shares a tree */
    assert_ptr_equal(a, same);
    assert_null(obj_unfold(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(parse_errors_say_where),
        cmocka_unit_test(equal_documents_have_equal_hashes),
        cmocka_unit_test(objects_are_shared_between_threads),
        cmocka_unit_test(a_folded_object_becomes_whole_again),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
