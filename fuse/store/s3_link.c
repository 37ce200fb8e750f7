/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic links in buckets, as s3fs has them: an object whose content is the target, and whose
 * metadata say its mode as a decimal number. Listings do not tell metadata. So that nobody has to
 * ask for those of each object, a directory in which a link was made gets a note, an empty object
 * that its listing shows to us: where there is none, small objects are files, unless option s3fs
 * says that others make links, too. */
#include "fuse/store/s3.h"

#include "fuse/store/gs.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_MODE (S_IFLNK | 0777)
/* for so long it is believed that a directory has its note, or none */
#define NOTE_NS (2 * NS_PER_S)

void s3_notes_init(struct s3_notes *n) { pthread_mutex_init(&n->mu, NULL); }

void s3_notes_fini(struct s3_notes *n)
{
    for (size_t i = 0; i < S3_NOTES; i++)
        free(n->known[i].key);
    pthread_mutex_destroy(&n->mu);
}

bool s3_mode_is_link(const char *text)
{
    char *end;
    unsigned long mode = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return mode && !*end && mode <= UINT16_MAX && S_ISLNK(mode);
}

/* -- the note -------------------------------------------------------------------------------- */

/* That of the directory which the key is in; caller frees. */
static char *note_key(const char *key)
{
    const char *slash = strrchr(key, '/');
    return xasprintf("%.*s" S3_LINKS_NOTE, slash ? (int)(slash - key + 1) : 0, key);
}

static void note_remember(struct s3_notes *n, const char *key, bool there)
{
    pthread_mutex_lock(&n->mu);
    size_t at = 0;
    while (at < S3_NOTES && (!n->known[at].key || strcmp(n->known[at].key, key) != 0))
        at++;
    if (at == S3_NOTES)
        at = n->next++ % S3_NOTES;
    free(n->known[at].key);
    n->known[at].key = xstrdup(key);
    n->known[at].there = there;
    n->known[at].until_ns = clock_mono_ns() + NOTE_NS;
    pthread_mutex_unlock(&n->mu);
}

/* False: it is not known, or was known too long ago. */
static bool note_recall(struct s3_notes *n, const char *key, bool *there)
{
    bool known = false;
    pthread_mutex_lock(&n->mu);
    for (size_t i = 0; i < S3_NOTES && !known; i++) {
        known = n->known[i].key && strcmp(n->known[i].key, key) == 0
            && clock_mono_ns() < n->known[i].until_ns;
        *there = known && n->known[i].there;
    }
    pthread_mutex_unlock(&n->mu);
    return known;
}

void s3_note_forget(struct s3 *s, const char *key) { note_remember(&s->notes, key, false); }

/* 0: NOTFOUND is no error, resp.status tells. */
static int head(struct s3 *s, const char *key, struct http_resp *resp, struct err *e)
{
    struct s3_call call = {.method = "HEAD", .key = key, .does = S3_CONTENT};
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_outcome out = {0};
    return s3_do(s, &call, &r, resp, &out, e) && e->cls != ERR_NOTFOUND ? -1 : 0;
}

static int note_look(struct s3 *s, const char *key, bool *there, struct err *e)
{
    cleanup_resp struct http_resp resp = {0};
    if (note_recall(&s->notes, key, there))
        return 0;
    if (head(s, key, &resp, e))
        return -1;
    *there = resp.status / 100 == 2;
    note_remember(&s->notes, key, *there);
    return 0;
}

static int note_make(struct s3 *s, const char *key, struct err *e)
{
    bool there;
    cleanup_free char *etag = NULL;
    const struct store_put nothing = {.fd = -1};
    if (note_look(s, key, &there, e))
        return -1;
    if (!there && s3_put_single(s, key, &nothing, NULL, &etag, e))
        return -1;
    note_remember(&s->notes, key, true);
    return 0;
}

int s3_note_copied(struct s3 *s, const char *from, const char *to, uint64_t size, struct err *e)
{
    bool there;
    cleanup_free char *old = note_key(from), *new = note_key(to);
    if (!s3_may_be_link(size) || strcmp(old, new) == 0)
        return 0;
    return note_look(s, old, &there, e) || (there && note_make(s, new, e)) ? -1 : 0;
}

/* -- links ----------------------------------------------------------------------------------- */

int s3_symlink(
    void *impl, const char *path, const char *target, struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = s3_key(s, path), *note = note_key(key), *etag = NULL;
    size_t len = strlen(target);
    cleanup_fd int fd = memfd_create("millrace-link", MFD_CLOEXEC);
    if (fd < 0 || io_pwrite(fd, target, len, 0))
        return err_sys(e, errno, "make a symbolic link");
    if (note_make(s, note, e))
        return err_wrap(e, "make a symbolic link");
    char mode[40];
    snprintf(mode, sizeof mode, S3_MODE_HEADER ": %u", (unsigned)LINK_MODE);
    const struct store_put put = {.fd = fd, .len = len, .expect = ""};
    if (s3_put_single(s, key, &put, mode, &etag, e))
        return -1;
    s3_stat_written(s, path, etag, len, st);
    st->is_link = true;
    return 0;
}

int s3_ask(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct s3 *s = impl;
    cleanup_free char *key = s3_key(s, path), *what = s3_name(s, key);
    cleanup_resp struct http_resp resp = {0};
    char value[256], now[STORE_VERSION_MAX];
    if (head(s, key, &resp, e)) {
        if (e->cls != ERR_DENIED) /* who may not read it may know that it is there */
            return -1;
        err_clear(e);
        st->unasked = false;
        return 0;
    }
    if (resp.status / 100 != 2)
        return store_err(
            e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what, ": there is no such object");
    if (*st->version != '~' && s3_tag(s, &resp, value, sizeof value)) {
        s3_version(value, 0, 0, now);
        if (strcmp(now, st->version) != 0)
            return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
                ": the object has changed (version %s, was %s)", now, st->version);
    }
    st->is_link = http_header(
                      &resp, s->google ? GS_MODE_HEADER : S3_MODE_HEADER, value, sizeof value)
        && s3_mode_is_link(value);
    st->unasked = false;
    return 0;
}
