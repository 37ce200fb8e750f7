/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker owns a chunk, and how it is addressed. Pure. */
#include "fuse/peers/priv.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t peers_chunk(const char *mount_point, const char *path, uint64_t off)
{
    uint64_t h = hash64_mix(hash64(mount_point, strlen(mount_point)), hash64(path, strlen(path)));
    return hash64_mix(h, off / PEERS_CHUNK + 1);
}

const char *peers_worker_name(const struct conf *conf)
{
    return conf->worker_name ? conf->worker_name : "worker";
}

uint64_t peer_seed(const char *name, int i)
{
    cleanup_free char *full = xasprintf("%s-%d", name, i);
    return hash64(full, strlen(full));
}

int peers_owner(
    const char *name, int count, const char *mount_point, const char *path, uint64_t off)
{
    uint64_t chunk = peers_chunk(mount_point, path, off), best = 0;
    int owner = -1;
    for (int i = 0; i < count; i++) {
        uint64_t weight = hash64_mix(peer_seed(name, i), chunk);
        if (owner < 0 || weight > best) {
            best = weight;
            owner = i;
        }
    }
    return owner;
}

char *peers_url(const struct conf *conf, int worker)
{
    return xasprintf(
        "http://%s-%d.%s:%d", conf->worker_name, worker, conf->worker_service, conf->worker_port);
}

char *peers_query(const struct cache_key *key)
{
    cleanup_free char *path = http_escape(key->path, true),
                      *version = http_escape(key->version, false);
    return xasprintf(
        "mount=%" PRIu32 "&path=%s&version=%s&size=%" PRIu64, key->mount, path, version, key->size);
}
