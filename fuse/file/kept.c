/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/kept.h"

#include "fuse/file/stage_name.h"
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

char *kept_dir(const char *stage_dir) { return path_join(stage_dir, "kept"); }

int kept_add(const char *stage_dir, const char *name, const struct sidecar *note, struct err *e)
{
    struct err full = ERR_INIT;
    cleanup_free char *dir = kept_dir(stage_dir), *from = path_join(stage_dir, name),
                      *to = path_join(dir, name), *from_note = xasprintf("%s" STAGE_NOTE, from),
                      *to_note = xasprintf("%s" STAGE_NOTE, to);
    if (file_mkdirs(dir, 0700, e))
        return -1;
    cleanup_fd int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd))
        return err_sys(e, errno, "keep %s", from);
    if (access(to, F_OK) == 0)
        return err_sys(e, EEXIST, "keep %s", from);
    /* A full disk has no room for a new note: the old one says where it belongs, too. */
    bool renewed = note && sidecar_write(to_note, note, true, &full) == 0;
    if (!renewed && link(from_note, to_note) && errno != EEXIST)
        return err_sys(e, errno, "keep %s", from);
    if (rename(from, to)) { /* never without its note */
        int errnum = errno;
        unlink(to_note);
        return err_sys(e, errnum, "keep %s", from);
    }
    unlink(from_note);
    return file_sync_dir(dir, e) || file_sync_dir(stage_dir, e) ? -1 : 0;
}

void kept_return(const char *stage_dir, const char *name)
{
    cleanup_free char *dir = kept_dir(stage_dir), *from = path_join(dir, name),
                      *to = path_join(stage_dir, name),
                      *from_note = xasprintf("%s" STAGE_NOTE, from),
                      *to_note = xasprintf("%s" STAGE_NOTE, to);
    if ((link(from_note, to_note) && errno != EEXIST) || rename(from, to))
        log_kv(LOG_ERROR, "a kept file stays where it is", "file", from, NULL);
    else
        unlink(from_note);
}

static void kept_show(struct kept *k, const char *dir, const char *name)
{
    struct sidecar note;
    struct err e = ERR_INIT;
    cleanup_free char *file = xasprintf("%s/%s" STAGE_NOTE, dir, name);
    bool readable = sidecar_read(file, &note, &e) == 0;
    struct kept_file *f = &k->shown[k->nshown++];
    f->name = xstrdup(name);
    f->path = xstrdup(readable ? note.path : "?");
    snprintf(f->why, sizeof f->why, "%s",
        !readable       ? KEPT_UNREADABLE
            : *note.why ? note.why
                        : KEPT_CONFLICT);
}

void kept_list(const char *stage_dir, struct kept *out)
{
    struct stat st;
    cleanup_free char *dir = kept_dir(stage_dir);
    memset(out, 0, sizeof *out);
    DIR *d = opendir(dir);
    for (struct dirent *de; d && (de = readdir(d));) {
        if (!stage_name_is_content(de->d_name) || fstatat(dirfd(d), de->d_name, &st, 0))
            continue;
        out->files++;
        out->bytes += (uint64_t)st.st_size;
        if (out->nshown < KEPT_SHOWN)
            kept_show(out, dir, de->d_name);
    }
    if (d)
        closedir(d);
}

void kept_free(struct kept *k)
{
    for (size_t i = 0; i < k->nshown; i++) {
        free(k->shown[i].name);
        free(k->shown[i].path);
    }
    k->nshown = 0;
}
