/* SPDX-License-Identifier: Apache-2.0 */
/* The HDFS store: how things are called, and who asks for them. */
#include "fuse/store/hdfs.h"

#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/text.h"
#include "lib/base/wipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_NS NS_PER_S /* how soon a new delegation token is seen */

/* -- names ----------------------------------------------------------------------------------------
 */

char *hdfs_path(const struct hdfs *h, const char *path)
{
    char *absolute = xasprintf("%s%s%s", h->root, *path ? "/" : "", path);
    if (*absolute)
        return absolute;
    free(absolute);
    return xstrdup("/");
}

char *hdfs_name(const struct hdfs *h, const char *path)
{
    return xasprintf("%s%s%s", h->params.url, *path ? "/" : "", path);
}

static const char *fault_of(const char *path)
{
    size_t len = strlen(path);
    if (strchr(path, ':'))
        return ": HDFS allows no ':' in names: choose another one";
    for (size_t i = 0, n; i < len; i += n)
        if (!(n = text_char(path + i, len - i)))
            return ": names in HDFS are UTF-8, and this one is not";
    return NULL;
}

int hdfs_check_name(const struct hdfs *h, const char *path, struct err *e)
{
    const char *fault = fault_of(path);
    if (!fault)
        return 0;
    cleanup_free char *what = hdfs_name(h, path);
    return store_err(
        e, ERR_INVALID, strchr(path, ':') ? EINVAL : EILSEQ, REASON_STORE_ERROR, what, "%s", fault);
}

int hdfs_check_root(const struct hdfs *h, struct err *e)
{
    const char *fault = fault_of(h->root);
    return fault ? store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, h->params.url, "%s", fault) : 0;
}

/* -- who we are -----------------------------------------------------------------------------------
 */

static int look_at_token(struct hdfs *h, struct err *e)
{
    char *token = NULL;
    mutex_assert_held(&h->mu);
    if (option_get(&h->params, "delegation-token", &token, e))
        return -1;
    h->token_changes += h->token && token ? strcmp(h->token, token) != 0 : h->token != token;
    wipe_text(&h->token);
    h->token = token;
    h->token_read_ns = clock_mono_ns();
    return 0;
}

unsigned hdfs_token_changes(struct hdfs *h)
{
    pthread_mutex_lock(&h->mu);
    unsigned n = h->token_changes;
    pthread_mutex_unlock(&h->mu);
    return n;
}

bool hdfs_token_renewed(struct hdfs *h, unsigned changes)
{
    struct err ignored = ERR_INIT;
    pthread_mutex_lock(&h->mu);
    bool other = true;
    if (!h->by_kerberos)
        other = look_at_token(h, &ignored) == 0 && h->token_changes != changes;
    else
        h->token_refused |= h->token_changes == changes;
    pthread_mutex_unlock(&h->mu);
    return other;
}

enum hdfs_token_state hdfs_token_state(struct hdfs *h)
{
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&h->mu);
    enum hdfs_token_state state = HDFS_TOKEN_GOOD;
    if (!h->token || h->token_refused || now >= h->token_end_ns)
        state = HDFS_TOKEN_NONE;
    else if (now >= h->token_due_ns)
        state = HDFS_TOKEN_DUE;
    pthread_mutex_unlock(&h->mu);
    return state;
}

bool hdfs_token_keep(struct hdfs *h, const char *token, int64_t expires_ms)
{
    pthread_mutex_lock(&h->mu);
    bool same = h->token && strcmp(h->token, token) == 0;
    bool longer = !same || expires_ms > h->token_expires_ms;
    if (longer) {
        int64_t now = clock_mono_ns();
        int64_t left = MAX((expires_ms - clock_real_ns() / NS_PER_MS) * NS_PER_MS, TOKEN_NS * 2);
        h->token_expires_ms = expires_ms;
        h->token_due_ns = now + left / 2;
        h->token_end_ns = now + left;
        h->token_refused = false;
    }
    if (!same) {
        wipe_text(&h->token);
        h->token = xstrdup(token);
        h->token_changes++;
    }
    pthread_mutex_unlock(&h->mu);
    return longer;
}

char *hdfs_token_copy(struct hdfs *h)
{
    pthread_mutex_lock(&h->mu);
    char *token = xstrdup(h->token);
    pthread_mutex_unlock(&h->mu);
    return token;
}

void hdfs_token_put_off(struct hdfs *h)
{
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&h->mu);
    h->token_due_ns = now + MIN(MAX((h->token_end_ns - now) / 4, TOKEN_NS), 60 * NS_PER_S);
    pthread_mutex_unlock(&h->mu);
}

/* WebHDFS takes a token in the URL and nowhere else; messages show no queries. */
char *hdfs_authority(struct hdfs *h, struct err *e)
{
    cleanup_free char *user = h->user ? http_escape(h->user, false) : NULL;
    char *out = NULL;
    pthread_mutex_lock(&h->mu);
    bool old = !h->token_read_ns || clock_mono_ns() - h->token_read_ns >= TOKEN_NS;
    int rc = old && !h->by_kerberos ? look_at_token(h, e) : 0;
    if (rc == 0 && h->token) {
        char *escaped = http_escape(h->token, false);
        out = xasprintf("&delegation=%s", escaped);
        wipe_text(&escaped);
    } else if (rc == 0) {
        out = user ? xasprintf("&user.name=%s", user) : xstrdup("");
    }
    pthread_mutex_unlock(&h->mu);
    return out;
}
