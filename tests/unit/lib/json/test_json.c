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

/* What a user wrote goes to the API server as it was: 0.1 of a CPU is no 0.10000000000000001. */
static void numbers_keep_their_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *same;
    } cases[] = {
        {"[0.1]", NULL},
        {"[1e19]", NULL},
        {"[0.30000000000000004]", NULL},
        {"[5.0,-0.25,1.5e-7,1e300,123456789.125]", NULL},
        {"[1E+5,2.50]", "[100000.0,2.5]"},
        {"{\"a\":{\"z\\n\":0.1,\"b\":[\"0.10\",1,true,null,{}]},\"c\":0.7}",
            "{\"a\":{\"b\":[\"0.10\",1,true,null,{}],\"z\\n\":0.1},\"c\":0.7}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        cleanup_json json_t *j = json_parse(cases[i].text, strlen(cases[i].text), &e);
        cleanup_free char *text = json_text(j);
        assert_string_equal(text, cases[i].same ? cases[i].same : cases[i].text);
        cleanup_obj struct obj *o = obj_unfold(obj_fold(j));
        assert_true(json_equal((json_t *)(uintptr_t)obj_json(o), j));
    }
    /* of what has no such numbers the hash is as ever: pods are not made anew */
    struct err e = ERR_INIT;
    static const char whole[] = "{\"x\":1,\"y\":[2,\"0.1\"]}";
    cleanup_json json_t *plain = json_parse(whole, strlen(whole), &e);
    assert_int_equal(json_hash(plain), UINT64_C(0x28de9bd958ea95a8));
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
        cmocka_unit_test(numbers_keep_their_text),
        cmocka_unit_test(objects_are_shared_between_threads),
        cmocka_unit_test(a_folded_object_becomes_whole_again),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
