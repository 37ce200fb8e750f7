/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/recover.h"

#include "fuse/file/sidecar.h"
#include "fuse/file/stage_name.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Content without an inode: <stage dir>/0-<time>-<name that it had>. */
static bool is_left(const char *name)
{
    return strncmp(name, STAGE_NAME_LEFT, strlen(STAGE_NAME_LEFT)) == 0;
}

static char *sidecar_path(const char *dir, const char *name)
{
    return xasprintf("%s/%s" STAGE_NOTE, dir, name);
}

static int read_sidecar(const char *file, struct sidecar *out, struct err *e)
{
    size_t len;
    cleanup_free char *text = file_read(file, SIDECAR_MAX, &len, e);
    return text ? sidecar_parse(text, len, file, out, e) : -1;
}

/* Uploads it where it belongs, unless that file was changed in the store since: then it is kept
 * aside. */
static int recover_file(struct files *fs, struct store **stores, const char *name, struct err *e)
{
    const struct files_conf *c = files_config(fs);
    cleanup_free char *file = path_join(c->stage_dir, name);
    cleanup_free char *sidecar = sidecar_path(c->stage_dir, name);
    struct sidecar where;
    struct store_stat st = {0};
    struct stat content;
    if (read_sidecar(sidecar, &where, e))
        return -1;
    int mount = sidecar_find_mount(&where, c->conf);
    if (mount < 0)
        return err_set(e, ERR_INVALID,
            "\"%s\" is of a mount that is gone: it is in the store once the dataset has that mountPoint again",
            where.path);
    struct store *store = stores[mount];
    cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &content))
        return err_sys(e, errno, "open %s", file);
    if (!store)
        return err_set(e, ERR_RETRY, "the store of mount %d cannot be used", mount);
    if (store_stat_path(store, where.path, &st, e) && e->cls != ERR_NOTFOUND)
        return -1;
    if (strcmp(st.version, where.version) != 0) {
        cleanup_free char *kept = xasprintf("%s/lost/%s", c->stage_dir, name);
        cleanup_free char *kept_sidecar = xasprintf("%s" STAGE_NOTE, kept);
        cleanup_free char *dir = xasprintf("%s/lost", c->stage_dir);
        if (file_mkdirs(dir, 0700, e) || rename(file, kept) || rename(sidecar, kept_sidecar))
            return err_sys(e, errno, "keep %s", file);
        log_kv(LOG_ERROR,
            "a file that was written before a crash was changed by somebody else since: our content is kept aside",
            "path", where.path, "kept", kept, NULL);
        return 0;
    }
    if (store_put(store, where.path,
            &(struct store_put){.fd = fd, .len = (uint64_t)content.st_size}, &st, e))
        return -1;
    unlink(file);
    unlink(sidecar);
    log_kv(LOG_INFO, "a file that was written before a crash is in the store now", "path",
        where.path, NULL);
    return 0;
}

/* Staged by an earlier version, for the kernel's inodes of now. */
static bool recover_rename(const char *dir, const char *name, struct stage_name n, uint64_t epoch)
{
    char now[STAGE_NAME_MAX];
    n.epoch = epoch;
    stage_name_format(&n, now);
    cleanup_free char *from = path_join(dir, name), *to = path_join(dir, now),
                      *from_sidecar = sidecar_path(dir, name), *to_sidecar = sidecar_path(dir, now);
    if (link(from_sidecar, to_sidecar) && errno != ENOENT && errno != EEXIST)
        return false;
    if (rename(from, to)) /* never without its sidecar */
        return false;
    unlink(from_sidecar);
    return true;
}

/* Is this the staging file of an inode that the index knows? */
static bool recover_is_known(struct files *fs, const char *name)
{
    const struct files_conf *c = files_config(fs);
    uint64_t epoch = inodes_epoch(c->inodes);
    struct stage_name s;
    struct inode n;
    struct err e = ERR_INIT;
    if (!stage_name_parse(name, &s) || (s.epoch && s.epoch != epoch)
        || inodes_get(c->inodes, s.ino, &n) || n.generation != s.generation
        || !(n.flags & INODE_STAGED) || (!s.epoch && !recover_rename(c->stage_dir, name, s, epoch)))
        return false;
    struct file *f = files_get(fs, s.ino, &e);
    if (f)
        files_put(f);
    return f != NULL;
}

/* A sidecar without its content, or one that was never finished. */
static void recover_tidy(const char *dir, const char *name)
{
    size_t len = strlen(name), end = strlen(STAGE_NOTE);
    cleanup_free char *file = path_join(dir, name);
    cleanup_free char *content = xstrndup(file, strlen(file) - MIN(end, len));
    if (len > end && strcmp(name + len - end, STAGE_NOTE) == 0 && access(content, F_OK) == 0)
        return;
    unlink(file);
}

/* Gives content without an inode a name that no inode of this index will have: their numbers begin
 * anew, and a new file would be staged over it. */
static int recover_set_aside(const char *dir, const char *name, struct err *e)
{
    cleanup_free char *from = path_join(dir, name), *from_sidecar = sidecar_path(dir, name),
                      *to = xasprintf(
                          "%s/" STAGE_NAME_LEFT "%" PRId64 "-%s", dir, clock_real_ns(), name),
                      *to_sidecar = xasprintf("%s" STAGE_NOTE, to);
    if (access(from_sidecar, F_OK)) { /* removed before the crash: it is not wanted any more */
        unlink(from);
        return 0;
    }
    if (link(from_sidecar, to_sidecar) || rename(from, to)) /* never without its sidecar */
        return err_sys(e, errno, "set %s aside", from);
    unlink(from_sidecar);
    return 0;
}

void recover_begin(struct files *fs)
{
    const char *dir = files_config(fs)->stage_dir;
    struct err e = ERR_INIT;
    DIR *d = opendir(dir);
    for (struct dirent *de; d && (de = readdir(d));) {
        if (*de->d_name != '.' && strchr(de->d_name, '.'))
            recover_tidy(dir, de->d_name);
        else if (stage_name_is_content(de->d_name) && !is_left(de->d_name)
            && !recover_is_known(fs, de->d_name) && recover_set_aside(dir, de->d_name, &e))
            log_kv(LOG_ERROR, "a file that was written before a crash stays where it is", "error",
                e.msg, NULL);
    }
    if (d)
        closedir(d);
}

size_t recover_all(struct files *fs, struct store **stores)
{
    size_t left = 0;
    DIR *d = opendir(files_config(fs)->stage_dir);
    for (struct dirent *de; d && (de = readdir(d));) {
        struct err e = ERR_INIT;
        if (!is_left(de->d_name) || strchr(de->d_name, '.')
            || recover_file(fs, stores, de->d_name, &e) == 0)
            continue;
        left++;
        log_kv(LOG_WARN, "a file that was written before a crash is not in the store yet", "file",
            de->d_name, "error", e.msg, NULL);
    }
    if (d)
        closedir(d);
    return left;
}
