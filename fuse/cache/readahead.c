/* SPDX-License-Identifier: Apache-2.0 */
/* How far ahead of its sequential readers an open file is fetched. */
#include "fuse/cache/priv.h"
#include "lib/base/mem.h"

/* FUSE sends the reads of one reader out of order by about this much */
#define NEAR (2ull * CACHE_BLOCK)
/* times what has been read in sequence: what is fetched for nothing at most */
#define WINDOW_GROWTH 4
#define WINDOW_PARTS  4 /* requests for it at the same time */
#define WINDOW_MAX    (128ull << 20)
#define WINDOW_SHARE  16 /* of the cache */

static struct read_stream *stream_at(struct cache_file *f, uint64_t off)
{
    struct read_stream *oldest = &f->streams[0];
    for (int i = 0; i < STREAMS; i++) {
        struct read_stream *s = &f->streams[i];
        if (s->stamp && off + NEAR >= s->pos && off <= s->pos + NEAR)
            return s;
        if (s->stamp < oldest->stamp)
            oldest = s;
    }
    *oldest = (struct read_stream){.pos = off, .stamp = 0};
    return oldest;
}

/* A part of the memory for what is on its way, and of the cache: what is read ahead would push
 * itself out of a small one. */
static uint64_t window_max(const struct cache *c)
{
    uint64_t share = (uint64_t)c->budget.limit / 2, room = 0;
    for (size_t i = 0; i < c->ntiers; i++)
        room += c->media[i].quota / WINDOW_SHARE;
    share = MIN(share, room ? room : share);
    return MAX((uint64_t)CACHE_BLOCK, MIN(share - share % CACHE_BLOCK, WINDOW_MAX));
}

/* Notes a read and says what to fetch ahead: blocks [*first, *first + *count), in requests of *part
 * blocks. */
static void readahead_advance(struct cache_file *f, uint64_t off, size_t len, uint32_t *first,
    uint32_t *count, uint32_t *part)
{
    uint64_t max = window_max(f->o->c);
    *count = 0;
    pthread_mutex_lock(&f->mu);
    struct read_stream *s = stream_at(f, off);
    bool fresh = !s->stamp;
    s->stamp = ++f->clock;
    uint64_t was = s->pos;
    s->pos = MAX(s->pos, off + len);
    s->run += s->pos - was;
    /* a first read alone says nothing: random readers fetch one block each */
    if (!fresh && s->pos > was) {
        uint64_t window = MAX((uint64_t)CACHE_BLOCK, MIN(s->run * WINDOW_GROWTH, max));
        if (s->ahead < s->pos)
            s->ahead = (s->pos + CACHE_BLOCK - 1) / CACHE_BLOCK * CACHE_BLOCK;
        if (s->ahead - s->pos <= window / 2) {
            uint64_t target = s->pos + window;
            target += CACHE_BLOCK - 1 - (target + CACHE_BLOCK - 1) % CACHE_BLOCK;
            *first = (uint32_t)(s->ahead / CACHE_BLOCK);
            *count = target > s->ahead ? (uint32_t)((target - s->ahead) / CACHE_BLOCK) : 0;
            for (*part = 1;
                 *part < f->o->part && *part * 2ull * WINDOW_PARTS * CACHE_BLOCK <= window;)
                *part *= 2;
            s->ahead = MAX(s->ahead, target);
        }
    }
    pthread_mutex_unlock(&f->mu);
}

/* There was no memory for all of it: the next read asks again from where it ended, for less at a
 * time. */
static void readahead_retreat(struct cache_file *f, uint64_t off, uint32_t got)
{
    pthread_mutex_lock(&f->mu);
    struct read_stream *s = stream_at(f, off);
    if (s->stamp) {
        s->ahead = MAX(
            (uint64_t)got * CACHE_BLOCK, (s->pos + CACHE_BLOCK - 1) / CACHE_BLOCK * CACHE_BLOCK);
        s->run = MIN(s->run, window_max(f->o->c) / WINDOW_GROWTH) / 4;
    }
    pthread_mutex_unlock(&f->mu);
}

void readahead_note(struct cache_file *f, uint64_t off, size_t len)
{
    struct object *o = f->o;
    if (object_is_complete(o) || o->nblocks < 2)
        return;
    uint32_t first, count, part;
    readahead_advance(f, off, len, &first, &count, &part);
    if (!count || first >= o->nblocks)
        return;
    uint32_t want = MIN(count, o->nblocks - first), got = fetch_ahead(o, first, want, part, false);
    if (got < first + want)
        readahead_retreat(f, off, got);
}
