/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/sidecar.h"

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/conf/option_name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC     "millrace-staged 4" /* all of one length */
#define MAGIC_3   "millrace-staged 3"
#define MAGIC_2   "millrace-staged 2"
#define MARK_MAX  48
#define ID_LEN    16 /* digits */
#define MOUNT_LEN (2 * ID_LEN + 1)

void sidecar_set_mount(struct sidecar *s, const struct conf_mount *m)
{
    cleanup_free char *id = conf_mount_id(m);
    s->source = hash64(id, strlen(id));
    s->place = hash64(m->path, strlen(m->path));
    s->earlier = false;
}

/* Until the third version the endpoint counted by its first name only. */
static bool sidecar_was_source(const struct sidecar *s, const struct conf_mount *m)
{
    const char *endpoint = NULL;
    for (size_t i = 0; i < m->noptions && !endpoint; i++)
        if (strcmp(m->options[i].key, OPTION_ENDPOINT) == 0)
            endpoint = m->options[i].value;
    for (size_t i = 0; i < m->ndefault_options && !endpoint; i++)
        if (strcmp(m->default_options[i].key, OPTION_ENDPOINT) == 0)
            endpoint = m->default_options[i].value;
    cleanup_free char *id = endpoint && *endpoint ? xasprintf("%s %s", m->mount_point, endpoint)
                                                  : xstrdup(m->mount_point);
    return s->earlier && s->source == hash64(id, strlen(id));
}

int sidecar_find_mount(const struct sidecar *s, const struct conf *conf)
{
    int found = -1;
    size_t n = 0;
    for (size_t i = 0; i < conf->nmounts; i++) {
        struct sidecar like;
        sidecar_set_mount(&like, &conf->mounts[i]);
        if (like.source != s->source && !sidecar_was_source(s, &conf->mounts[i]))
            continue;
        if (like.place == s->place)
            return (int)i;
        found = (int)i;
        n++;
    }
    return n == 1 ? found : -1;
}

static void mark_format(bool is, const char *word, uint64_t len, uint32_t crc, char out[MARK_MAX])
{
    if (is)
        snprintf(out, MARK_MAX, "%s %" PRIu64 " %08" PRIx32, word, len, crc);
    else
        snprintf(out, MARK_MAX, "none");
}

char *sidecar_format(const struct sidecar *s)
{
    char asked[MARK_MAX], sent[MARK_MAX];
    mark_format(s->asked, "save", s->asked_len, s->asked_crc, asked);
    mark_format(s->sent, "sent", s->sent_len, s->sent_crc, sent);
    return xasprintf("%s\n%016" PRIx64 "-%016" PRIx64 "\n%s\n%s\n%s%s%s\n%s\n%s\n",
        s->earlier ? MAGIC_2 : MAGIC, s->source, s->place, *s->boot ? s->boot : "-", asked,
        s->earlier ? "" : sent, s->earlier ? "" : "\n", *s->why ? s->why : "-", s->version,
        s->path);
}

static bool take_id(const char *text, uint64_t *id)
{
    *id = 0;
    for (size_t i = 0; i < ID_LEN; i++) {
        const char *digits = "0123456789abcdef", *d = strchr(digits, text[i]);
        if (!d || !*d)
            return false;
        *id = *id << 4 | (uint64_t)(d - digits);
    }
    return true;
}

static bool take_mount(const char *text, const char *end, struct sidecar *out)
{
    return end - text == MOUNT_LEN && text[ID_LEN] == '-' && take_id(text, &out->source)
        && take_id(text + ID_LEN + 1, &out->place);
}

/* A line of the text, without its end; "-" is nothing. */
static bool take_line(const char **text, const char *end, char *out, size_t max)
{
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    size_t len = stop ? (size_t)(stop - *text) : max;
    if (len >= max)
        return false;
    memcpy(out, *text, len);
    out[len] = '\0';
    *text = stop + 1;
    return true;
}

static bool take_word(const char **text, const char *end, char *out, size_t max, const char *of)
{
    if (!take_line(text, end, out, max) || !*out || out[strspn(out, of)])
        return false;
    if (strcmp(out, "-") == 0)
        *out = '\0';
    return true;
}

static bool take_mark(
    const char **text, const char *end, const char *word, bool *is, uint64_t *size, uint32_t *crc)
{
    char line[MARK_MAX], again[MARK_MAX];
    size_t n = strlen(word);
    if (!take_line(text, end, line, sizeof line))
        return false;
    *is = strcmp(line, "none") != 0;
    if (!*is)
        return true;
    if (strncmp(line, word, n) != 0 || sscanf(line + n, " %" SCNu64 " %" SCNx32, size, crc) != 2)
        return false;
    mark_format(true, word, *size, *crc, again);
    return strcmp(line, again) == 0;
}

/* What this version and the two before it write, and the first did not. */
static bool take_more(const char **text, const char *end, bool fourth, struct sidecar *out)
{
    return take_word(text, end, out->boot, sizeof out->boot, "0123456789abcdef-")
        && take_mark(text, end, "save", &out->asked, &out->asked_len, &out->asked_crc)
        && (!fourth || take_mark(text, end, "sent", &out->sent, &out->sent_len, &out->sent_crc))
        && take_word(text, end, out->why, sizeof out->why, "-abcdefghijklmnopqrstuvwxyz");
}

static bool begins_with(const char *text, size_t len, const char *magic)
{
    return len > strlen(magic) && memcmp(text, magic, strlen(magic)) == 0;
}

int sidecar_parse(
    const char *text, size_t len, const char *what, struct sidecar *out, struct err *e)
{
    const char *end = text + len, *at = text;
    char mount[MOUNT_LEN + 1], magic[sizeof MAGIC];
    memset(out, 0, sizeof *out);
    bool fourth = begins_with(text, len, MAGIC), third = begins_with(text, len, MAGIC_3),
         now = fourth || third || begins_with(text, len, MAGIC_2);
    out->earlier = !fourth && !third;
    if (memchr(text, '\0', len) || (now && !take_line(&at, end, magic, sizeof magic))
        || !take_line(&at, end, mount, sizeof mount)
        || !take_mount(mount, mount + strlen(mount), out)
        || (now && !take_more(&at, end, fourth, out))
        || !take_line(&at, end, out->version, sizeof out->version) || end - at < 2
        || end - at > INODE_PATH_MAX || end[-1] != '\n')
        return err_set(e, ERR_INVALID, "%s says nothing that could be used", what);
    memcpy(out->path, at, (size_t)(end - at - 1));
    if (!store_path_ok(out->path))
        return err_set(e, ERR_INVALID, "%s names no file", what);
    return 0;
}

int sidecar_read(const char *file, struct sidecar *out, struct err *e)
{
    size_t len;
    cleanup_free char *text = file_read(file, SIDECAR_MAX, &len, e);
    return text ? sidecar_parse(text, len, file, out, e) : -1;
}

int sidecar_write(const char *file, const struct sidecar *s, bool durable, struct err *e)
{
    static _Atomic unsigned count; /* a rename of a directory above may be writing the same one */
    cleanup_free char *tmp = xasprintf("%s.%u.new", file, atomic_fetch_add(&count, 1)),
                      *text = sidecar_format(s);
    cleanup_fd int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || io_write(fd, text, strlen(text)) || (durable && fsync(fd)) || rename(tmp, file)) {
        int errnum = errno;
        unlink(tmp);
        return err_sys(e, errnum, "write beside a staged file");
    }
    return 0;
}
