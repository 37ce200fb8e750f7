/* SPDX-License-Identifier: Apache-2.0 */
/* The HDFS store: what a file is, its bytes, all of one version, and listings. A file is read by
 * its inode, which its name is no way to: what replaces a file has another one, so bytes of two
 * files are never mixed, and data nodes that decode a path twice are not led astray by a '%' in it.
 */
#include "fuse/store/hdfs.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_NS_PER_MIB NS_PER_S

int hdfs_stat(void *impl, const char *path, struct store_stat *st, struct err *e)
{
    struct hdfs *h = impl;
    struct hdfs_status status;
    struct err odd = ERR_INIT;
    struct retry r = RETRY_INIT(h->params.deadline_ns, NULL);
    cleanup_free char *absolute = hdfs_path(h, path), *what = hdfs_name(h, path);
    if (hdfs_check_name(h, path, &odd))
        return store_err(
            e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what, ": HDFS has no such names");
    if (hdfs_status_of(h, absolute, what, &r, &status, e))
        return -1;
    *st = status.st;
    return 0;
}

/* -- bytes ---------------------------------------------------------------------------------------
 */

struct hdfs_reading {
    const char *what;
    sink_fn sink;
    void *user;
    uint64_t off;
    size_t len, got; /* got: bytes that the sink has */
    char version[STORE_VERSION_MAX];
    bool stopped; /* of this attempt */
};

static int take_bytes(void *user, const void *data, size_t len)
{
    struct hdfs_reading *rd = user;
    size_t n = MIN(len, rd->len - rd->got);
    if (n && rd->sink(rd->user, data, n)) {
        rd->stopped = true;
        return 1;
    }
    rd->got += n;
    return n < len ? 1 : 0; /* more than was asked for */
}

/* What is there now must be what is read. */
static int is_what_is_read(struct hdfs_reading *rd, const struct hdfs_status *now, struct err *e)
{
    if (now->st.is_dir)
        return store_err(
            e, ERR_INVALID, EISDIR, REASON_STORE_ERROR, rd->what, ": it is a directory");
    if (*rd->version && strcmp(rd->version, now->st.version) != 0)
        return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, rd->what,
            ": the file has changed (version %s, was %s)", now->st.version, rd->version);
    if (rd->off + rd->len > now->st.size)
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, rd->what,
            ": read up to %" PRIu64 ", but the file ends at %" PRIu64, rd->off + rd->len,
            now->st.size);
    memcpy(rd->version, now->st.version, sizeof rd->version);
    return 0;
}

/* c stays the same for all attempts: it remembers which data node failed. */
static int read_once(struct hdfs *h, struct hdfs_call *c, const char *absolute,
    struct hdfs_reading *rd, struct retry *r, int64_t *after_ns, struct err *e)
{
    struct hdfs_status now;
    *after_ns = -1;
    if (hdfs_status_of(h, absolute, rd->what, r, &now, e) || is_what_is_read(rd, &now, e))
        return -1;
    cleanup_free char *inode = now.id ? xasprintf("/.reserved/.inodes/%" PRIu64, now.id)
                                      : xstrdup(absolute);
    cleanup_free char *range = xasprintf(
        "&offset=%" PRIu64 "&length=%zu", rd->off + rd->got, rd->len - rd->got);
    cleanup_resp struct http_resp resp = {0};
    c->path = inode;
    c->query = range;
    rd->stopped = false;
    int rc = hdfs_once(h, c, r, &resp, after_ns, e);
    if (rd->stopped)
        return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, rd->what, ": cancelled");
    if (rd->got == rd->len)
        return 0;
    if (rc && e->cls == ERR_NOTFOUND) /* between the two requests */
        return store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, rd->what,
            ": the file was replaced or removed while it was read");
    return rc ? -1
              : store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, rd->what,
                  ": the data node sent fewer bytes than were asked for");
}

int hdfs_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e)
{
    struct hdfs *h = impl;
    cleanup_free char *absolute = hdfs_path(h, path), *what = hdfs_name(h, path);
    struct hdfs_reading rd = {.what = what, .sink = sink, .user = user, .off = off, .len = len};
    struct hdfs_call c = {
        .method = "GET", .op = "OPEN", .sink = take_bytes, .sink_user = &rd, .what = what};
    snprintf(rd.version, sizeof rd.version, "%s", version);
    struct retry r = RETRY_INIT(
        h->params.deadline_ns + (int64_t)(len >> 20) * READ_NS_PER_MIB, cancel);
    int64_t after_ns;
    for (size_t begun; begun = rd.got, read_once(h, &c, absolute, &rd, &r, &after_ns, e);) {
        if (!retry_again(&r, e, after_ns))
            return -1;
        if (rd.got > begun)
            r.attempt = 0; /* it moves */
    }
    return 0;
}
