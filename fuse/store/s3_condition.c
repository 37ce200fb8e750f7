/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to S3 under the condition that nobody else has written meanwhile. */
#include "fuse/store/s3.h"

#include "fuse/store/gs.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

char *s3_condition(struct s3 *s, const char *expect)
{
    if (!expect || *expect == '~' || atomic_load(&s->unconditional))
        return NULL;
    return *expect ? xasprintf("if-match: \"%s\"", expect) : xstrdup("if-none-match: *");
}

bool s3_knows_no_condition(const struct s3_outcome *out)
{
    return out->status == 501 || strcmp(out->fault.code, "NotImplemented") == 0;
}

bool s3_no_conditions(struct s3 *s, const struct s3_outcome *out)
{
    if (!s3_knows_no_condition(out))
        return false;
    if (!atomic_exchange(&s->unconditional, true))
        log_warn(
            "%s: the server knows no conditional writes; what is replaced is looked at just before, and of two who write at that moment the last one wins",
            s->params.url);
    return true;
}

int s3_fail_expected(struct s3 *s, const char *key, const char *expect, struct err *e)
{
    cleanup_free char *what = s3_name(s, key);
    return *expect ? store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
               ": it was changed by somebody else since it was read")
                   : store_err(e, ERR_CONFLICT, EEXIST, REASON_STORE_ERROR, what,
                       ": somebody else has made an object of that name");
}

bool s3_conflict(
    struct s3 *s, const char *key, const char *expect, const struct s3_outcome *out, struct err *e)
{
    bool gone = expect && *expect && strcmp(out->fault.code, "NoSuchKey") == 0;
    if (!expect || (out->status != 412 && !gone))
        return false;
    s3_fail_expected(s, key, expect, e);
    return true;
}

int s3_look(struct s3 *s, const char *key, const char *expect, struct err *e)
{
    struct store_stat st;
    struct err inner = ERR_INIT;
    if (!expect)
        return 0;
    bool there = s3_stat(s, key + strlen(s->prefix), &st, &inner) == 0 && !st.is_dir;
    if (!there && inner.cls != ERR_NONE && inner.cls != ERR_NOTFOUND) {
        *e = inner;
        return -1;
    }
    return strcmp(there ? st.version : "", expect) == 0 ? 0 : s3_fail_expected(s, key, expect, e);
}

int s3_mark(uint64_t number, char mark[S3_MARK_LEN], struct err *e)
{
    uint64_t random[2] = {0, number};
    if (!number && getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(e, errno, "get a random number");
    snprintf(mark, S3_MARK_LEN, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return 0;
}

bool s3_is_marked(struct s3 *s, const char *key, const char *mark, char **etag)
{
    struct retry r = RETRY_INIT(s->params.deadline_ns, NULL);
    struct s3_call call = {.method = "HEAD", .key = key, .does = S3_CONTENT};
    struct s3_outcome out = {0};
    struct err ignored = ERR_INIT;
    cleanup_resp struct http_resp resp;
    char value[256];
    if (s3_do(s, &call, &r, &resp, &out, &ignored))
        return false;
    if (!http_header(&resp, s->google ? GS_MARK_HEADER : S3_MARK_HEADER, value, sizeof value)
        || strcmp(value, mark) != 0)
        return false;
    *etag = xstrdup(s3_tag(s, &resp, value, sizeof value));
    return true;
}
