/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/prefetch/hint_list.h"

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES (1u << 20)
/* files in a row that must agree before the window moves to where they are */
#define MIN_FAR_RUN 4
/* a path that is in the list more often than that is not looked for in all its places */
#define MAX_CHAIN 512

struct list_entry {
    uint32_t off;   /* of its line in the file */
    uint32_t hash;  /* of its path */
    uint32_t chain; /* an earlier entry of the same bucket + 1, or 0 */
};

struct hint_list {
    uint64_t id, base;
    char *path; /* owned */
    int fd;
    /* what is being written */
    uint64_t text_len;          /* in the file */
    char carry[INODE_PATH_MAX]; /* the line that is not complete yet … */
    size_t carry_len;           /* … sizeof carry: it is too long */
    struct list_entry *fresh;   /* written, not published */
    uint32_t nfresh, cap_fresh;
    uint64_t fresh_bad;
    /* what is published */
    struct list_entry *entries;
    uint32_t n, cap;
    uint32_t *buckets, nbuckets;
    uint64_t bad, text_end;
    /* the job came past entries before the one; those before the other were given out */
    uint32_t passed, head;
    uint64_t ahead;                /* bytes of entries [passed, head) */
    uint32_t weights[HINT_WINDOW]; /* … of each, by index % HINT_WINDOW, in KiB */
    uint32_t far_at;               /* where the reader seems to be … */
    unsigned far_run;              /* … said by so many files in a row */
};

static struct hint_list *list_open(
    uint64_t id, uint64_t base, const char *dir, int flags, struct err *e)
{
    struct hint_list *l = calloc(1, sizeof *l);
    if (!l) {
        err_sys(e, ENOMEM, "keep a list of hints");
        return NULL;
    }
    l->path = xasprintf("%s/%016" PRIx64 "-%016" PRIx64, dir, id, base);
    l->id = id;
    l->base = base;
    l->fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (l->fd < 0) {
        err_sys(e, errno, "keep a list of hints in %s", dir);
        hint_list_free(l);
        return NULL;
    }
    return l;
}

struct hint_list *hint_list_new(uint64_t id, uint64_t base, const char *dir, struct err *e)
{
    return list_open(id, base, dir, O_CREAT | O_TRUNC, e);
}

void hint_list_remove(struct hint_list *l) { unlink(l->path); }

void hint_list_free(struct hint_list *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l->path);
    free(l->fresh);
    free(l->entries);
    free(l->buckets);
    free(l);
}

uint64_t hint_list_id(const struct hint_list *l) { return l->id; }

uint64_t hint_list_base(const struct hint_list *l) { return l->base; }

void hint_list_stats(const struct hint_list *l, struct hint_list_stats *out)
{
    *out = (struct hint_list_stats){.entries = l->n, .bad = l->bad, .passed = l->passed};
}

/* -- taking the text in ---------------------------------------------------------------------- */

/* The path as inodes_path() would write it: without "./", "//" and a slash at the end. 0: it is
 * none; -1: it cannot be one. */
static int canonical_path(char *line, size_t len)
{
    size_t out = 0, in = 0;
    if (len && line[len - 1] == '\r')
        len--;
    if (!len)
        return 0;
    if (line[0] == '/' || memchr(line, '\0', len))
        return -1;
    while (in < len) {
        size_t part = 0;
        while (in + part < len && line[in + part] != '/')
            part++;
        bool dot = part == 1 && line[in] == '.',
             up = part == 2 && line[in] == '.' && line[in + 1] == '.';
        if (up || part > INODE_NAME_MAX)
            return -1;
        if (part && !dot) {
            if (out)
                line[out++] = '/';
            memmove(line + out, line + in, part);
            out += part;
        }
        in += part + 1;
    }
    return out ? (int)out : -1;
}

static int grow_entries(struct list_entry **array, uint32_t *cap, uint64_t need, struct err *e)
{
    if (need <= *cap)
        return 0;
    uint64_t want = MAX(need, MIN(*cap + (uint64_t)*cap / 2, (uint64_t)UINT32_MAX));
    struct list_entry *more = want < UINT32_MAX ? realloc(*array, want * sizeof *more) : NULL;
    if (!more)
        return err_sys(e, ENOMEM, "a list of %llu hints", (unsigned long long)need);
    *array = more;
    *cap = (uint32_t)want;
    return 0;
}

/* The line in .carry is complete: to `out`, where the text for the file grows. */
static int end_line(struct hint_list *l, char *out, size_t *used, uint64_t room, struct err *e)
{
    int n = l->carry_len == sizeof l->carry ? -1 : canonical_path(l->carry, l->carry_len);
    l->carry_len = 0;
    if (n < 0)
        l->fresh_bad++;
    if (n <= 0)
        return 0;
    uint64_t off = l->text_len + *used;
    if (l->nfresh >= room || off + (size_t)n >= UINT32_MAX)
        return err_set(e, ERR_EXHAUSTED,
            "the list is too long for this client's memory: give it in parts, as the job goes on");
    if (grow_entries(&l->fresh, &l->cap_fresh, l->nfresh + 1, e))
        return -1;
    memcpy(out + *used, l->carry, (size_t)n);
    out[*used + (size_t)n] = '\n';
    *used += (size_t)n + 1;
    l->fresh[l->nfresh++] = (struct list_entry){
        .off = (uint32_t)off, .hash = (uint32_t)hash64(l->carry, (size_t)n)};
    return 0;
}

int hint_list_write(struct hint_list *l, const char *text, size_t len, uint64_t room, struct err *e)
{
    char *out = malloc(len + sizeof l->carry + 1);
    size_t used = 0;
    int rc = out ? 0 : err_sys(e, ENOMEM, "a list of hints");
    while (len && rc == 0) {
        const char *end = memchr(text, '\n', len);
        size_t part = end ? (size_t)(end - text) : len, skip = part + (end ? 1 : 0);
        if (l->carry_len + part < sizeof l->carry) {
            memcpy(l->carry + l->carry_len, text, part);
            l->carry_len += part;
        } else {
            l->carry_len = sizeof l->carry;
        }
        text += skip;
        len -= skip;
        if (end)
            rc = end_line(l, out, &used, room, e);
    }
    if (rc == 0 && io_pwrite(l->fd, out, used, l->text_len))
        rc = err_sys(e, errno, "write a list of hints");
    if (rc == 0)
        l->text_len += used;
    else
        l->nfresh = 0; /* what is in the file after text_len is written over */
    free(out);
    return rc;
}

/* The lines that are complete, as they were written; false: this one is none of ours. */
static bool take_hint_line(struct hint_list *l, uint64_t end, uint64_t room, struct err *e)
{
    size_t len = l->carry_len;
    l->carry_len = 0;
    if (!len || len >= sizeof l->carry || end > UINT32_MAX || l->nfresh >= room
        || grow_entries(&l->fresh, &l->cap_fresh, l->nfresh + 1, e))
        return false;
    l->fresh[l->nfresh++] = (struct list_entry){
        .off = (uint32_t)(end - len), .hash = (uint32_t)hash64(l->carry, len)};
    l->text_len = end + 1;
    return true;
}

struct hint_list *hint_list_resume(
    uint64_t id, uint64_t base, const char *dir, uint64_t room, struct err *e)
{
    struct hint_list *l = list_open(id, base, dir, 0, e);
    char piece[16384];
    uint64_t off = 0;
    bool ours = true;
    for (ssize_t n; l && ours && (n = pread(l->fd, piece, sizeof piece, (off_t)off)) > 0;)
        for (ssize_t i = 0; i < n && ours; i++, off++) {
            if (piece[i] == '\n')
                ours = take_hint_line(l, off, room, e);
            else if (l->carry_len < sizeof l->carry)
                l->carry[l->carry_len++] = piece[i];
        }
    if (!l)
        return NULL;
    l->carry_len = 0; /* a line that was cut off: what comes next is written over it */
    if (hint_list_publish(l, e)) {
        hint_list_free(l);
        return NULL;
    }
    return l;
}

static void rehash_entries(struct hint_list *l, uint32_t nbuckets)
{
    uint32_t *more = calloc(nbuckets, sizeof *more);
    if (!more)
        return; /* longer chains, or nothing is found */
    free(l->buckets);
    l->buckets = more;
    l->nbuckets = nbuckets;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t *b = &more[l->entries[i].hash & (nbuckets - 1)];
        l->entries[i].chain = *b;
        *b = i + 1;
    }
}

int hint_list_publish(struct hint_list *l, struct err *e)
{
    uint64_t n = (uint64_t)l->n + l->nfresh;
    uint32_t nbuckets = l->nbuckets ? l->nbuckets : 1024;
    l->bad += l->fresh_bad;
    l->fresh_bad = 0;
    if (grow_entries(&l->entries, &l->cap, n, e))
        return -1;
    while (nbuckets < n && nbuckets < UINT32_C(1) << 31)
        nbuckets *= 2;
    if (nbuckets != l->nbuckets)
        rehash_entries(l, nbuckets);
    for (uint32_t i = 0; i < l->nfresh; i++) {
        struct list_entry *new = &l->entries[l->n++];
        *new = l->fresh[i];
        if (!l->nbuckets)
            continue;
        uint32_t *b = &l->buckets[new->hash &(l->nbuckets - 1)];
        new->chain = *b;
        *b = l->n;
    }
    l->nfresh = 0;
    l->text_end = l->text_len;
    return 0;
}

/* -- giving entries out ---------------------------------------------------------------------- */

static void pass_entries(struct hint_list *l, uint32_t upto)
{
    if (upto > l->head || upto < l->passed) { /* the window moves to another place */
        l->head = upto;
        l->ahead = 0;
    } else {
        for (uint32_t i = l->passed; i < upto; i++)
            l->ahead -= (uint64_t)l->weights[i % HINT_WINDOW] << 10;
    }
    l->passed = upto;
}

bool hint_list_next(struct hint_list *l, uint64_t most, struct hint_entry *out)
{
    if (l->head >= l->n || l->head - l->passed >= HINT_WINDOW
        || (l->head > l->passed && l->ahead + BLOCK_BYTES > most))
        return false;
    uint32_t i = l->head++, off = l->entries[i].off;
    uint64_t end = i + 1 < l->n ? l->entries[i + 1].off : l->text_end;
    l->weights[i % HINT_WINDOW] = BLOCK_BYTES >> 10;
    l->ahead += BLOCK_BYTES;
    *out = (struct hint_entry){i, off, (uint32_t)(end - off - 1)};
    return true;
}

uint64_t hint_list_weigh(struct hint_list *l, uint32_t index, uint64_t size, uint64_t most)
{
    uint64_t use = MIN(size, (uint64_t)BLOCK_BYTES);
    if (index < l->passed || index >= l->head) /* the job is there already, or elsewhere */
        return use;
    uint32_t *weight = &l->weights[index % HINT_WINDOW];
    l->ahead -= (uint64_t)*weight << 10;
    if (l->ahead < most)
        use = MAX(use, MIN(size, most - l->ahead));
    *weight = (uint32_t)((use + 1023) >> 10);
    l->ahead += (uint64_t)*weight << 10;
    return use;
}

int hint_list_path(
    const struct hint_list *l, const struct hint_entry *entry, char path[INODE_PATH_MAX])
{
    if (entry->len >= INODE_PATH_MAX || io_pread_exact(l->fd, path, entry->len, entry->off))
        return -1;
    path[entry->len] = '\0';
    return 0;
}

/* -- the reader ------------------------------------------------------------------------------ */

/* The place of a path that comes closest after what the job has passed, or the latest one; -1: it
 * is not in the list. */
static int64_t find_entry(const struct hint_list *l, uint32_t hash)
{
    int64_t best = -1;
    unsigned steps = 0;
    if (!l->nbuckets)
        return -1;
    for (uint32_t i = l->buckets[hash & (l->nbuckets - 1)]; i && steps < MAX_CHAIN;
         i = l->entries[i - 1].chain, steps++) {
        if (l->entries[i - 1].hash != hash)
            continue;
        if (best >= 0 && i - 1 < l->passed) /* they come latest first */
            break;
        best = i - 1;
    }
    return best;
}

enum hint_seen hint_list_seen(struct hint_list *l, const char *path, bool near_only)
{
    int64_t at = find_entry(l, (uint32_t)hash64(path, strlen(path)));
    if (at < 0)
        return HINT_UNKNOWN;
    if (at < l->passed && at + HINT_WINDOW >= l->passed) { /* a slow one of several readers */
        l->far_run = 0;
        return HINT_NEAR;
    }
    if (at >= l->passed && at < (int64_t)l->passed + 2 * HINT_WINDOW) {
        l->far_run = 0;
        pass_entries(l, (uint32_t)at + 1);
        return HINT_NEAR;
    }
    if (near_only)
        return HINT_FAR;
    bool agrees = l->far_run && at + HINT_WINDOW >= l->far_at
        && at <= (int64_t)l->far_at + HINT_WINDOW;
    l->far_run = agrees ? l->far_run + 1 : 1;
    l->far_at = (uint32_t)(agrees ? MAX(at, (int64_t)l->far_at) : at);
    if (l->far_run >= MIN_FAR_RUN) {
        l->far_run = 0;
        pass_entries(l, l->far_at + 1);
    }
    return HINT_FAR;
}
