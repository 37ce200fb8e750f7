/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/sidecar.h"
#include "fuse/file/stage_name.h"
#include "lib/base/file.h"

#include <dirent.h>
#include <unistd.h>

static const char *const mount_names[FX_MOUNTS] = {"main", "other", "ro"};

static int fx_fetch(void *user, const struct cache_key *key, uint64_t off, size_t len,
    struct cache_sink *sink, const atomic_bool *cancel, struct err *e)
{
    struct fx *x = user;
    return store_stream(x->stores[key->mount], key->path, key->version, off, len, sink->take,
        sink->user, cancel, e);
}

static void fx_changed(void *user, uint64_t dir, const char *name)
{
    (void)user;
    (void)dir;
    (void)name;
}

static void fx_first_read(void *user, const struct inode *n, struct cache_file *cf)
{
    struct fx *x = user;
    assert_non_null(cf);
    assert_false(n->flags & INODE_DIR);
    x->first_reads++;
}

static _Thread_local unsigned *blocked;

static void fx_will_block(void)
{
    if (blocked)
        ++*blocked;
}

static int fx_backing_open(void *user, int fd, int32_t *id, struct err *e)
{
    struct fx *x = user;
    assert_true(fcntl(fd, F_GETFD) >= 0);
    if (x->refuse != ERR_NONE)
        return err_set(e, x->refuse, "the kernel refuses on purpose");
    *id = ++x->next_id;
    x->registered++;
    return 0;
}

static void fx_backing_close(void *user, int32_t id)
{
    struct fx *x = user;
    assert_in_range(id, 1, x->next_id);
    x->registered--;
}

static void fx_start(struct fx *x, bool resume)
{
    struct err e = ERR_INIT;
    bool fresh;
    struct inodes_conf ic = {.path = x->index_path,
        .identity = 1,
        .resume = resume,
        .dir_mode = 0777,
        .file_mode = 0666,
        .nmounts = FX_MOUNTS};
    x->inodes = inodes_open(&ic, &fresh, &e);
    assert_non_null(x->inodes);
    struct tree_conf tc = {.conf = &x->conf,
        .inodes = x->inodes,
        .stores = x->stores,
        .sync_ns = 600 * NS_PER_S,
        .changed = fx_changed,
        .user = x};
    x->tree = tree_new(&tc, &e);
    assert_non_null(x->tree);
    if (x->c.passthrough)
        x->backings = backings_new(
            &(struct backing_ops){fx_backing_open, fx_backing_close, x, x->c.memory}, x->inodes, 0,
            UINT64_MAX);
    struct files_conf fc = {.inodes = x->inodes,
        .tree = x->tree,
        .cache = x->cache,
        .conf = &x->conf,
        .stage_dir = x->stage_dir,
        .backings = x->backings,
        .max_idle = x->c.max_idle,
        .file_mode = 0666,
        .dir_mode = 0777,
        .will_block = fx_will_block,
        .on_first_read = fx_first_read,
        .user = x};
    x->files = files_new(&fc, &e);
    assert_non_null(x->files);
    blocked = &x->blocked;
}

static void fx_stop(struct fx *x, bool clean)
{
    files_free(x->files);
    backings_free(x->backings);
    x->backings = NULL;
    tree_free(x->tree);
    inodes_close(x->inodes, clean);
    blocked = NULL;
}

struct fx *fx_new(const struct fx_conf *c)
{
    struct fx *x = xcalloc(1, sizeof *x);
    struct err e = ERR_INIT;
    const char *tmp = getenv("TMPDIR");
    if (c)
        x->c = *c;
    if (!x->c.caps)
        x->c.caps = FX_CAPS;
    x->dir = xasprintf("%s/millrace-file.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(x->dir));
    x->stage_dir = path_join(x->dir, "stage");
    x->index_path = path_join(x->dir, "index");
    for (unsigned i = 0; i < FX_MOUNTS; i++) {
        x->fake[i] = fake_store_new(x->c.caps);
        x->stores[i] = fake_store(x->fake[i]);
        x->mounts[i] = (struct conf_mount){.mount_point = xasprintf("memory://%u", i),
            .path = xasprintf("/%s", mount_names[i]),
            .read_only = i == 2};
    }
    x->root[0] = '/';
    x->rule = (struct conf_rule){x->root, x->c.write};
    x->conf = (struct conf){.mounts = x->mounts,
        .nmounts = FX_MOUNTS,
        .rules = &x->rule,
        .nrules = 1,
        .keep_free = x->c.keep_free};
    x->tier = (struct conf_tier){x->c.memory ? CONF_MEM : CONF_SSD, INT64_C(256) << 20};
    cleanup_free char *blocks = path_join(x->dir, "blocks");
    assert_int_equal(file_mkdirs(x->stage_dir, 0700, &e), 0);
    assert_int_equal(file_mkdirs(blocks, 0700, &e), 0);
    struct cache_conf cc = {.dir = blocks,
        .tiers = &x->tier,
        .ntiers = 1,
        .fetch_threads = 2,
        .source = {fx_fetch, x},
        .keep_free = x->c.keep_free};
    x->cache = cache_new(&cc, &e);
    assert_non_null(x->cache);
    fx_start(x, false);
    return x;
}

void fx_restart(struct fx *x, bool keep)
{
    fx_stop(x, false);
    if (!keep)
        assert_int_equal(unlink(x->index_path), 0);
    fx_start(x, keep);
}

void fx_free(struct fx *x)
{
    struct err e = ERR_INIT;
    fx_stop(x, true);
    assert_int_equal(x->registered, 0); /* what the kernel got, it gave back */
    cache_free(x->cache);
    for (unsigned i = 0; i < FX_MOUNTS; i++) {
        fake_store_free(x->fake[i]);
        free(x->mounts[i].mount_point);
        free(x->mounts[i].path);
    }
    assert_int_equal(file_remove_tree(x->dir, &e), 0);
    free(x->dir);
    free(x->stage_dir);
    free(x->index_path);
    free(x);
}

/* -- names ------------------------------------------------------------------------------------ */

int fx_lookup(struct fx *x, const char *path, struct inode *n)
{
    struct inode at = {.ino = INODE_ROOT};
    struct err e = ERR_INIT;
    cleanup_free char *copy = xstrdup(path);
    char *rest = copy;
    for (char *name; (name = strsep(&rest, "/"));)
        if (tree_lookup(x->tree, at.ino, name, &at, &e))
            return err_errno(&e);
    if (n)
        *n = at;
    return 0;
}

uint64_t fx_ino(struct fx *x, const char *path)
{
    struct inode n;
    assert_int_equal(fx_lookup(x, path, &n), 0);
    return n.ino;
}

struct inode fx_inode(struct fx *x, uint64_t ino)
{
    struct inode n;
    assert_int_equal(inodes_get(x->inodes, ino, &n), 0);
    return n;
}

uint64_t fx_parent(struct fx *x, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
    *name = slash ? slash + 1 : path;
    return slash ? fx_ino(x, dir) : INODE_ROOT;
}

void fx_expire(struct fx *x, const char *path)
{
    static const struct inode never;
    const char *name;
    struct inode n;
    uint64_t dir = fx_parent(x, path, &name);
    inodes_unlist(x->inodes, dir);
    if (inodes_find(x->inodes, dir, name, &n))
        inodes_set(x->inodes, n.ino, INODES_SYNCED, &never, 0, 0);
}

static struct fake_store *store_of(struct fx *x, const char *path, const char **rest)
{
    for (unsigned i = 0; i < FX_MOUNTS; i++) {
        size_t len = strlen(mount_names[i]);
        if (strncmp(path, mount_names[i], len) == 0 && path[len] == '/') {
            *rest = path + len + 1;
            return x->fake[i];
        }
    }
    fail_msg("%s is in no mount", path);
    return NULL;
}

void fx_put(struct fx *x, const char *path, const char *text)
{
    const char *rest;
    struct fake_store *f = store_of(x, path, &rest);
    fake_store_write(f, rest, text);
    for (cleanup_free char *at = xstrdup(path); strchr(at, '/'); *strrchr(at, '/') = '\0') {
        const char *name = strrchr(at, '/') + 1;
        cleanup_free char *dir = xstrndup(at, (size_t)(name - 1 - at));
        if (fx_lookup(x, dir, NULL) == 0)
            fx_expire(x, at);
    }
}

static struct new_name new_name(struct fx *x, const char *path, uint32_t mode, bool resent)
{
    struct new_name w = {.mode = mode, .umask = 022, .uid = 11, .gid = 22, .resent = resent};
    w.request = resent ? x->request : ++x->request;
    w.dir = fx_parent(x, path, &w.name);
    return w;
}

int fx_mkdir(struct fx *x, const char *path, bool resent)
{
    struct err e = ERR_INIT;
    struct inode n;
    const struct new_name w = new_name(x, path, 0755, resent);
    return files_mkdir(x->files, &w, &n, &e) ? err_errno(&e) : 0;
}

int fx_unlink(struct fx *x, const char *path, bool resent)
{
    struct err e = ERR_INIT;
    const char *name;
    uint64_t dir = fx_parent(x, path, &name);
    return files_unlink(x->files, dir, name, resent, &e) ? err_errno(&e) : 0;
}

int fx_rmdir(struct fx *x, const char *path, bool resent)
{
    struct err e = ERR_INIT;
    const char *name;
    uint64_t dir = fx_parent(x, path, &name);
    return files_rmdir(x->files, dir, name, resent, &e) ? err_errno(&e) : 0;
}

int fx_rename(struct fx *x, const char *from, const char *to, unsigned flags, bool resent)
{
    struct err e = ERR_INIT;
    struct rename_request r = {.flags = flags, .resent = resent};
    r.dir = fx_parent(x, from, &r.name);
    r.newdir = fx_parent(x, to, &r.newname);
    return files_rename(x->files, &r, &e) ? err_errno(&e) : 0;
}

/* -- files ------------------------------------------------------------------------------------ */

int fx_open(struct fx *x, const char *path, int flags, struct fx_handle *h)
{
    struct err e = ERR_INIT;
    struct inode n;
    int rc = fx_lookup(x, path, &n);
    if (rc)
        return rc;
    *h = (struct fx_handle){.ino = n.ino, .write = (flags & O_ACCMODE) != O_RDONLY};
    inodes_ref(x->inodes, n.ino); /* of a look-up: the kernel knows it until fx_close() */
    return files_open(x->files, h->ino, flags, &h->backing, &e) ? err_errno(&e) : 0;
}

int fx_create(struct fx *x, const char *path, int flags, bool resent, struct fx_handle *h)
{
    struct err e = ERR_INIT;
    struct inode n;
    const struct new_name w = new_name(x, path, 0755, resent);
    if (files_create(x->files, &w, flags, &n, &e))
        return err_errno(&e);
    *h = (struct fx_handle){.ino = n.ino, .write = (flags & O_ACCMODE) != O_RDONLY};
    inodes_ref(x->inodes, n.ino);
    return 0;
}

int fx_close(struct fx *x, struct fx_handle *h)
{
    struct err e = ERR_INIT;
    int rc = h->write && files_save(x->files, h->ino, true, &e) ? err_errno(&e) : 0;
    files_close(x->files, h->ino, h->write, false);
    inodes_forget(x->inodes, h->ino, 1);
    return rc;
}

int fx_write(struct fx *x, uint64_t ino, uint64_t off, const char *text)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    if (!f)
        return err_errno(&e);
    ssize_t n = file_pwrite(f, text, strlen(text), off, &e);
    files_put(f);
    if (n < 0)
        return err_errno(&e);
    assert_int_equal(n, strlen(text));
    return 0;
}

int fx_truncate(struct fx *x, uint64_t ino, uint64_t size, bool open)
{
    struct err e = ERR_INIT;
    struct inode n, to = {.size = size};
    return files_setattr(x->files, ino, INODES_SIZE, &to, open, &n, &e) ? err_errno(&e) : 0;
}

void fx_make(struct fx *x, const char *path, const char *text)
{
    struct fx_handle h;
    assert_int_equal(fx_create(x, path, O_WRONLY, false, &h), 0);
    assert_int_equal(fx_write(x, h.ino, 0, text), 0);
    assert_int_equal(fx_close(x, &h), 0);
}

char *fx_read(struct fx *x, uint64_t ino, int *errnum)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    size_t size = 8u << 20;
    char *buf = xmalloc(size);
    ssize_t n = f ? file_pread(f, buf, size - 1, 0, &e) : -1;
    if (f)
        files_put(f);
    if (n < 0) {
        if (errnum)
            *errnum = err_errno(&e);
        free(buf);
        return NULL;
    }
    buf[n] = '\0';
    return buf;
}

void fx_is(struct fx *x, uint64_t ino, const char *text)
{
    int errnum = 0;
    cleanup_free char *has = fx_read(x, ino, &errnum);
    assert_int_equal(errnum, 0);
    assert_string_equal(has, text);
}

void fx_path_is(struct fx *x, const char *path, const char *text)
{
    fx_is(x, fx_ino(x, path), text);
}

void fx_fill(struct fx *x, const char *path)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, fx_ino(x, path), &e);
    assert_non_null(f);
    assert_int_equal(file_fill(f, 0, UINT64_MAX / 4, &e), 0);
    files_put(f);
}

void fx_store_is(struct fx *x, const char *path, const char *text)
{
    const char *rest;
    struct fake_store *f = store_of(x, path, &rest);
    cleanup_free char *has = fake_store_text(f, rest);
    if (!text) {
        assert_false(fake_store_has(f, rest));
        return;
    }
    assert_non_null(has);
    assert_string_equal(has, text);
}

unsigned fx_staged(struct fx *x)
{
    unsigned n = 0;
    DIR *d = opendir(x->stage_dir);
    assert_non_null(d);
    for (struct dirent *de; (de = readdir(d));)
        n += de->d_name[0] == 's';
    closedir(d);
    return n;
}

char *fx_staging_file(struct fx *x, uint64_t ino)
{
    const struct stage_name n = {inodes_epoch(x->inodes), ino, fx_inode(x, ino).generation};
    char name[STAGE_NAME_MAX];
    stage_name_format(&n, name);
    return path_join(x->stage_dir, name);
}

char *fx_sidecar(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    cleanup_free char *content = fx_staging_file(x, ino), *path = xasprintf("%s.path", content);
    cleanup_free char *text = file_read(path, 8192, NULL, &e);
    static struct sidecar s;
    if (!text || sidecar_parse(text, strlen(text), path, &s, &e))
        return NULL;
    return xasprintf("%d\n%s\n%s\n", sidecar_find_mount(&s, &x->conf), s.version, s.path);
}

bool fx_fd_is(int fd, const char *end)
{
    char self[32], path[4096];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(self, path, sizeof path - 1);
    size_t len = strlen(end);
    path[MAX(n, 0)] = '\0';
    return n >= (ssize_t)len && strcmp(path + n - len, end) == 0;
}

bool fx_is_dirty(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    assert_non_null(f);
    bool dirty = file_is_dirty(f);
    files_put(f);
    /* the index says the same, for the next process */
    assert_int_equal(dirty, !!(fx_inode(x, ino).flags & INODE_DIRTY));
    return dirty;
}

uint64_t fx_pinned(struct fx *x)
{
    struct cache_stats s;
    cache_stats(x->cache, &s);
    return s.pinned_files;
}
