/* SPDX-License-Identifier: Apache-2.0 */
/* What an upload without an answer may have brought to the store. */
#include "fuse/file/upload.h"

#include "fuse/file/content.h"
#include "fuse/file/read.h"
#include "fuse/file/stage.h"

#include <sys/stat.h>

/* 0: it is there, and has that checksum; 1: not; -1: nobody knows, as the store does not answer. */
static int sum_stored(
    struct store *s, const char *path, const struct store_stat *st, uint32_t *crc, struct err *e)
{
    struct err failed = ERR_INIT;
    if (content_crc_stored(s, path, st, crc, &failed) == 0)
        return 0;
    if (failed.cls != ERR_RETRY)
        return 1;
    *e = failed;
    return -1;
}

int upload_was_sent(
    struct file *f, struct store *s, const char *path, const struct store_stat *st, struct err *e)
{
    struct err none = ERR_INIT;
    struct sidecar note;
    uint32_t crc;
    mutex_assert_held(&f->state_lock);
    if (st->is_dir || stage_read_note(f, &note, &none))
        return 0;
    bool first = note.sent && note.sent_len == st->size,
         latest = note.asked && note.asked_len == st->size;
    int rc = first || latest ? sum_stored(s, path, st, &crc, e) : 1;
    if (rc)
        return rc < 0 ? -1 : 0;
    return (first && crc == note.sent_crc) || (latest && crc == note.asked_crc);
}

/* The process before us was killed before it noted what it sent: is it what is staged? */
static int upload_is_staged(
    struct file *f, struct store *s, const char *path, const struct store_stat *st, struct err *e)
{
    struct err none = ERR_INIT;
    struct sidecar note;
    struct stat content;
    uint32_t crc = 0, stored;
    if (st->is_dir || (stage_read_note(f, &note, &none) == 0 && (note.asked || note.sent))
        || file_lock_attached(f, false, &none))
        return 0;
    bool same = f->stage_fd >= 0 && fstat(f->stage_fd, &content) == 0
        && (uint64_t)content.st_size == st->size
        && content_crc(f->stage_fd, st->size, &crc, &none) == 0;
    pthread_rwlock_unlock(&f->data_lock);
    int rc = same ? sum_stored(s, path, st, &stored, e) : 1;
    return rc ? (rc < 0 ? -1 : 0) : crc == stored;
}

int upload_take_back(struct file *f, struct store *s, const char *path, struct err *e)
{
    struct store_stat st;
    mutex_assert_held(&f->state_lock);
    if (!atomic_load(&f->begun))
        return 0;
    if (store_stat_path(s, path, &st, e))
        return e->cls == ERR_NOTFOUND ? 0 : -1;
    int ours = upload_was_sent(f, s, path, &st, e);
    if (ours == 0)
        ours = upload_is_staged(f, s, path, &st, e);
    if (ours <= 0)
        return ours;
    return store_remove(s, path, e) && e->cls != ERR_NOTFOUND ? -1 : 0;
}
