/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of the disk when its power goes. */
#include "tests/sim/disk_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static void remove_below(const char *dir, bool dirs)
{
    DIR *at = opendir(dir);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
        if (de->d_type == DT_DIR) {
            remove_below(path, dirs);
            if (dirs)
                rmdir(path);
        } else {
            __real_unlink(path);
        }
    }
    if (at)
        closedir(at);
}

void disk_init(struct disk *d, const char *dir)
{
    memset(d, 0, sizeof *d);
    snprintf(d->root, sizeof d->root, "%s/disk", dir);
    snprintf(d->shadow, sizeof d->shadow, "%s/shadow", dir);
    if ((__real_mkdir(d->root, 0700) && errno != EEXIST) || __real_mkdir(d->shadow, 0700))
        disk_die(dir);
}

void disk_clear(struct disk *d, const char *keep)
{
    DIR *at = opendir(d->root);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", d->root, de->d_name);
        bool kept = strcmp(de->d_name, keep) == 0;
        if (de->d_type == DT_DIR)
            remove_below(path, !kept);
        if (!kept)
            remove(path);
    }
    if (at)
        closedir(at);
    remove_below(d->shadow, true);
    rmdir(d->shadow);
}

void disk_remove(struct disk *d)
{
    remove_below(d->root, true);
    rmdir(d->root);
}

static struct disk_name *name_find(struct disk *d, const char *path)
{
    for (unsigned i = 0; i < d->nnames; i++)
        if (strcmp(d->names[i].path, path) == 0)
            return &d->names[i];
    return NULL;
}

static void name_set(struct disk *d, const char *path, uint64_t ino)
{
    struct disk_name *n = name_find(d, path);
    if (!n) {
        if (d->nnames == DISK_NAMES)
            disk_die("too many names");
        n = &d->names[d->nnames++];
        snprintf(n->path, sizeof n->path, "%s", path);
    }
    n->ino = ino;
}

static void name_drop(struct disk *d, const char *path)
{
    struct disk_name *n = name_find(d, path);
    if (n)
        *n = d->names[--d->nnames];
}

/* The names that the journal has. */
static void replay(struct disk *d, uint64_t *seed)
{
    unsigned upto = d->flushed + (unsigned)(sim_random(seed) % (d->nlog - d->flushed + 1));
    for (unsigned i = 0; i < upto; i++) {
        const char *a = d->log[i].a, *b = d->log[i].b;
        switch (d->log[i].op) {
        case DISK_CREATE:
        case DISK_LINK:
        case DISK_MKDIR:
            name_set(d, a, d->log[i].ino);
            break;
        case DISK_UNLINK:
            name_drop(d, a);
            break;
        case DISK_RENAME:
            name_drop(d, a);
            name_set(d, b, d->log[i].ino);
            break;
        }
    }
}

/* Where the content is that the process saw last: under some name, or kept. */
static int open_now(struct disk *d, uint64_t ino)
{
    char name[DISK_PATH + 64];
    disk_shadow(ino, ".now", name);
    int fd = __real_open(name, O_RDONLY);
    (void)d;
    return fd;
}

static const unsigned char *map_file(int fd, off_t size)
{
    if (size == 0)
        return NULL;
    void *at = __real_mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        disk_die("map a file");
    return at;
}

static void unmap_file(const unsigned char *at, off_t size)
{
    if (at)
        munmap((void *)(uintptr_t)at, (size_t)size);
}

/* Of the page at off what the file has of it: a mapping ends with zeros, but not beyond its page.
 */
static size_t page_of(off_t size, off_t off)
{
    return off >= size ? 0 : (size_t)(size - off < PAGE ? size - off : PAGE);
}

/* Sparse files may be large: the next page that either has. */
static off_t next_data(int was, int now, off_t off, off_t size)
{
    off_t a = lseek(was, off, SEEK_DATA), b = lseek(now, off, SEEK_DATA);
    off_t at = a < 0 ? b : b < 0 || a < b ? a : b;
    return at < 0 ? size : at / PAGE * PAGE;
}

static void mix_pages(int was, int now, int to, uint64_t *seed)
{
    struct stat a, b;
    if (fstat(was, &a) || fstat(now, &b))
        disk_die("look at a file");
    bool new_size = sim_random(seed) & 1;
    off_t size = new_size ? b.st_size : a.st_size;
    if (__real_ftruncate(to, size))
        disk_die("size");
    const unsigned char *old = map_file(was, a.st_size), *fresh = map_file(now, b.st_size);
    unsigned odds = (unsigned)(sim_random(seed) % 3); /* nothing new, half of it, all of it */
    for (off_t off = 0; (off = next_data(was, now, off, size)) < size; off += PAGE) {
        bool take = odds == 2 || (odds == 1 && sim_random(seed) & 1);
        size_t len = page_of(take ? b.st_size : a.st_size, off), most = page_of(size, off);
        const unsigned char *from = (take ? fresh : old) + off;
        len = len < most ? len : most;
        if (!disk_all_zeros(from, len) && __real_pwrite(to, from, len, off) != (ssize_t)len)
            disk_die("write");
    }
    unmap_file(old, a.st_size);
    unmap_file(fresh, b.st_size);
    struct timespec t = new_size ? b.st_mtim : a.st_mtim, times[2] = {t, t};
    futimens(to, times);
}

static void put_back(struct disk *d, const struct disk_name *n, const char *root, uint64_t *seed)
{
    char path[3 * DISK_PATH], name[DISK_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", root, n->path);
    disk_shadow(n->ino, "", name);
    int was = __real_open(name, O_RDONLY), now = open_now(d, n->ino);
    int to = __real_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (to < 0 || (was < 0 && now < 0))
        disk_die(path);
    if (was < 0)
        disk_copy(now, to); /* not written to since it was flushed */
    else if (now < 0)
        disk_copy(was, to);
    else
        mix_pages(was, now, to, seed);
    close(to);
    if (was >= 0)
        close(was);
    if (now >= 0)
        close(now);
}

/* Every file that has a name now is kept under its number. */
static void keep_all(const char *dir)
{
    DIR *at = opendir(dir);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
        if (de->d_type == DT_DIR)
            keep_all(path);
        else
            disk_keep(path);
    }
    if (at)
        closedir(at);
}

/* What is there is on the disk, all of it. */
static void settle(struct disk *d, const char *dir, const char *prefix)
{
    DIR *at = opendir(dir);
    for (struct dirent *de; at && (de = readdir(at));) {
        char path[PATH_MAX], name[DISK_PATH];
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
        if (snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "/" : "", de->d_name)
            >= (int)sizeof name)
            disk_die("a long name");
        name_set(d, name, disk_ino(path));
        if (de->d_type == DT_DIR)
            settle(d, path, name);
    }
    if (at)
        closedir(at);
}

void disk_settle(struct disk *d)
{
    remove_below(d->shadow, true);
    d->nnames = d->nlog = d->flushed = 0;
    settle(d, d->root, "");
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct disk_name *)a)->path, ((const struct disk_name *)b)->path);
}

void disk_cut(struct disk *d, uint64_t seed)
{
    char root[DISK_PATH + 8];
    disk_use(d);
    snprintf(root, sizeof root, "%s.new", d->root);
    if (__real_mkdir(root, 0700))
        disk_die(root);
    keep_all(d->root);
    replay(d, &seed);
    qsort(
        d->names, d->nnames, sizeof d->names[0], by_path); /* directories before what is in them */
    for (unsigned i = 0; i < d->nnames; i++) {
        char path[3 * DISK_PATH];
        snprintf(path, sizeof path, "%s/%s", root, d->names[i].path);
        if (d->names[i].ino)
            put_back(d, &d->names[i], root, &seed);
        else if (__real_mkdir(path, 0700))
            disk_die(path);
    }
    remove_below(d->root, true);
    if (rmdir(d->root) || __real_rename(root, d->root))
        disk_die(d->root);
    disk_settle(d);
    disk_use(NULL);
}
