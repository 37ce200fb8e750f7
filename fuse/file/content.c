/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/content.h"

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/progress.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE ((size_t)1 << 20)

int content_crc(int fd, uint64_t size, uint32_t *crc, struct err *e)
{
    cleanup_free char *buf = malloc(PIECE);
    if (!buf)
        return err_sys(e, ENOMEM, "read a staged file");
    *crc = 0;
    for (uint64_t off = 0; off < size;) {
        size_t len = (size_t)MIN(size - off, (uint64_t)PIECE);
        if (io_pread_exact(fd, buf, len, off))
            return err_sys(e, errno ? errno : EIO, "read a staged file");
        *crc = crc32c(*crc, buf, len);
        off += len;
        progress_mark();
    }
    return 0;
}

static int add_to_crc(void *user, const void *data, size_t len)
{
    uint32_t *crc = user;
    *crc = crc32c(*crc, data, len);
    return 0;
}

int content_crc_stored(
    struct store *s, const char *path, const struct store_stat *st, uint32_t *crc, struct err *e)
{
    *crc = 0;
    return st->size ? store_stream(s, path, st->version, 0, st->size, add_to_crc, crc, NULL, e) : 0;
}
