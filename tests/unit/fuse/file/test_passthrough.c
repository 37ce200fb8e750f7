/* SPDX-License-Identifier: Apache-2.0 */
/* Backing files: each id that was given is given back exactly once, never while its inode is open,
 * and there are never too many idle. */
#include "tests/lib/unit.h"

#include "fuse/file/passthrough.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define IDS   100000
#define FILES 40
#define MOST  8

static char dir[] = "/tmp/millrace-backing.XXXXXX";
static struct inodes *ix;
static uint64_t files[FILES];
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool live[IDS]; /* mu */
static int next_id, nlive;

static int give(void *user, int fd, int32_t *id, struct err *e)
{
    (void)user;
    if (fd < 0)
        return err_set(e, ERR_DENIED, "not this one");
    pthread_mutex_lock(&mu);
    *id = ++next_id;
    live[*id] = true;
    nlive++;
    pthread_mutex_unlock(&mu);
    return 0;
}

static void take_back(void *user, int32_t id)
{
    (void)user;
    pthread_mutex_lock(&mu);
    bool was = live[id];
    live[id] = false;
    nlive--;
    pthread_mutex_unlock(&mu);
    if (!was)
        abort();
}

static void unheard(void *user, int32_t id)
{
    (void)user;
    (void)id;
}

static const struct backing_ops ops = {give, take_back, NULL, false},
                                ops_of_the_dead = {give, unheard, NULL, false};

static uint64_t put(const char *name, const char *version)
{
    struct store_stat st = {.size = 10, .mtime_ns = 1};
    struct inode n;
    struct err e = ERR_INIT;
    enum inodes_change change;
    snprintf(st.version, sizeof st.version, "%s", version);
    if (inodes_put(ix, INODE_ROOT, name, &st, INODES_NOW, 1, &n, &change, &e))
        fail_msg("%s", e.msg);
    inodes_ref(ix, n.ino);
    return n.ino;
}

static int setup(void **state)
{
    cleanup_free char *path = path_join(dir, "index");
    struct inodes_conf c = {.path = path, .identity = 1, .dir_mode = 0755, .file_mode = 0644};
    struct err e = ERR_INIT;
    bool fresh;
    (void)state;
    unlink(path);
    if (!(ix = inodes_open(&c, &fresh, &e)))
        fail_msg("%s", e.msg);
    for (int i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        files[i] = put(name, "v1");
    }
    next_id = nlive = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    inodes_close(ix, true);
    return 0;
}

static pthread_mutex_t up = PTHREAD_MUTEX_INITIALIZER;

/* As open.c does: registered one at a time for an inode. 0: it is open, but not passed through. */
static int32_t open_it(struct backings *b, uint64_t ino)
{
    int32_t id = backings_reopen(b, ino);
    if (id)
        return id;
    struct err e = ERR_INIT;
    struct inode n;
    pthread_mutex_lock(&up);
    if (!(id = backings_reopen(b, ino)) && inodes_get(ix, ino, &n) == 0 && n.opens == 0)
        id = backings_register(b, ino, 0, &e);
    if (!id) {
        inodes_set(ix, ino, 0, NULL, 0, INODE_PASSTHROUGH);
        inodes_opened(ix, ino, 1);
    }
    pthread_mutex_unlock(&up);
    return id;
}

/* For writing: false if the kernel reads it by itself. */
static bool open_to_write(struct backings *b, uint64_t ino)
{
    pthread_mutex_lock(&up);
    bool ok = backings_drop(b, ino);
    if (ok) {
        inodes_set(ix, ino, 0, NULL, 0, INODE_PASSTHROUGH);
        inodes_opened(ix, ino, 1);
    }
    pthread_mutex_unlock(&up);
    return ok;
}

static void close_it(struct backings *b, uint64_t ino)
{
    struct inode was;
    assert_int_equal(inodes_get(ix, ino, &was), 0);
    if (inodes_opened(ix, ino, -1) == 0)
        backings_idle(b, &was);
}

static void test_kept(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    int32_t first = open_it(b, files[0]);
    assert_true(first > 0);
    assert_int_equal(open_it(b, files[0]), first); /* one id for all opens */
    close_it(b, files[0]);
    assert_int_equal(backings_count(b), 0); /* still open once */
    close_it(b, files[0]);
    assert_int_equal(backings_count(b), 1);
    assert_int_equal(open_it(b, files[0]), first); /* and for later ones */
    assert_int_equal(backings_count(b), 0);
    close_it(b, files[0]);
    backings_free(b);
    assert_int_equal(nlive, 0);
    struct inode n;
    assert_int_equal(inodes_get(ix, files[0], &n), 0);
    assert_int_equal(n.backing, 0);
    assert_false(n.flags & INODE_PASSTHROUGH);
}

static void test_oldest_goes(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    int32_t held = open_it(b, files[FILES - 1]);
    for (int i = 0; i < MOST + 3; i++) {
        open_it(b, files[i]);
        close_it(b, files[i]);
        if (i > 0) { /* used again and again: never the oldest */
            open_it(b, files[0]);
            close_it(b, files[0]);
        }
    }
    assert_int_equal(backings_count(b), MOST);
    assert_int_equal(nlive, MOST + 1);
    int before = next_id;
    assert_int_equal(open_it(b, files[0]), 2); /* the second id given: still the same */
    assert_true(live[held]);
    open_it(b, files[1]); /* was the oldest: it gets a new one */
    assert_int_equal(next_id, before + 1);
    close_it(b, files[0]);
    close_it(b, files[1]);
    close_it(b, files[FILES - 1]);
    backings_free(b);
    assert_int_equal(nlive, 0);
}

/* What the kernel holds open may not be more than a share of the cache, however few files it is. */
static void test_bytes(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 35); /* three files of 10 bytes, and a half */
    for (int i = 0; i < 5; i++) {
        open_it(b, files[i]);
        close_it(b, files[i]);
    }
    assert_int_equal(backings_count(b), 3);
    assert_int_equal(nlive, 3);
    backings_free(b);
    b = backings_new(&ops, ix, MOST, 5); /* one file is more than that */
    for (int i = 0; i < 5; i++) {
        open_it(b, files[i]);
        close_it(b, files[i]);
        assert_int_equal(backings_count(b), 1);
    }
    backings_free(b);
    assert_int_equal(nlive, 0);
}

/* The process ends without a word; the next one has its ids, and gives them back in time. */
static void test_resume(void **state)
{
    (void)state;
    struct backings *lost = backings_new(&ops_of_the_dead, ix, MOST, 1 << 20);
    int32_t id = 0, open = open_it(lost, files[7]);
    for (int i = 0; i < 6; i++) {
        id = open_it(lost, files[i]);
        close_it(lost, files[i]);
    }
    struct backings *b = backings_new(&ops, ix, MOST, 45);
    backings_resume(b);
    assert_int_equal(backings_count(b), 6);
    assert_true(live[open]);
    assert_int_equal(open_it(b, files[5]), id);
    close_it(b, files[5]);
    assert_int_equal(backings_count(b), 4);
    assert_int_equal(nlive, 5);
    close_it(b, files[7]);
    assert_int_equal(backings_count(b), 4);
    backings_free(b);
    assert_int_equal(nlive, 0);
    backings_free(lost);
}

/* The store has another version of a file that the kernel has forgotten: the id of the old one is
 * not for the new one. */
static void test_updated(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    int32_t old = open_it(b, files[0]);
    close_it(b, files[0]);
    inodes_forget(ix, files[0], 1);
    struct inode before, after;
    assert_int_equal(inodes_get(ix, files[0], &before), 0);
    uint64_t ino = put("f0", "v2");
    assert_int_equal(ino, files[0]); /* the record is used again, or this tests nothing */
    assert_int_equal(inodes_get(ix, ino, &after), 0);
    assert_true(after.generation != before.generation);
    int32_t id = open_it(b, ino);
    assert_true(id != old);
    assert_false(live[old]);
    close_it(b, ino);
    backings_free(b);
    assert_int_equal(nlive, 0);
}

static void test_refused(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    struct err e = ERR_INIT;
    char why[BACKINGS_REFUSAL_MAX];
    backings_refusal(b, why);
    assert_string_equal(why, "");
    assert_int_equal(backings_register(b, files[0], -1, &e), 0);
    assert_string_equal(e.msg, "not this one");
    assert_int_equal(backings_reopen(b, files[0]), 0);
    backings_refusal(b, why);
    assert_string_equal(why, "not this one");
    assert_true(backings_register(b, files[0], 0, &e) > 0); /* it takes files after all */
    backings_refusal(b, why);
    assert_string_equal(why, "");
    assert_int_equal(backings_register(b, files[1], -1, &e), 0);
    backings_refusal(b, why);
    assert_string_equal(why, "");
    close_it(b, files[0]);
    backings_free(b);
}

/* Who opens it after a writer gets nothing of what was there before; who reads it by the kernel is
 * let alone. */
static void test_written(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    int32_t id = open_it(b, files[0]);
    assert_false(open_to_write(b, files[0]));
    assert_true(live[id]);
    assert_int_equal(open_it(b, files[0]), id);
    close_it(b, files[0]);
    close_it(b, files[0]);
    assert_true(open_to_write(b, files[0]));
    assert_false(live[id]);
    assert_int_equal(open_it(b, files[0]), 0); /* through us, as the writer's */
    close_it(b, files[0]);
    close_it(b, files[0]);
    assert_true(open_it(b, files[0]) > id);
    struct inode was; /* between the last close and its being told */
    assert_int_equal(inodes_get(ix, files[0], &was), 0);
    assert_int_equal(inodes_opened(ix, files[0], -1), 0);
    assert_true(open_to_write(b, files[0]));
    assert_false(live[was.backing]);
    backings_idle(b, &was);
    close_it(b, files[0]);
    assert_int_equal(backings_count(b), 0);
    assert_int_equal(nlive, 0);
    backings_free(b);
}

/* Its record is freed with the last close, or later, and taken by another file. */
static void test_gone(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    int32_t while_open = open_it(b, files[0]), idle = open_it(b, files[1]);
    close_it(b, files[1]);
    for (int i = 0; i < 2; i++) {
        inodes_remove(ix, files[i]);
        inodes_forget(ix, files[i], 1);
    }
    close_it(b, files[0]);
    assert_false(live[while_open]);
    uint64_t again[2] = {put("new0", "v1"), put("new1", "v1")};
    int32_t ids[2] = {open_it(b, again[0]), open_it(b, again[1])};
    assert_true(ids[0] != idle && ids[1] != idle);
    close_it(b, again[0]);
    close_it(b, again[1]);
    assert_false(live[idle]);
    backings_free(b);
    assert_int_equal(nlive, 0);
}

/* Who writes gets an inode of his own: all that is known of the file, nothing of what the kernel
 * knows of the old one. */
static void test_renew(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct inode n, was, set = {.mode = 0751, .uid = 3, .gid = 4};
    struct backings *b = backings_new(&ops, ix, MOST, 1 << 20);
    uint64_t old = files[0];
    int32_t id = open_it(b, old);
    inodes_set(ix, old, INODES_MODE | INODES_OWNER, &set, INODE_ATTR, 0);
    assert_int_equal(inodes_get(ix, old, &was), 0);
    assert_int_equal(inodes_renew(ix, old, &e), 0);
    assert_true(inodes_find(ix, INODE_ROOT, "f0", &n));
    assert_int_not_equal(n.ino, old);
    assert_int_equal(n.flags, INODE_USED | INODE_ATTR);
    assert_true(n.mode == was.mode && n.uid == 3 && n.gid == 4 && n.size == 10 && n.mtime_ns == 1
        && n.synced_s == was.synced_s);
    assert_true(n.opens == 0 && n.backing == 0 && n.mount == was.mount);
    assert_string_equal(n.version, "v1");
    assert_int_equal(put("f0", "v1"), n.ino); /* to the store it is the same file */
    assert_int_equal(inodes_get(ix, INODE_ROOT, &n), 0);
    assert_int_equal(n.nchildren, FILES);

    assert_int_equal(inodes_get(ix, old, &n), 0); /* its readers keep it */
    assert_int_equal(
        n.flags, INODE_USED | INODE_ATTR | INODE_PASSTHROUGH | INODE_UNLINKED | INODE_ORPHANED);
    assert_true(n.opens == 1 && n.backing == id && live[id]);
    assert_int_equal(open_it(b, old), id);
    assert_int_equal(inodes_renew(ix, old, &e), -1);
    assert_int_equal(err_errno(&e), ESTALE);
    close_it(b, old);
    close_it(b, old);
    inodes_forget(ix, old, 1);
    assert_int_equal(inodes_get(ix, old, &n), -1);

    assert_int_equal(inodes_renew(ix, INODE_ROOT, &e), -1);
    inodes_set(ix, files[1], 0, NULL, INODE_STAGED, 0); /* its content would stay behind */
    assert_int_equal(inodes_renew(ix, files[1], &e), -1);
    assert_true(inodes_find(ix, INODE_ROOT, "f1", &n));
    assert_int_equal(n.ino, files[1]);
    backings_free(b);
    assert_int_equal(nlive, 0);
}

struct hand {
    struct backings *b;
    int number;
};

static void *hammer(void *arg)
{
    const struct hand *h = arg;
    unsigned seed = (unsigned)h->number;
    for (int i = 0; i < 3000; i++) { /* more files than ids, and all threads use them all */
        uint64_t ino = files[rand_r(&seed) % FILES];
        struct inode n;
        if (h->number == 0 && open_to_write(h->b, ino)) {
            if (inodes_get(ix, ino, &n) || n.backing || (n.flags & INODE_PASSTHROUGH))
                abort();
            close_it(h->b, ino);
        }
        int32_t id = open_it(h->b, ino);
        pthread_mutex_lock(&mu);
        bool good = !id || live[id];
        pthread_mutex_unlock(&mu);
        if (!good)
            abort();
        close_it(h->b, ino);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct backings *b = backings_new(&ops, ix, MOST, 25);
    struct hand hands[4];
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        hands[i] = (struct hand){b, i};
        assert_int_equal(pthread_create(&t[i], NULL, hammer, &hands[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_true(backings_count(b) <= MOST);
    assert_int_equal(nlive, (int)backings_count(b));
    backings_free(b);
    assert_int_equal(nlive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_oldest_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume, setup, teardown),
        cmocka_unit_test_setup_teardown(test_updated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    if (!mkdtemp(dir))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(dir, NULL);
    return rc;
}
