/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of a web server. Where they come from is looked at every second, so that a rotated
 * Secret is used without a restart. */
#include "fuse/store/web.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/wipe.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHECK_NS NS_PER_S

struct web_auth {
    const struct store_params *params;
    pthread_mutex_t mu;     /* held while small files are read */
    struct web_lines lines; /* mu */
    bool read, clear;       /* mu; clear: they may go by http:// */
    int64_t read_at_ns;     /* mu */
};

void web_lines_clear(struct web_lines *l)
{
    wipe_text(&l->authorization);
    wipe_text(&l->header);
}

struct web_auth *web_auth_new(const struct store_params *p)
{
    struct web_auth *a = xcalloc(1, sizeof *a);
    a->params = p;
    pthread_mutex_init(&a->mu, NULL);
    return a;
}

void web_auth_free(struct web_auth *a)
{
    if (!a)
        return;
    web_lines_clear(&a->lines);
    pthread_mutex_destroy(&a->mu);
    free(a);
}

static char *basic_line(const char *user, const char *password)
{
    char *pair = xasprintf("%s:%s", user, password);
    char *text = xmalloc(strlen(pair) * 2 + 8);
    EVP_EncodeBlock((unsigned char *)text, (unsigned char *)pair, (int)strlen(pair));
    char *line = xasprintf("Authorization: Basic %s", text);
    wipe_text(&pair);
    wipe_text(&text);
    return line;
}

bool web_header_ok(const char *line)
{
    static const char *const ours[] = {"host", "range", "if-match", "if-none-match", "connection",
        "content-length", "transfer-encoding", "expect", "te", "upgrade"};
    size_t n = strcspn(line, ":");
    if (!n || line[n] != ':' || !line[n + 1 + strspn(line + n + 1, " ")])
        return false;
    for (size_t i = 0; i < n; i++)
        if (!http_is_word(line + i, 1) || strchr("()<>@,;\\\"/[]?={}", line[i]))
            return false;
    for (const char *p = line + n; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            return false;
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strlen(ours[i]) == n && strncasecmp(ours[i], line, n) == 0)
            return false;
    return true;
}

static int err_given(const struct web_auth *a, const char *why, struct err *e)
{
    return store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, a->params->url, ": %s", why);
}

/* What is half given is an error and not used. */
static int read_lines(const struct web_auth *a, struct web_lines *out, bool *clear, struct err *e)
{
    const struct store_params *p = a->params;
    cleanup_free char *user = NULL, *verify = NULL;
    char *password = NULL, *token = NULL;
    int rc = option_require_whole(p, e) || option_get(p, "user", &user, e)
            || option_get(p, "password", &password, e) || option_get(p, "bearer-token", &token, e)
            || option_get(p, "header", &out->header, e) || option_get(p, "tls-verify", &verify, e)
        ? -1
        : 0;
    if (rc == 0 && p->mount->secret_dir && !user && !password && !token && !out->header)
        rc = option_fail_strange(p, e);
    if (rc == 0 && (!user != !password || (user && token)))
        rc = err_given(a,
            user && token ? "a user and a bearer token are given: keep one of them"
                : user    ? "option user is given and password is not: put it into the Secret"
                          : "option password is given and user is not: give both",
            e);
    if (rc == 0 && (user || token) && out->header
        && strncasecmp(out->header, "authorization", strcspn(out->header, ":")) == 0)
        rc = err_given(a, "option header gives Authorization, and so do the others: keep one", e);
    if (rc == 0 && token && !http_is_word(token, strlen(token)))
        rc = err_given(a, "option bearer-token has blanks in it, or letters that are no ASCII", e);
    if (rc == 0 && out->header && !web_header_ok(out->header))
        rc = err_given(a,
            "option header must be one line like X-Api-Key: 1234, of no header that HTTP itself needs",
            e);
    if (rc == 0 && token)
        out->authorization = xasprintf("Authorization: Bearer %s", token);
    else if (rc == 0 && user)
        out->authorization = basic_line(user, password);
    *clear = verify && strcmp(verify, "false") == 0;
    wipe_text(&password);
    wipe_text(&token);
    if (rc)
        web_lines_clear(out);
    return rc;
}

static bool same_line(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static int read_again(struct web_auth *a, struct err *e)
{
    struct web_lines now = {0};
    bool clear;
    mutex_assert_held(&a->mu);
    if (a->read && clock_mono_ns() - a->read_at_ns < CHECK_NS)
        return 0;
    if (read_lines(a, &now, &clear, e))
        return -1;
    if (a->read
        && !(same_line(now.authorization, a->lines.authorization)
            && same_line(now.header, a->lines.header)))
        log_info("%s: the credentials have changed and are used from now on", a->params->url);
    web_lines_clear(&a->lines);
    a->lines = now;
    a->clear = clear;
    a->read = true;
    a->read_at_ns = clock_mono_ns();
    return 0;
}

bool web_auth_renew(struct web_auth *a, struct web_lines *lines)
{
    struct web_lines now;
    struct err ignored = ERR_INIT;
    pthread_mutex_lock(&a->mu);
    a->read_at_ns = clock_mono_ns() - CHECK_NS;
    pthread_mutex_unlock(&a->mu);
    if (web_auth_get(a, &now, &ignored))
        return false;
    bool other = !same_line(now.authorization, lines->authorization)
        || !same_line(now.header, lines->header);
    web_lines_clear(lines);
    *lines = now;
    return other;
}

int web_auth_get(struct web_auth *a, struct web_lines *out, struct err *e)
{
    *out = (struct web_lines){0};
    pthread_mutex_lock(&a->mu);
    int rc = read_again(a, e);
    if (rc == 0) {
        bool any = a->lines.authorization || a->lines.header;
        if (any && !a->clear && strncmp(a->params->url, "https:", 6) != 0)
            rc = store_err(e, ERR_DENIED, 0, REASON_INVALID_OPTION, a->params->url,
                ": credentials are not sent by http://, where anybody on the way sees them: use https://, or set option tls-verify to \"false\"");
        else
            *out = (struct web_lines){xstrdup(a->lines.authorization), xstrdup(a->lines.header)};
    }
    pthread_mutex_unlock(&a->mu);
    return rc;
}
