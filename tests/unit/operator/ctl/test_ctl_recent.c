/* SPDX-License-Identifier: Apache-2.0 */
/* Folded objects that stay whole for whoever reads them next. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "operator/ctl/recent.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdlib.h>

#define OBJECTS 1000

static struct obj *folded(int i)
{
    cleanup_json json_t *j = json_pack("{s:i}", "i", i);
    return obj_fold(j);
}

static void what_was_read_is_whole_the_next_time(void **state)
{
    (void)state;
    struct recent *r = recent_new(8);
    cleanup_obj struct obj *o = folded(7), *a = recent_whole(r, obj_ref(o)),
                           *b = recent_whole(r, obj_ref(o));
    assert_int_equal(jget_int(obj_json(a), "i", 0), 7);
    assert_ptr_equal(a, b);
    assert_null(obj_json(o)); /* itself it stays as it was */
    cleanup_obj struct obj *same = folded(7), *c = recent_whole(r, obj_ref(same));
    assert_ptr_not_equal(a, c); /* another version may read alike */
    cleanup_obj struct obj *whole = recent_whole(r, obj_ref(a));
    assert_ptr_equal(whole, a);
    assert_null(recent_whole(r, NULL));
    recent_free(r);
    assert_int_equal(jget_int(obj_json(a), "i", 0), 7); /* who reads it has it */
}

static void without_room_it_is_made_each_time(void **state)
{
    (void)state;
    struct recent *r = recent_new(0);
    assert_null(r);
    cleanup_obj struct obj *o = folded(1), *a = recent_whole(r, obj_ref(o)),
                           *b = recent_whole(r, obj_ref(o));
    assert_ptr_not_equal(a, b);
    recent_free(r);
}

/* How many of so many are as they were when they were read before. */
static int kept(struct recent *r, struct obj **all, int n)
{
    int same = 0;
    struct obj *was[OBJECTS];
    for (int i = 0; i < n; i++)
        was[i] = recent_whole(r, obj_ref(all[i]));
    for (int i = 0; i < n; i++) {
        cleanup_obj struct obj *now = recent_whole(r, obj_ref(all[i]));
        assert_int_equal(jget_int(obj_json(now), "i", -1), i);
        same += now == was[i];
        obj_unref(was[i]);
    }
    return same;
}

static void it_holds_what_it_has_room_for(void **state)
{
    (void)state;
    struct obj *all[OBJECTS];
    for (int i = 0; i < OBJECTS; i++)
        all[i] = folded(i);
    struct recent *large = recent_new(2 * OBJECTS), *small = recent_new(OBJECTS / 10);
    /* of those by chance, one in seven is in a set with more than it has ways */
    assert_true(kept(large, all, OBJECTS) > OBJECTS * 7 / 10);
    assert_true(kept(small, all, OBJECTS) <= OBJECTS / 5);
    recent_free(large);
    recent_free(small);
    for (int i = 0; i < OBJECTS; i++)
        obj_unref(all[i]);
}

struct readers {
    struct recent *r;
    struct obj *all[64];
};

static void *read_all(void *arg)
{
    struct readers *x = arg;
    for (int k = 0; k < 2000; k++) {
        cleanup_obj struct obj *o = recent_whole(x->r, obj_ref(x->all[k % 64]));
        if (jget_int(obj_json(o), "i", -1) != k % 64)
            return x;
    }
    return NULL;
}

static void many_read_at_once(void **state)
{
    (void)state;
    static struct readers x;
    pthread_t t[4];
    x.r = recent_new(16);
    for (int i = 0; i < 64; i++)
        x.all[i] = folded(i);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_all, &x), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        void *bad = NULL;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    recent_free(x.r);
    for (int i = 0; i < 64; i++)
        obj_unref(x.all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_read_is_whole_the_next_time),
        cmocka_unit_test(without_room_it_is_made_each_time),
        cmocka_unit_test(it_holds_what_it_has_room_for),
        cmocka_unit_test(many_read_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
