/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node_dirs.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/names.h"
#include "lib/http/metric.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DIR_VOLUMES "volumes"
#define DIR_WORKERS "workers"
#define DIR_TRASH   "trash"
/* below a volume's directory: what the client has written and not stored yet */
#define DIR_STAGE VOLUME_CACHE "/stage"
/* Whoever fills it may write what he likes there: more names than that are not looked at. */
#define STAGE_LOOK_MAX 1000

METRIC_GAUGE(csi_spared, "millrace_csi_spared_directories", "",
    "Unused directories of volumes that are not removed, as written files lie there that are not in the store.");

struct node_dir {
    const char *root; /* one of the two */
    unsigned users;
    int64_t unused_ns; /* since when, if users is 0 */
    bool spared;       /* it was to go, and holds what a client wrote */
};

struct node_dirs {
    char *root, *earlier; /* earlier: NULL if none */
    int64_t keep_ns;
    pthread_mutex_t mu;  /* held while a directory is made or moved away */
    struct map *by_path; /* mu: path below root → struct node_dir */
    unsigned trashed;    /* mu: numbers the trash */
};

/* Depth of the directories: volumes/ns/uid 2, workers/ns/uid/pod 3. */
static void find_dirs(struct node_dirs *p, const char *root, const char *below, int depth)
{
    cleanup_free char *path = path_join(root, below);
    if (depth == 0) {
        struct node_dir *found = xcalloc(1, sizeof *found);
        found->root = root;
        found->unused_ns = clock_mono_ns();
        map_put(p->by_path, below, found);
        return;
    }
    DIR *d = opendir(path);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
            continue;
        cleanup_free char *next = path_join(below, entry->d_name);
        find_dirs(p, root, next, depth - 1);
    }
    closedir(d);
}

static void find_all(struct node_dirs *p, const char *root)
{
    find_dirs(p, root, DIR_VOLUMES, 2);
    find_dirs(p, root, DIR_WORKERS, 3);
}

struct node_dirs *node_dirs_new(
    const char *root, const char *earlier, int64_t keep_ns, struct err *e)
{
    struct node_dirs *p = xcalloc(1, sizeof *p);
    p->root = xstrdup(root);
    p->earlier = strcmp(root, earlier) == 0 ? NULL : xstrdup(earlier);
    p->keep_ns = keep_ns;
    p->by_path = map_new(free);
    metric_set(metric_of(&csi_spared), 0);
    pthread_mutex_init(&p->mu, NULL);
    const char *dirs[] = {DIR_VOLUMES, DIR_WORKERS, DIR_TRASH};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        cleanup_free char *path = path_join(root, dirs[i]);
        if (file_mkdirs(path, 0700, e)) {
            node_dirs_free(p);
            return NULL;
        }
    }
    find_all(p, p->root);
    if (p->earlier)
        find_all(p, p->earlier); /* the last word: a living client has its socket there */
    return p;
}

void node_dirs_free(struct node_dirs *p)
{
    if (!p)
        return;
    map_free(p->by_path);
    pthread_mutex_destroy(&p->mu);
    free(p->root);
    free(p->earlier);
    free(p);
}

static char *below_root(const struct volume_context *s)
{
    if (s->kind == VOLUME_KIND_WORKER)
        return xasprintf("%s/%s/%s/%s", DIR_WORKERS, s->ns, s->uid, s->pod);
    return xasprintf("%s/%s/%s", DIR_VOLUMES, s->ns, s->uid);
}

struct owner {
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

static int set_owner(const char *path, struct owner o, struct err *e)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    if (geteuid() == 0 && fchown(fd, o.uid, o.gid))
        return err_sys(e, errno, "chown %s", path);
    return fchmod(fd, o.mode) ? err_sys(e, errno, "chmod %s", path) : 0;
}

/* Makes the directory, unless it is there: then its owner stays, who may be a group's. */
static int make_owned(const char *path, struct owner o, struct err *e)
{
    struct stat st;
    if (mkdir(path, 0700) == 0)
        return set_owner(path, o, e);
    if (errno != EEXIST)
        return err_sys(e, errno, "mkdir %s", path);
    if (lstat(path, &st))
        return err_sys(e, errno, "stat %s", path);
    return S_ISDIR(st.st_mode) ? 0 : err_sys(e, ENOTDIR, "open %s", path);
}

static void set_spared(struct node_dir *dir, bool spared)
{
    metric_add(metric_of(&csi_spared), (int64_t)spared - dir->spared);
    dir->spared = spared;
}

static void add_user(struct node_dirs *p, const char *below)
{
    mutex_assert_held(&p->mu);
    struct node_dir *dir = map_get(p->by_path, below);
    if (!dir) {
        map_put(p->by_path, below, dir = xcalloc(1, sizeof *dir));
        dir->root = p->root;
    }
    dir->users++;
    set_spared(dir, false);
}

void node_dirs_hold(struct node_dirs *p, const struct volume_context *s)
{
    cleanup_free char *below = below_root(s);
    pthread_mutex_lock(&p->mu);
    add_user(p, below);
    pthread_mutex_unlock(&p->mu);
}

char *node_dirs_get(struct node_dirs *p, const struct volume_context *s, struct err *e)
{
    cleanup_free char *below = below_root(s);
    uid_t user = s->kind == VOLUME_KIND_PROCESS ? 0 : POD_UID;
    pthread_mutex_lock(&p->mu);
    struct node_dir *dir = map_get(p->by_path, below);
    cleanup_free char *path = path_join(dir ? dir->root : p->root, below),
                      *cache = path_join(path, VOLUME_CACHE);
    cleanup_free char *above = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = file_mkdirs(above, 0700, e);
    if (rc == 0 && make_owned(path, (struct owner){0, (gid_t)user, 0750}, e) == 0
        && make_owned(cache, (struct owner){user, (gid_t)user, 0700}, e) == 0)
        add_user(p, below);
    else
        rc = -1;
    pthread_mutex_unlock(&p->mu);
    return rc ? NULL : steal(&path);
}

int node_dirs_give(const char *path, gid_t group, struct err *e)
{
    cleanup_free char *cache = path_join(path, VOLUME_CACHE);
    return set_owner(path, (struct owner){0, group, 0750}, e)
            || set_owner(cache, (struct owner){0, group, S_ISGID | 0770}, e)
        ? -1
        : 0;
}

void node_dirs_put(struct node_dirs *p, const struct volume_context *s)
{
    cleanup_free char *below = below_root(s);
    pthread_mutex_lock(&p->mu);
    struct node_dir *dir = map_get(p->by_path, below);
    if (dir && dir->users && --dir->users == 0)
        dir->unused_ns = clock_mono_ns();
    pthread_mutex_unlock(&p->mu);
}

/* rmdir of path and of its parents below root, as far as they are empty. */
static void prune(const char *root, const char *below)
{
    cleanup_free char *copy = xstrdup(below);
    for (char *slash; (slash = strrchr(copy, '/'));) {
        *slash = '\0';
        cleanup_free char *path = path_join(root, copy);
        if (!strchr(copy, '/') || rmdir(path))
            return;
    }
}

static int open_beneath(const char *path, const char *below)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, below, &how, sizeof how);
}

static bool is_dir_at(int dir, const struct dirent *entry)
{
    struct stat st;
    return entry->d_type == DT_DIR
        || (entry->d_type == DT_UNKNOWN
            && fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
}

/* Is there anything but directories? What cannot be read may hold something. */
static bool has_files(const char *path, const char *below)
{
    cleanup_fd int fd = open_beneath(path, below);
    if (fd < 0)
        return errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EXDEV;
    DIR *d = fdopendir(fd);
    if (!d)
        return true;
    fd = -1;
    bool found = false;
    size_t looked = 0;
    errno = 0;
    for (struct dirent *entry; !found && (entry = readdir(d));)
        found = !is_dir_at(dirfd(d), entry) || ++looked > STAGE_LOOK_MAX;
    found |= errno != 0;
    closedir(d);
    return found;
}

/* Is there anything that a client of this version or an earlier one has yet to do or give back? */
static bool has_written(const char *path)
{
    return has_files(path, DIR_STAGE) || has_files(path, DIR_STAGE "/kept")
        || has_files(path, DIR_STAGE "/moves") || has_files(path, DIR_STAGE "/lost");
}

/* Does it hold what exists nowhere else? It stays then, until a client has stored it, or a person
 * has removed it. Only clients write. */
static bool spare(struct node_dir *dir, const char *below, const char *path)
{
    bool holds = strncmp(below, DIR_VOLUMES "/", strlen(DIR_VOLUMES "/")) == 0 && has_written(path);
    if (holds && !dir->spared)
        log_kv(LOG_WARN,
            "an unused directory is not removed: files were written there that are not in the store; mount the dataset on this node again, or remove them",
            "path", path, NULL);
    set_spared(dir, holds);
    return holds;
}

/* Moves what is to go into the trash: under the lock, so that nobody gets it again, and quick. */
static void discard_unused(struct node_dirs *p, bool all)
{
    int64_t now = clock_mono_ns();
    const char *below;
    void *value;
    pthread_mutex_lock(&p->mu);
    for (size_t i = 0; map_next(p->by_path, &i, &below, &value);) {
        struct node_dir *dir = value;
        int64_t keep_ns = dir->root == p->root ? p->keep_ns : 0;
        if (dir->users || (!all && now < dir->unused_ns + keep_ns))
            continue;
        cleanup_free char *from = path_join(dir->root, below),
                          *trash = path_join(dir->root, DIR_TRASH);
        if (spare(dir, below, from))
            continue;
        mkdir(trash, 0700);
        cleanup_free char *to = xasprintf(
            "%s/%s/%lld.%u", dir->root, DIR_TRASH, (long long)clock_real_ns(), p->trashed++);
        if (rename(from, to) && access(from, F_OK) == 0) {
            log_kv(LOG_WARN, "an unused directory cannot be removed", "path", from, "error",
                strerror(errno), NULL);
            continue;
        }
        log_kv(LOG_INFO, "removing an unused directory", "path", from, NULL);
        prune(dir->root, below);
        map_del(p->by_path, below);
    }
    pthread_mutex_unlock(&p->mu);
}

static void empty_trash(const char *root, bool all)
{
    cleanup_free char *trash = path_join(root, DIR_TRASH);
    DIR *d = opendir(trash);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        struct err e = ERR_INIT;
        cleanup_free char *path = path_join(trash, entry->d_name);
        if (file_remove_tree(path, &e))
            log_kv(LOG_WARN, "trash cannot be removed", "error", e.msg, NULL);
    }
    if (d)
        closedir(d);
    const char *dirs[] = {DIR_VOLUMES, DIR_WORKERS, DIR_TRASH};
    for (size_t i = 0; all && i < ARRAY_LEN(dirs); i++) {
        cleanup_free char *path = path_join(root, dirs[i]);
        rmdir(path);
    }
}

void node_dirs_collect(struct node_dirs *p, bool all)
{
    discard_unused(p, all);
    empty_trash(p->root, all);
    if (p->earlier)
        empty_trash(p->earlier, true); /* nothing new comes there */
}
