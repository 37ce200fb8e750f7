/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that users set, in a directory. The time is the file's own. Owner and mode are in an
 * extended attribute: a client is seldom root, and files that come from elsewhere are as open as
 * the mount says, whatever they are in the directory. The file's own follow, for those who use the
 * directory without us. What has none costs a listing nothing: a directory says by an attribute of
 * its own that something in it may have some. */
#include "fuse/store/posix.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ATTR_NAME "user.millrace.attr"
#define NOTE_NAME "user.millrace.attrs" /* of a directory: something in it may have ATTR_NAME */
#define SELF_MAX  32

/* A number below `past` in that base, and what follows. */
static bool attr_number(const char **text, int base, unsigned long past, uint32_t *out)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long number = strtoul(*text, &end, base);
    if (number >= past)
        return false;
    *text = end;
    *out = (uint32_t)number;
    return true;
}

static bool attr_word(const char **text, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(*text, word, len) != 0)
        return false;
    *text += len;
    return true;
}

bool posix_attr_parse(const char *text, struct store_attr *out)
{
    struct store_attr a = {0};
    if (attr_word(&text, "mode=")) {
        if (!attr_number(&text, 8, STORE_MODE_BITS + 1, &a.mode))
            return false;
        a.has = STORE_MODE;
    }
    if (a.has && *text && !attr_word(&text, " "))
        return false;
    if (attr_word(&text, "owner=")) {
        if (!attr_number(&text, 10, UINT32_MAX, &a.uid) || !attr_word(&text, ":")
            || !attr_number(&text, 10, UINT32_MAX, &a.gid))
            return false;
        a.has |= STORE_OWNER;
    }
    if (*text || !a.has)
        return false;
    *out = a;
    return true;
}

void posix_attr_format(const struct store_attr *attr, char text[POSIX_ATTR_MAX])
{
    int n = 0;
    text[0] = '\0';
    if (attr->has & STORE_MODE)
        n = snprintf(text, POSIX_ATTR_MAX, "mode=%04o", attr->mode & STORE_MODE_BITS);
    if (attr->has & STORE_OWNER)
        snprintf(text + n, (size_t)(POSIX_ATTR_MAX - n), "%sowner=%u:%u", n ? " " : "", attr->uid,
            attr->gid);
}

bool posix_attr_noted(int dir) { return fgetxattr(dir, NOTE_NAME, NULL, 0) >= 0; }

/* False: it cannot be noted. */
static bool attr_note(int dir)
{
    return posix_attr_noted(dir) || fsetxattr(dir, NOTE_NAME, "1", 1, 0) == 0;
}

void posix_attr_note_moved(int from, int to)
{
    if (posix_attr_noted(from))
        attr_note(to);
}

/* By a path that no link is followed at the end of, or that is a descriptor's. */
static void attr_read(const char *path, bool follow, struct store_attr *out)
{
    char text[POSIX_ATTR_MAX];
    ssize_t n = follow ? getxattr(path, ATTR_NAME, text, sizeof text - 1)
                       : lgetxattr(path, ATTR_NAME, text, sizeof text - 1);
    *out = (struct store_attr){0};
    if (n > 0) {
        text[n] = '\0';
        posix_attr_parse(text, out);
    }
}

static const char *self_of(int fd, char path[SELF_MAX])
{
    snprintf(path, SELF_MAX, "/proc/self/fd/%d", fd);
    return path;
}

void posix_attr_of(int fd, const struct stat *st, struct store_stat *out)
{
    char self[SELF_MAX];
    out->attr_known = true;
    if (!S_ISLNK(st->st_mode))
        attr_read(self_of(fd, self), true, &out->attr);
}

void posix_attr_at(int dir, const char *name, const struct stat *st, struct store_stat *out)
{
    char path[SELF_MAX + 256];
    out->attr_known = true;
    if (S_ISLNK(st->st_mode) || strlen(name) > 255)
        return;
    self_of(dir, path);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
    attr_read(path, false, &out->attr);
}

int posix_dir_stat(
    const struct posix_dir *s, const char *path, struct store_stat *out, struct err *e)
{
    cleanup_fd int fd = posix_open_path(s, path, O_PATH | O_NOFOLLOW, "stat", e);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st))
        return posix_fail(s, errno, path, "stat", e);
    if (!posix_is_shown(&st))
        return posix_fail(s, ENOENT, path, "it is no file, directory or link", e);
    posix_stat_of(&st, out);
    posix_attr_of(fd, &st, out);
    return 0;
}

static void attr_overlay(struct store_attr *on, const struct store_attr *from)
{
    on->has |= from->has & (STORE_MODE | STORE_OWNER);
    if (from->has & STORE_MODE)
        on->mode = from->mode & STORE_MODE_BITS;
    if (from->has & STORE_OWNER) {
        on->uid = from->uid;
        on->gid = from->gid;
    }
}

/* The file's own mode, with what its owner, who may be us, needs of it; and its owner, where we may
 * give it away and still do what we like with it. Mounts show files open to all writers: none that
 * use the directory without us get that by it. What is in a directory with a set-group-ID bit goes
 * on getting its group. */
static void attr_follow(int fd, const struct store_attr *attr)
{
    char self[SELF_MAX];
    struct stat was;
    self_of(fd, self);
    if (fstat(fd, &was))
        return;
    bool is_dir = S_ISDIR(was.st_mode);
    mode_t mode = (attr->mode & STORE_MODE_BITS & ~(022 & ~was.st_mode)) | (is_dir ? 0700 : 0600)
        | (is_dir ? was.st_mode & S_ISGID : 0);
    if ((attr->has & STORE_MODE) && mode != (was.st_mode & 07777))
        (void)!chmod(self, mode);
    if (!(attr->has & STORE_OWNER) || geteuid() != 0
        || (attr->uid == was.st_uid && attr->gid == was.st_gid)
        || chown(self, attr->uid, attr->gid))
        return;
    if (faccessat(AT_FDCWD, self, R_OK | W_OK | (is_dir ? X_OK : 0), AT_EACCESS))
        (void)!chown(self, was.st_uid, was.st_gid);
}

/* -1: errno, and nothing has changed. */
static int attr_write(int fd, const struct store_attr *now)
{
    char self[SELF_MAX], text[POSIX_ATTR_MAX];
    posix_attr_format(now, text);
    return setxattr(self_of(fd, self), ATTR_NAME, text, strlen(text), 0);
}

static int attr_set_time(int fd, int64_t mtime_ns)
{
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}};
    t[1].tv_sec = (time_t)(mtime_ns / NS_PER_S);
    t[1].tv_nsec = (long)(mtime_ns % NS_PER_S);
    if (t[1].tv_nsec < 0) {
        t[1].tv_sec--;
        t[1].tv_nsec += NS_PER_S;
    }
    return utimensat(fd, "", t, AT_EMPTY_PATH);
}

void posix_attr_put(int fd, int dir, const char *name, const struct store_attr *attr)
{
    struct store_stat old = {0};
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        posix_attr_at(dir, name, &st, &old);
    if (attr)
        attr_overlay(&old.attr, attr);
    /* else a stat would say what a listing does not */
    if (old.attr.has && attr_note(dir) && attr_write(fd, &old.attr) == 0)
        attr_follow(fd, &old.attr);
    if (attr && (attr->has & STORE_MTIME))
        attr_set_time(fd, attr->mtime_ns);
}

/* The directory that path is in says that something in it has attributes. */
static int note_above(const struct posix_dir *s, const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!*path)
        return 0;
    cleanup_free char *above = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
    cleanup_fd int dir = posix_open_path(s, above, O_RDONLY | O_DIRECTORY, "open the directory", e);
    if (dir < 0)
        return -1;
    return attr_note(dir) ? 0 : posix_fail(s, errno, path, "keep attributes", e);
}

static bool attr_has(const struct store_attr *a, const struct store_attr *all)
{
    return (a->has & all->has) == all->has
        && (!(all->has & STORE_MODE) || a->mode == (all->mode & STORE_MODE_BITS))
        && (!(all->has & STORE_OWNER) || (a->uid == all->uid && a->gid == all->gid));
}

/* What is so already is not written again: that would be another version for all who have the file
 * cached. */
static int attr_set_kept(const struct posix_dir *s, const char *path, int fd, const struct stat *st,
    const struct store_attr *attr, struct err *e)
{
    struct store_attr to = {.has = attr->has & (STORE_MODE | STORE_OWNER),
        .mode = attr->mode,
        .uid = attr->uid,
        .gid = attr->gid};
    struct store_stat now = {0};
    if (!to.has)
        return 0;
    if (S_ISLNK(st->st_mode))
        return posix_fail(s, EOPNOTSUPP, path, "keep attributes of a symbolic link", e);
    posix_attr_of(fd, st, &now);
    if (note_above(s, path, e))
        return -1;
    if (!attr_has(&now.attr, &to)) {
        attr_overlay(&now.attr, &to);
        if (attr_write(fd, &now.attr))
            return posix_fail(s, errno, path, "keep attributes", e);
    }
    attr_follow(fd, &to);
    return 0;
}

int posix_dir_set_attr(const struct posix_dir *s, const char *path, const char *expect,
    const struct store_attr *attr, struct store_stat *out, struct err *e)
{
    cleanup_fd int fd = posix_open_path(s, path, O_PATH | O_NOFOLLOW, "open", e);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st))
        return posix_fail(s, errno, path, "stat", e);
    posix_stat_of(&st, out);
    if (expect && !S_ISDIR(st.st_mode) && !posix_same_content(out->version, expect)) {
        cleanup_free char *what = xasprintf("%s/%s", s->url, path);
        return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
            ": it was changed by somebody else since it was looked at");
    }
    unsigned refused = attr_set_kept(s, path, fd, &st, attr, e)
        ? attr->has & (STORE_MODE | STORE_OWNER)
        : 0;
    if ((attr->has & STORE_MTIME) && attr->mtime_ns != out->mtime_ns
        && attr_set_time(fd, attr->mtime_ns)) {
        posix_fail(s, errno, path, "set the time", e);
        refused |= STORE_MTIME;
    }
    if (refused && refused == attr->has)
        return -1;
    if (fstat(fd, &st))
        return posix_fail(s, errno, path, "stat", e);
    posix_stat_of(&st, out);
    posix_attr_of(fd, &st, out);
    out->attr.has = (out->attr.has | (attr->has & STORE_MTIME)) & ~refused;
    return 0;
}
