/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/prefetch/prefetch_fixture.h"

#include "fuse/file/cached.h"
#include "lib/base/file.h"

#include <unistd.h>

static int fetch(void *user, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    struct fx *x = user;
    int rc = 0;
    (void)cancel;
    pthread_mutex_lock(&x->mu);
    if (off == 0 && x->nfetched < FX_FETCHES)
        x->fetched[x->nfetched++] = xstrdup(key->path);
    while (x->held)
        pthread_cond_wait(&x->changed, &x->mu);
    if (*x->fails && strncmp(key->path, x->fails, strlen(x->fails)) == 0)
        rc = err_set(e, x->fail_cls, "%s fails on purpose", key->path);
    pthread_mutex_unlock(&x->mu);
    static const char zero[64 << 10];
    while (rc == 0 && len) {
        size_t n = MIN(len, sizeof zero);
        if (sink->take(sink->user, zero, n))
            return err_set(e, ERR_RETRY, "cancelled");
        len -= n;
    }
    return rc;
}

static void changed(void *user, uint64_t dir, const char *name)
{
    (void)user;
    (void)dir;
    (void)name;
}

struct fx *fx_new(int64_t quota)
{
    struct fx *x = xcalloc(1, sizeof *x);
    struct err e = ERR_INIT;
    bool fresh;
    snprintf(x->dir, sizeof x->dir, "/tmp/millrace-prefetch.XXXXXX");
    assert_non_null(mkdtemp(x->dir));
    pthread_mutex_init(&x->mu, NULL);
    pthread_cond_init(&x->changed, NULL);
    x->fake = fake_store_new(STORE_CAP_WRITE | STORE_CAP_DIRS);
    x->store = fake_store(x->fake);
    x->mount = (struct conf_mount){.mount_point = (char *)"memory://", .path = (char *)"/"};
    x->tier = (struct conf_tier){CONF_MEM, quota};
    x->conf = (struct conf){.mounts = &x->mount, .nmounts = 1, .read_only = true};
    struct cache_conf cc = {
        .tiers = &x->tier, .ntiers = 1, .fetch_threads = 2, .source = {fetch, x}};
    x->cache = cache_new(&cc, &e);
    assert_non_null(x->cache);
    cleanup_free char *path = path_join(x->dir, "index");
    struct inodes_conf ic = {
        .path = path, .identity = 1, .dir_mode = 0755, .file_mode = 0644, .nmounts = 1};
    x->inodes = inodes_open(&ic, &fresh, &e);
    assert_non_null(x->inodes);
    struct tree_conf tc = {.conf = &x->conf,
        .inodes = x->inodes,
        .stores = &x->store,
        .sync_ns = 600 * NS_PER_S,
        .changed = changed};
    x->tree = tree_new(&tc, &e);
    assert_non_null(x->tree);
    return x;
}

void fx_free(struct fx *x)
{
    cache_free(x->cache);
    tree_free(x->tree);
    inodes_close(x->inodes, true);
    fake_store_free(x->fake);
    for (unsigned i = 0; i < x->nfetched; i++)
        free(x->fetched[i]);
    pthread_mutex_destroy(&x->mu);
    pthread_cond_destroy(&x->changed);
    file_remove_tree(x->dir, NULL);
    free(x);
}

void fx_files(struct fx *x, const char *dir, unsigned n, size_t size)
{
    struct err e = ERR_INIT;
    cleanup_free char *text = xmalloc(size + 1);
    memset(text, 'x', size);
    text[size] = '\0';
    for (unsigned i = 0; i < n; i++) {
        cleanup_free char *path = xasprintf("%s/f%03u", dir, i);
        fake_store_write(x->fake, path, text);
    }
    fake_store_mkdir(x->fake, dir);
    inodes_unlist(x->inodes, INODE_ROOT); /* it may have been listed without this one */
    assert_int_equal(tree_fill_all(x->tree, fx_inode(x, dir).ino, &e), 0);
}

struct inode fx_inode(struct fx *x, const char *path)
{
    struct inode n = {.ino = INODE_ROOT};
    struct err e = ERR_INIT;
    cleanup_free char *copy = xstrdup(path);
    char *rest = copy, *name;
    while ((name = strsep(&rest, "/")))
        if (tree_lookup(x->tree, n.ino, name, &n, &e))
            fail_msg("%s: %s", path, e.msg);
    return n;
}

struct inode fx_file(struct fx *x, const char *dir, unsigned i)
{
    cleanup_free char *path = xasprintf("%s/f%03u", dir, i);
    return fx_inode(x, path);
}

bool fx_is_cached(struct fx *x, const char *dir, unsigned i)
{
    struct err e = ERR_INIT;
    struct inode n = fx_file(x, dir, i);
    struct cache_file *f = file_cached(x->tree, x->cache, &n, &e);
    assert_non_null(f);
    bool complete = cache_complete(f);
    cache_close(f);
    return complete;
}

unsigned fx_fetched(struct fx *x)
{
    pthread_mutex_lock(&x->mu);
    unsigned n = x->nfetched;
    pthread_mutex_unlock(&x->mu);
    return n;
}

bool fx_was_fetched(struct fx *x, const char *path)
{
    bool was = false;
    pthread_mutex_lock(&x->mu);
    for (unsigned i = 0; i < x->nfetched; i++)
        was |= strcmp(x->fetched[i], path) == 0;
    pthread_mutex_unlock(&x->mu);
    return was;
}

void fx_hold(struct fx *x, bool held)
{
    pthread_mutex_lock(&x->mu);
    x->held = held;
    pthread_cond_broadcast(&x->changed);
    pthread_mutex_unlock(&x->mu);
}

void fx_settle(struct fx *x)
{
    unsigned before;
    do {
        before = fx_fetched(x);
        clock_sleep_ns(150 * NS_PER_MS);
    } while (fx_fetched(x) != before);
}
