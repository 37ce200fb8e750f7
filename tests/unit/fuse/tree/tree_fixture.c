/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/tree/tree_fixture.h"

unsigned fx_blocked;

static void will_block(void) { fx_blocked++; }

static void changed(void *user, uint64_t dir, const char *name)
{
    struct fx *x = user;
    size_t len = strlen(x->changed);
    snprintf(x->changed + len, sizeof x->changed - len, "%llu/%s ", (unsigned long long)dir, name);
}

static uint32_t ago(unsigned seconds) { return (uint32_t)(clock_real_ns() / NS_PER_S) - seconds; }

struct fx *fx_new(const char *const *paths, bool read_only)
{
    struct fx *x = xcalloc(1, sizeof *x);
    struct err e = ERR_INIT;
    bool fresh;
    snprintf(x->dir, sizeof x->dir, "/tmp/millrace-tree.XXXXXX");
    assert_non_null(mkdtemp(x->dir));
    x->conf = (struct conf){.mounts = x->mounts, .read_only = read_only};
    for (; paths[x->conf.nmounts]; x->conf.nmounts++) {
        size_t i = x->conf.nmounts;
        x->mounts[i] = (struct conf_mount){
            .mount_point = (char *)"memory://", .path = (char *)paths[i], .read_only = read_only};
        x->fake[i] = fake_store_new(STORE_CAP_WRITE | STORE_CAP_DIRS);
        x->stores[i] = fake_store(x->fake[i]);
    }
    cleanup_free char *path = path_join(x->dir, "index");
    struct inodes_conf ic = {.path = path,
        .identity = 1,
        .dir_mode = 0755,
        .file_mode = 0644,
        .nmounts = (unsigned)x->conf.nmounts};
    x->inodes = inodes_open(&ic, &fresh, &e);
    assert_non_null(x->inodes);
    struct tree_conf tc = {.conf = &x->conf,
        .inodes = x->inodes,
        .stores = x->stores,
        .sync_ns = 60 * NS_PER_S,
        .since_s = ago(FX_MOUNTED_S),
        .changed = changed,
        .user = x,
        .will_block = will_block};
    x->tree = tree_new(&tc, &e);
    assert_non_null(x->tree);
    fx_blocked = 0;
    return x;
}

void fx_free(struct fx *x)
{
    tree_free(x->tree);
    inodes_close(x->inodes, true);
    for (size_t i = 0; i < x->conf.nmounts; i++)
        fake_store_free(x->fake[i]);
    file_remove_tree(x->dir, NULL);
    free(x);
}

int fx_lookup(struct fx *x, const char *path, struct inode *n)
{
    struct err e = ERR_INIT;
    cleanup_free char *copy = xstrdup(path);
    char *rest = copy, *name;
    struct inode at = {.ino = INODE_ROOT};
    while ((name = strsep(&rest, "/")))
        if (tree_lookup(x->tree, at.ino, name, &at, &e)) {
            assert_true(*e.msg);
            return err_errno(&e);
        }
    if (n)
        *n = at;
    return 0;
}

void fx_age(struct fx *x, uint64_t ino, unsigned seconds)
{
    inodes_set(x->inodes, ino, INODES_SYNCED, &(struct inode){.synced_s = ago(seconds)}, 0, 0);
}

void fx_age_listing(struct fx *x, uint64_t dir, unsigned seconds)
{
    inodes_listed(x->inodes, dir, INODES_NOW, ago(seconds), NULL, NULL);
}

static int add_child(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    char *text = user;
    (void)child;
    (void)cookie;
    strcat(strcat(text, name), " ");
    return 0;
}

const char *fx_children(struct fx *x, uint64_t dir)
{
    static char text[4096];
    text[0] = '\0';
    inodes_children(x->inodes, dir, 0, false, add_child, text);
    return text;
}
