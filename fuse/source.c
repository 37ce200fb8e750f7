#include "fuse/source.h"

int source_fetch(void *user, const struct cache_key *key, uint64_t off, size_t len, void *buf, const atomic_bool *cancel, struct err *e)
{
    struct source *s = user;
    if (key->mount >= s->nstores || !s->stores[key->mount])
        return err_set(e, ERR_RETRY, "the store of %s cannot be used", key->path);
    if (store_read(s->stores[key->mount], key->path, key->version, off, len, buf, cancel, e))
        return -1;
    atomic_fetch_add(&s->store_bytes, len);
    return 0;
}
