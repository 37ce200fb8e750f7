/* SPDX-License-Identifier: Apache-2.0 */
/* The table of cached files on disk: a header, then a record for each entry of the catalogue,
 * written as it changes and read at start-up. */
#include "fuse/cache/priv.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD_CHUNK (1u << 20)

void table_persist(struct cache *c, uint32_t entry)
{
    if (c->table_fd < 0)
        return;
    unsigned char record[META_RECORD];
    pthread_mutex_lock(&c->table_mu);
    catalogue_record(c->catalogue, entry, c->boot, record);
    if (pwrite(c->table_fd, record, sizeof record, (off_t)(entry + UINT64_C(1)) * META_RECORD)
        != (ssize_t)sizeof record)
        log_debug("cache: a record of the table could not be written: %s", strerror(errno));
    pthread_mutex_unlock(&c->table_mu);
}

/* Records from `first` on: entries get the numbers of their records. */
static int load_records(struct cache *c, struct err *e)
{
    cleanup_free unsigned char *chunk = malloc(LOAD_CHUNK);
    if (!chunk)
        return err_sys(e, ENOMEM, "read the cache's table");
    unsigned unpinned = 0;
    for (off_t off = META_RECORD;;) {
        ssize_t n = pread(c->table_fd, chunk, LOAD_CHUNK, off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read the cache's table in %s", c->dir);
        n -= n % (ssize_t)META_RECORD;
        if (n == 0)
            break;
        for (ssize_t i = 0; i < n; i += META_RECORD) {
            struct meta_file f;
            bool used = meta_record_get(chunk + i, &f);
            bool same_boot = used && c->boot && f.boot == c->boot;
            int rc = catalogue_load(c->catalogue, used ? &f : NULL, same_boot);
            if (rc < 0)
                return err_sys(e, ENOMEM, "read the cache's table");
            unpinned += (unsigned)rc;
        }
        off += n;
    }
    catalogue_loaded(c->catalogue);
    if (unpinned)
        log_warn("cache: the quota is smaller than it was: %u files are pinned no more", unpinned);
    return 0;
}

int table_load(struct cache *c, struct err *e)
{
    if (c->table_fd < 0)
        return 0;
    char boot[META_BOOT_LEN], was[META_BOOT_LEN];
    boot_id(boot, sizeof boot);
    c->boot = boot[0] ? (uint32_t)hash64(boot, strlen(boot)) | 1 : 0;
    unsigned char header[META_RECORD];
    ssize_t n = pread(c->table_fd, header, sizeof header, 0);
    bool ours = n == (ssize_t)sizeof header && meta_header_get(header, was);
    if (!ours && n > 0)
        log_kv(LOG_WARN,
            "the cache's table is of another version, or damaged: what was cached is fetched again",
            "directory", c->dir, NULL);
    if (ours) {
        if (load_records(c, e))
            return -1;
    } else if (ftruncate(c->table_fd, 0)) {
        return err_sys(e, errno, "reset the cache's table in %s", c->dir);
    }
    meta_header_put(header, boot);
    if (pwrite(c->table_fd, header, sizeof header, 0) != (ssize_t)sizeof header && errno != ENOSPC
        && errno != EDQUOT)
        return err_sys(e, errno, "write the cache's table in %s", c->dir);
    return 0;
}
