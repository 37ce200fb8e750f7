/* SPDX-License-Identifier: Apache-2.0 */
/* The notes beside staged files: when they are written, and what they say (sidecar.h). */
#include "fuse/file/stage.h"

#include "fuse/file/content.h"
#include "fuse/file/kept.h"
#include "fuse/file/sidecar.h"
#include "fuse/file/stage_name.h"
#include "fuse/file/stage_sync.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int stage_read_note(struct file *f, struct sidecar *note, struct err *e)
{
    cleanup_free char *name = stage_path(f, STAGE_NOTE);
    return sidecar_read(name, note, e);
}

/* What the note beside the staging file is to say: where it belongs, and what was asked for it so
 * far.
 */
static int stage_note(struct file *f, struct sidecar *note, struct err *e)
{
    struct err none = ERR_INIT;
    struct store *store;
    struct inode n;
    unsigned mount;
    if (stage_read_note(f, note, &none))
        *note = (struct sidecar){0};
    if (file_inode(f, &n, e)
        || tree_where(file_conf(f)->tree, f->ino, &store, &mount, note->path, e))
        return -1;
    sidecar_set_mount(note, &file_conf(f)->conf->mounts[mount]);
    boot_id(note->boot, sizeof note->boot);
    memcpy(note->version, n.version, sizeof note->version);
    return 0;
}

static int stage_write_note(struct file *f, const struct sidecar *note, bool durable, struct err *e)
{
    cleanup_free char *name = stage_path(f, STAGE_NOTE);
    return sidecar_write(name, note, durable, e) ? stage_error(e, err_errno(e), "stage a file") : 0;
}

/* note: as it is on the disk, with the path that was looked up for it. */
static int stage_renew(
    struct file *f, struct sidecar *note, const struct sidecar *over, bool sent, struct err *e)
{
    struct sidecar now;
    mutex_assert_held(&f->note_lock);
    for (;;) {
        if (atomic_load(&f->note_old)) /* what was asked for has been saved */
            note->asked = note->sent = false;
        if (over && over->asked) {
            note->sent = true; /* of two, the first is what was sent */
            note->sent_len = over->sent ? over->sent_len : over->asked_len;
            note->sent_crc = over->sent ? over->sent_crc : over->asked_crc;
        } else if (sent) {
            note->sent = false;
        }
        /* one that says what was asked for is on the disk: what takes its place must be, too */
        if (stage_write_note(f, note, note->asked, e))
            return -1;
        atomic_store(&f->note_old, false);
        /* it may have been renamed between our look and our writing, and its note with it */
        if (stage_note(f, &now, e))
            return -1;
        if (strcmp(now.path, note->path) == 0 && strcmp(now.version, note->version) == 0)
            return 0;
        *note = now;
    }
}

/* sent: what the store may have of us is known. */
static int stage_renew_note(struct file *f, const struct sidecar *over, bool sent, struct err *e)
{
    struct sidecar note;
    pthread_mutex_lock(&f->note_lock);
    int rc = stage_note(f, &note, e) ? -1 : stage_renew(f, &note, over, sent, e);
    pthread_mutex_unlock(&f->note_lock);
    return rc;
}

int stage_write_sidecar(struct file *f, struct err *e)
{
    return stage_renew_note(f, NULL, false, e);
}

int stage_know_sent(struct file *f, struct err *e)
{
    mutex_assert_held(&f->mark_lock);
    atomic_store(&f->note_late, true);
    return stage_renew_note(f, NULL, true, e);
}

int stage_open_note(const struct file *f, struct err *e)
{
    cleanup_free char *name = stage_path(f, STAGE_NOTE);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? stage_error(e, errno, "keep a staged file") : fd;
}

static int stage_mark_locked(
    struct file *f, int fd, uint64_t size, uint32_t crc, bool begun, struct err *e)
{
    struct sidecar note;
    mutex_assert_held(&f->note_lock);
    if (stage_note(f, &note, e))
        return -1;
    bool was = note.asked && !atomic_load(&f->note_old),
         same = was && note.asked_len == size && note.asked_crc == crc;
    /* nothing else is sent while there is one */
    if (was && !same && !note.sent && begun) {
        note.sent = true;
        note.sent_len = note.asked_len;
        note.sent_crc = note.asked_crc;
    }
    atomic_store(&f->promised, true);
    note.asked = true;
    note.asked_len = size;
    note.asked_crc = crc;
    if (was && fsync(fd))
        return stage_error(e, errno, "keep a staged file");
    if (stage_write_note(f, &note, was, e))
        return -1;
    atomic_store(&f->note_old, false);
    return 0;
}

int stage_mark(struct file *f, int fd, uint64_t size, bool begun, int *note_fd, struct err *e)
{
    uint32_t crc;
    mutex_assert_held(&f->mark_lock);
    if (content_crc(fd, size, &crc, e))
        return -1;
    pthread_mutex_lock(&f->note_lock);
    int rc = stage_mark_locked(f, fd, size, crc, begun, e);
    pthread_mutex_unlock(&f->note_lock);
    if (rc)
        return -1;
    *note_fd = stage_open_note(f, e);
    return *note_fd < 0 ? -1 : 0;
}

int stage_keep(struct file *f, const char *why, char kept[STAGE_NAME_MAX], struct err *e)
{
    const struct stage_name n = {inodes_epoch(file_conf(f)->inodes), f->ino, f->generation};
    struct sidecar note;
    struct err none = ERR_INIT;
    mutex_assert_held(&f->state_lock);
    stage_name_format(&n, kept);
    bool known = stage_note(f, &note, &none) == 0;
    snprintf(note.why, sizeof note.why, "%s", why);
    return kept_add(file_conf(f)->stage_dir, kept, known ? &note : NULL, e);
}

void stage_remove_sidecar(struct file *f)
{
    cleanup_free char *sidecar = stage_path(f, STAGE_NOTE);
    unlink(sidecar);
}

void stage_saved(struct file *f, bool all, bool over)
{
    struct err e = ERR_INIT;
    if (over)
        atomic_store(&f->note_old, true);
    atomic_store(&f->note_late, !all);
    if (all)
        stage_remove_sidecar(f);
    else if (stage_renew_note(f, NULL, true, &e)) /* the next change tries again */
        log_kv(LOG_WARN, "the version of a staged file is not on disk", "error", e.msg, NULL);
}

void stage_repath(struct file *f, const struct sidecar *over)
{
    struct inode n;
    struct err e = ERR_INIT;
    if (!file_is_dirty(f) && atomic_load(&f->note_old)) /* it has no note */
        return;
    if (inodes_get(file_conf(f)->inodes, f->ino, &n) || !(n.flags & INODE_STAGED)
        || (n.flags & INODE_UNLINKED))
        return;
    pthread_mutex_lock(&f->mark_lock);
    int rc = stage_renew_note(f, over, false, &e);
    if (rc == 0 && atomic_load(&f->promised))
        rc = stage_sync(files_stage_sync(f->files), -1, -1, &e);
    pthread_mutex_unlock(&f->mark_lock);
    if (rc)
        log_kv(LOG_WARN, "the new path of a staged file is not on disk", "error", e.msg, NULL);
}
