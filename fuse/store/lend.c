/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/lend.h"

#include "fuse/store/gs_account.h"
#include "lib/base/buf.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/wipe.h"

#include <errno.h>
#include <string.h>

#define TOKEN_MAX (64u << 10) /* bytes */

struct http *lend_near(struct err *e)
{
    const struct http_conf near = {.direct = true, .connect_ns = LEND_PROBE_NS, .max_idle = 1};
    return http_new(&near, e);
}

void lend_answer_free(struct http_resp *resp)
{
    if (resp->body.data)
        explicit_bzero(resp->body.data, resp->body.len);
    http_resp_free(resp);
}

int64_t lend_until(const struct http_resp *resp, const char *until)
{
    char date[64];
    int64_t now = clock_real_ns(), end;
    if (!until || clock_parse_rfc3339(until, &end))
        return LEND_LIFETIME;
    if (http_header(resp, "date", date, sizeof date))
        clock_parse_http_date(date, &now);
    return end - now;
}

void lend_form_add(struct buf *form, const char *name, const char *value)
{
    char *escaped = http_escape(value, false);
    buf_addf(form, "%s%s=%s", form->len ? "&" : "", name, escaped);
    wipe_text(&escaped);
}

void lend_form_free(struct buf *form)
{
    if (form->data)
        explicit_bzero(form->data, form->len);
    buf_free(form);
}

char *lend_token(const struct store_params *p, const char *file, const char *field, struct err *e)
{
    struct err inner = ERR_INIT;
    size_t len = 0;
    char *text = file_read(file, TOKEN_MAX, &len, &inner);
    if (text && field) {
        char *value = gs_account_field(text, len, field);
        wipe_text(&text);
        text = value;
        len = value ? strlen(value) : 0;
    }
    while (text && len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    if (text && len && http_is_word(text, len))
        return text;
    wipe_text(&text);
    store_err(e, ERR_DENIED, EACCES, REASON_SECRET_MISSING, p->url, ": there is no token in %s%s%s",
        file, *inner.msg ? ": " : "", inner.msg);
    return NULL;
}

int lend_err_network(const struct store_params *p, const char *what, const char *at,
    const char *words, const struct err *inner, struct err *e)
{
    enum reason reason = inner->cls == ERR_DENIED ? REASON_TLS_FAILED
        : inner->sys == EADDRNOTAVAIL             ? REASON_NAME_NOT_RESOLVED
                                                  : REASON_UNREACHABLE;
    return store_err(e, inner->cls == ERR_DENIED ? ERR_DENIED : ERR_RETRY, EIO, reason, p->url,
        ": no %s from %s: %s", what, at, words);
}
