/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/recover.h"

#include "fuse/file/adopt.h"
#include "fuse/file/content.h"
#include "fuse/file/kept.h"
#include "fuse/file/sidecar.h"
#include "fuse/file/stage.h"
#include "fuse/file/stage_name.h"
#include "fuse/file/upload.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct leftover {
    char *name;
    struct timespec written;
};

/* -- names ------------------------------------------------------------------------------------ */

/* Staged by an earlier version, for the kernel's inodes of now. */
static bool recover_rename(const char *dir, const char *name, struct stage_name n, uint64_t epoch)
{
    char now[STAGE_NAME_MAX];
    n.epoch = epoch;
    stage_name_format(&n, now);
    return stage_move(dir, name, now) == 0;
}

static bool recover_keep(struct files *fs, const char *name, struct sidecar *note, const char *why)
{
    const char *dir = files_config(fs)->stage_dir;
    struct err e = ERR_INIT;
    if (note)
        snprintf(note->why, sizeof note->why, "%s", why);
    if (kept_add(dir, name, note, &e)) {
        log_kv(LOG_ERROR, "a file that was written before a crash stays where it is", "path",
            note ? note->path : name, "error", e.msg, NULL);
        return false;
    }
    log_kv(LOG_ERROR, "a file that was written before a crash is kept aside", "path",
        note ? note->path : name, "why", why, "kept", name, NULL);
    return true;
}

/* Is there a mount that may be written to? A store that cannot be used now is no reason to say no.
 */
static bool recover_has_home(const struct files_conf *c, int mount)
{
    return mount >= 0 && (size_t)mount < c->conf->nmounts && !c->conf->read_only
        && !c->conf->mounts[mount].read_only;
}

/* Its mount is gone from the dataset, or for readers only, and the kernel may know its inode: the
 * name is the store's. */
static void recover_uproot(struct files *fs, const char *name, uint64_t ino)
{
    const struct files_conf *c = files_config(fs);
    cleanup_free char *note_file = xasprintf("%s/%s" STAGE_NOTE, c->stage_dir, name);
    struct err e = ERR_INIT;
    struct sidecar note;
    if (sidecar_read(note_file, &note, &e) == 0 && recover_keep(fs, name, &note, KEPT_HOMELESS))
        tree_detach(c->tree, ino);
}

/* The process before us may have saved or removed it and been killed before it was done with it: no
 * close comes that would do the rest. */
static void recover_finish(struct file *f)
{
    struct inode n;
    file_lock_state(f);
    bool unwanted = file_inode(f, &n, NULL) == 0 && (n.flags & INODE_UNLINKED) && !n.opens;
    if (unwanted)
        file_discard(f);
    else if (!file_is_dirty(f))
        file_finish(f);
    pthread_mutex_unlock(&f->state_lock);
}

/* The process before us may have renamed it, and been killed before its note said so. */
static void recover_note(struct file *f)
{
    struct err e = ERR_INIT;
    struct sidecar note;
    struct inode n;
    struct store *store;
    unsigned mount;
    char path[INODE_PATH_MAX];
    if (file_is_dirty(f) && file_inode(f, &n, NULL) == 0
        && tree_where(file_conf(f)->tree, f->ino, &store, &mount, path, &e) == 0
        && stage_read_note(f, &note, &e) == 0
        && (strcmp(note.path, path) != 0 || strcmp(note.version, n.version) != 0))
        stage_repath(f, NULL);
}

/* Is this the staging file of an inode that the index knows? */
static bool recover_is_known(struct files *fs, const char *name)
{
    const struct files_conf *c = files_config(fs);
    uint64_t epoch = inodes_epoch(c->inodes);
    struct stage_name s;
    struct inode n;
    struct err e = ERR_INIT;
    char now[STAGE_NAME_MAX];
    if (!stage_name_parse(name, &s) || (s.epoch && s.epoch != epoch)
        || inodes_get(c->inodes, s.ino, &n) || n.generation != s.generation
        || !(n.flags & INODE_STAGED) || (!s.epoch && !recover_rename(c->stage_dir, name, s, epoch)))
        return false;
    if ((n.flags & INODE_DIRTY) && !recover_has_home(c, (int)n.mount)) {
        s.epoch = epoch; /* as it is called by now */
        stage_name_format(&s, now);
        recover_uproot(fs, now, s.ino);
        return true;
    }
    struct file *f = files_get(fs, s.ino, &e);
    if (!f)
        return false;
    recover_finish(f);
    recover_note(f);
    files_put(f);
    return true;
}

/* A note without its content, or one that was never finished. */
static void recover_tidy(const char *dir, const char *name)
{
    size_t len = strlen(name), end = strlen(STAGE_NOTE);
    cleanup_free char *file = path_join(dir, name);
    cleanup_free char *content = xstrndup(file, strlen(file) - MIN(end, len));
    if (len > end && strcmp(name + len - end, STAGE_NOTE) == 0 && access(content, F_OK) == 0)
        return;
    unlink(file);
}

/* -- what becomes of one ---------------------------------------------------------------------- */

/* The machine went down since: is it what its writer asked to save? What he wrote behind that may
 * be torn, and nobody was told that it is kept: it is cut off. */
static bool recover_is_whole(int fd, struct stat *st, const struct sidecar *note)
{
    struct err e = ERR_INIT;
    uint32_t crc;
    if (!note->asked || note->asked_len > (uint64_t)st->st_size
        || content_crc(fd, note->asked_len, &crc, &e) || crc != note->asked_crc)
        return false;
    if (note->asked_len < (uint64_t)st->st_size
        && (ftruncate(fd, (off_t)note->asked_len) || fstat(fd, st)))
        return false;
    return true;
}

static void recover_one(struct files *fs, const char *name)
{
    const struct files_conf *c = files_config(fs);
    cleanup_free char *file = path_join(c->stage_dir, name),
                      *note_file = xasprintf("%s" STAGE_NOTE, file);
    struct err e = ERR_INIT;
    struct sidecar note;
    struct stat st;
    char boot[BOOT_ID_LEN];
    /* saved or removed before the crash: it is not wanted any more */
    if (access(note_file, F_OK) && errno == ENOENT) {
        unlink(file);
        return;
    }
    cleanup_fd int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        log_kv(
            LOG_ERROR, "a file that was written before a crash cannot be read", "file", file, NULL);
        return;
    }
    if (sidecar_read(note_file, &note, &e)) {
        log_kv(LOG_ERROR, "the note beside a staged file is damaged", "error", e.msg, NULL);
        recover_keep(fs, name, NULL, KEPT_UNREADABLE);
        return;
    }
    boot_id(boot, sizeof boot);
    int mount = sidecar_find_mount(&note, c->conf);
    if (*note.boot && strcmp(note.boot, boot) != 0 && !recover_is_whole(fd, &st, &note)) {
        if (st.st_size == 0)
            stage_drop(c->stage_dir, name); /* there is nothing to lose */
        else
            recover_keep(fs, name, &note, KEPT_UNFINISHED);
    } else if (!recover_has_home(c, mount)) {
        recover_keep(fs, name, &note, KEPT_HOMELESS);
    } else if (adopt_file(fs, (unsigned)mount, name, &note, &st, &e)) {
        log_kv(LOG_ERROR, "a file that was written before a crash has no place", "path", note.path,
            "error", e.msg, NULL);
        recover_keep(fs, name, &note, KEPT_CONFLICT);
    } else {
        log_kv(LOG_INFO, "a file that was written before a crash is not in the store yet", "path",
            note.path, NULL);
    }
}

/* -- all of them ------------------------------------------------------------------------------ */

static int newest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct leftover *)a)->written,
                          *y = &((const struct leftover *)b)->written;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

/* What earlier versions kept aside, in a directory that nobody was told of. */
static void recover_lost(const char *stage_dir)
{
    cleanup_free char *lost = path_join(stage_dir, "lost"), *kept = kept_dir(stage_dir);
    struct err e = ERR_INIT;
    DIR *d = opendir(lost);
    if (!d)
        return;
    if (file_mkdirs(kept, 0700, &e) == 0)
        for (struct dirent *de; (de = readdir(d));)
            if (*de->d_name != '.') {
                cleanup_free char *from = path_join(lost, de->d_name),
                                  *to = path_join(kept, de->d_name);
                if (rename(from, to))
                    log_kv(LOG_ERROR, "a kept file stays where it is", "file", from, NULL);
            }
    closedir(d);
    rmdir(lost);
}

/* The dataset may have its mount again, for writing. */
static void recover_homeless(const struct files_conf *c)
{
    cleanup_free char *kept = kept_dir(c->stage_dir);
    DIR *d = opendir(kept);
    for (struct dirent *de; d && (de = readdir(d));) {
        cleanup_free char *note_file = xasprintf("%s/%s" STAGE_NOTE, kept, de->d_name);
        struct sidecar note;
        struct err e = ERR_INIT;
        if (stage_name_is_content(de->d_name) && sidecar_read(note_file, &note, &e) == 0
            && strcmp(note.why, KEPT_HOMELESS) == 0
            && recover_has_home(c, sidecar_find_mount(&note, c->conf)))
            kept_return(c->stage_dir, de->d_name);
    }
    if (d)
        closedir(d);
}

/* What was moved to the kept copies by a process that was killed before its index knew: the name is
 * the store's again. */
static void recover_kept(const struct files_conf *c)
{
    cleanup_free char *kept = kept_dir(c->stage_dir);
    DIR *d = opendir(kept);
    for (struct dirent *de; d && (de = readdir(d));) {
        struct stage_name s;
        struct inode n;
        if (stage_name_parse(de->d_name, &s) && s.epoch == inodes_epoch(c->inodes)
            && inodes_get(c->inodes, s.ino, &n) == 0 && n.generation == s.generation
            && (n.flags & INODE_STAGED))
            tree_detach(c->tree, s.ino);
    }
    if (d)
        closedir(d);
}

static size_t recover_scan(struct files *fs, struct leftover **out)
{
    const char *dir = files_config(fs)->stage_dir;
    struct stat st;
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *de; d && (de = readdir(d));) {
        if (*de->d_name != '.' && strchr(de->d_name, '.'))
            recover_tidy(dir, de->d_name);
        if (!stage_name_is_content(de->d_name) || fstatat(dirfd(d), de->d_name, &st, 0))
            continue;
        *out = xrealloc(*out, (n + 1) * sizeof **out);
        (*out)[n++] = (struct leftover){xstrdup(de->d_name), st.st_mtim};
    }
    if (d)
        closedir(d);
    return n;
}

void recover_begin(struct files *fs)
{
    struct leftover *left = NULL;
    recover_lost(files_config(fs)->stage_dir);
    recover_homeless(files_config(fs));
    recover_kept(files_config(fs));
    size_t n = recover_scan(fs, &left), unknown = 0;
    for (size_t i = 0; i < n; i++) {
        if (recover_is_known(fs, left[i].name))
            free(left[i].name);
        else
            left[unknown++] = left[i];
    }
    if (unknown)
        qsort(left, unknown, sizeof *left, newest_first); /* of two for one path */
    for (size_t i = 0; i < unknown; i++) {
        recover_one(fs, left[i].name);
        free(left[i].name);
    }
    free(left);
    inodes_reclaim(files_config(fs)->inodes);
}
