/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/stage_room.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>

#define KEPT_PERMILLE 5 /* of the disk, for each percent that the cache leaves: half of that */
#define LOOK_NS       NS_PER_S
#define WAIT_NS       (5 * NS_PER_S)
#define AGAIN_NS      (50 * NS_PER_MS)
#define LEFT_SHARE    2 /* of the room may be written unseen: others write there, too */

static int64_t room_now(struct files *fs)
{
    const struct files_conf *c = files_config(fs);
    return cache_disk_room(c->stage_dir, c->conf->keep_free * KEPT_PERMILLE);
}

uint64_t stage_room_left(struct files *fs)
{
    const struct files_conf *c = files_config(fs);
    /* with what the cache leaves of the disk kept free by both, once */
    int64_t room = room_now(fs), gives = (int64_t)cache_gives(c->cache, c->stage_dir);
    if (room == INT64_MAX) /* the disk does not tell */
        return UINT64_MAX;
    return (uint64_t)MAX(room + gives, 0);
}

/* r->mu is held. */
static int64_t room_wait(struct files *fs)
{
    int64_t room, until = clock_mono_ns() + WAIT_NS;
    files_will_block(fs);
    do {
        cache_want_room(files_config(fs)->cache);
        clock_sleep_ns(AGAIN_NS);
        room = room_now(fs);
    } while (room <= 0 && clock_mono_ns() < until);
    return room;
}

/* r->mu is held. */
static bool room_look(struct files *fs, struct stage_room *r)
{
    const struct files_conf *c = files_config(fs);
    int64_t room = room_now(fs);
    if (room <= 0 && !atomic_load(&r->refused))
        room = room_wait(fs);
    if (room <= 0 && !atomic_exchange(&r->refused, true))
        log_warn("less than %.1f %% of the disk of %s is free, and the cache has no more to give: "
                 "what is written is refused",
            c->conf->keep_free / 2.0, c->stage_dir);
    if (room > 0)
        atomic_store(&r->refused, false);
    atomic_store(&r->left, room > 0 ? room / LEFT_SHARE : 0);
    atomic_store(&r->until_ns, clock_mono_ns() + LOOK_NS);
    return room > 0;
}

/* Without a look: is there room, or (*none) surely none? */
static bool room_is_known(struct stage_room *r, uint64_t bytes, bool *none)
{
    if (clock_mono_ns() >= atomic_load(&r->until_ns))
        return false;
    *none = atomic_load(&r->refused);
    return *none || atomic_fetch_sub(&r->left, (int64_t)bytes) >= (int64_t)bytes;
}

int stage_room_take(struct files *fs, uint64_t bytes, struct err *e)
{
    struct stage_room *r = files_stage_room(fs);
    unsigned keep = files_config(fs)->conf->keep_free;
    bool none = false;
    if (!keep || (room_is_known(r, bytes, &none) && !none))
        return 0;
    if (!none) {
        pthread_mutex_lock(&r->mu);
        if (!room_is_known(r, bytes, &none)) /* another has looked meanwhile */
            none = !room_look(fs, r);
        pthread_mutex_unlock(&r->mu);
    }
    if (!none)
        return 0;
    return err_sys(e, ENOSPC,
        "less than %.1f %% of the disk of the cache directory is free, and the cache has no more to "
        "give; make room on the node",
        keep / 2.0);
}
