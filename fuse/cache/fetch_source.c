/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a fetch, from the source: into a buffer, or piece by piece into a tier. */
#include "fuse/cache/priv.h"
#include "lib/base/mem.h"

#include <errno.h>

static size_t fetch_bytes(const struct fetch *f)
{
    return (size_t)(f->count - 1) * CACHE_BLOCK + block_len(f->o, f->first + f->count - 1);
}

static int ask_source(struct fetch *f, struct cache_sink *sink, struct err *e)
{
    struct object *o = f->o;
    struct cache *c = o->c;
    struct cache_key key = {o->mount, o->path, o->version, o->id.size};
    f->len = fetch_bytes(f);
    pthread_mutex_lock(&o->mu);
    sink->is_ahead = !f->demand && !f->wanted;
    pthread_mutex_unlock(&o->mu);
    return c->source.fetch(
        c->source.user, &key, (uint64_t)f->first * CACHE_BLOCK, f->len, sink, &c->cancel, e);
}

/* A buffer that is there once there is something to put into it: those who wait for a store hold
 * none. */
struct late_buffer {
    struct fetch *f;
    struct sink_memory memory;
};

static int late_take(void *user, const void *data, size_t len)
{
    struct late_buffer *l = user;
    struct fetch *f = l->f;
    if (!f->buf) {
        f->buf = budget_buffer(&f->o->c->budget, f->len);
        l->memory = (struct sink_memory){f->buf, f->len};
    }
    return f->buf ? sink_to_memory(&l->memory, data, len) : -1;
}

int fetch_to_buffer(struct fetch *f, struct err *e)
{
    struct object *o = f->o;
    struct cache *c = o->c;
    size_t len = fetch_bytes(f);
    struct late_buffer late = {.f = f};
    struct cache_sink sink = {.take = late_take, .user = &late};
    if (ask_source(f, &sink, e))
        return -1;
    pthread_mutex_lock(&o->mu);
    f->origin = sink.origin & 1;
    pthread_mutex_unlock(&o->mu);
    atomic_fetch_add(&c->fetched_bytes, len);
    return 0;
}

/* Straight to a tier, in the pieces that the source gives: they are in the processor's cache then,
 * and need no memory of ours. */
struct fetch_stream {
    struct fetch *f;
    struct cache_sink sink;
    struct fill at;  /* of the block that is being written */
    bool open;       /* there is one */
    bool refused;    /* no tier took it */
    uint32_t filled; /* blocks */
};

static int fetch_end_block(struct fetch_stream *st)
{
    struct fetch *f = st->f;
    pthread_mutex_lock(&f->o->mu);
    f->origin = st->sink.origin & 1;
    bool wanted = f->wanted;
    pthread_mutex_unlock(&f->o->mu);
    uint32_t len = st->at.len;
    st->open = false;
    if (fill_end(&st->at, !wanted))
        return -1;
    st->filled++;
    atomic_fetch_add(&f->o->c->fetched_bytes, len);
    return 0;
}

static int fetch_take_piece(void *user, const void *data, size_t len)
{
    struct fetch_stream *st = user;
    for (const char *p = data; len;) {
        st->refused = !st->open
            && (st->filled == st->f->count
                || fill_begin(&st->at, st->f->o, st->f->first + st->filled));
        if (st->refused)
            return -1;
        st->open = true;
        size_t piece = MIN(len, (size_t)(st->at.len - st->at.done));
        int rc = fill_write(&st->at, p, piece);
        p += piece;
        len -= piece;
        st->refused = (rc || st->at.done == st->at.len) && fetch_end_block(st);
        if (st->refused)
            return -1;
    }
    return 0;
}

int fetch_to_tier(struct fetch *f, struct err *e)
{
    struct object *o = f->o;
    struct fetch_stream st = {.f = f, .sink = {.take = fetch_take_piece, .user = &st}};
    if (fill_begin(&st.at, o, f->first))
        return 1;
    st.open = true;
    int rc = ask_source(f, &st.sink, e);
    if (st.open)
        fill_end(&st.at, false);
    if (!st.refused)
        return rc;
    pthread_mutex_lock(&o->mu);
    f->first += st.filled;
    f->count -= st.filled;
    pthread_mutex_unlock(&o->mu);
    *e = (struct err)ERR_INIT;
    return 1;
}
