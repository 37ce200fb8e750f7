/* SPDX-License-Identifier: Apache-2.0 */
/* The S3 store, putting: an object in one request, and what is known of it then. */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MIB NS_PER_S

/* Stats the object that was just written. If another one is there already, tells what is known of
 * ours. */
void s3_stat_written(
    struct s3 *s, const char *path, const char *etag, uint64_t len, struct store_stat *st)
{
    struct err ignored = ERR_INIT;
    char version[STORE_VERSION_MAX];
    s3_version(etag, len, 0, version);
    if (s3_stat(s, path, st, &ignored) == 0 && !st->is_dir && st->size == len
        && (!etag || strcmp(st->version, version) == 0)) {
        st->unasked = false; /* we know what we wrote */
        return;
    }
    *st = (struct store_stat){.size = len, .mtime_ns = clock_real_ns()};
    memcpy(st->version, version, sizeof version);
}

/* One request; expect "" leaves a mark on the object, by which it is told from others' when the
 * answer was lost: an empty one has nothing else to be told by. */
int s3_put_single(struct s3 *s, const char *key, const struct store_put *put, const char *meta,
    char **etag, struct err *e)
{
    struct s3_call call = {.method = "PUT",
        .key = key,
        .body = "",
        .from_fd = put->len > 0,
        .fd = put->fd,
        .fd_len = put->len,
        .does = S3_MAKES | S3_CONTENT,
        .await_answer = put->certain,
        .sums = true};
    struct retry r = RETRY_INIT(
        s->params.deadline_ns + (int64_t)(put->len >> 20) * NS_PER_MIB, put->cancel);
    char mark[S3_MARK_LEN];
    if (s3_mark(put->mark, mark, e))
        return -1;
    cleanup_free char *line = xasprintf(S3_MARK_HEADER ": %s", mark);
    for (;;) {
        cleanup_free char *condition = s3_condition(s, put->expect);
        const char *headers[4] = {NULL};
        size_t n = 0;
        if (condition)
            headers[n++] = condition;
        if (put->mark || (condition && !*put->expect))
            headers[n++] = line;
        if (meta)
            headers[n++] = meta;
        struct s3_outcome out = {0};
        cleanup_resp struct http_resp resp = {0};
        call.headers = headers;
        if (!condition && s3_look(s, key, put->expect, e))
            return put->mark && s3_is_marked(s, key, mark, etag) ? 0 : -1;
        if (s3_do(s, &call, &r, &resp, &out, e) == 0) {
            char value[256];
            *etag = xstrdup(s3_tag(s, &resp, value, sizeof value));
            return 0;
        }
        if (condition && s3_conflict(s, key, put->expect, &out, e))
            return s3_is_marked(s, key, mark, etag) ? 0 : -1;
        if (put->certain && e->sys == ECANCELED
            && r.attempt) /* an earlier one may have come there */
            *e = r.cause;
        if (!condition || !s3_no_conditions(s, &out))
            return -1;
    }
}
