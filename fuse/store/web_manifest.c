/* SPDX-License-Identifier: Apache-2.0 */
/* The list of files of a web server that lists nothing itself. It is kept, since every directory is
 * listed from it, and the server is asked now and then whether it is still the same. */
#include "fuse/store/web.h"

#include "fuse/store/web_index.h"
#include "fuse/store/web_lead.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/http/head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX (64u << 20)
#define FRESH_NS (10 * NS_PER_S)

struct web_manifest {
    char *url;
    pthread_mutex_t mu; /* held while the server is asked: one asks for all */
    struct buf text;    /* mu */
    char *unless;       /* mu: header line that asks for another one only; or NULL */
    int64_t asked_ns;   /* mu; 0: never */
};

struct web_manifest *web_manifest_new(char *url_take)
{
    struct web_manifest *m = xcalloc(1, sizeof *m);
    m->url = url_take;
    pthread_mutex_init(&m->mu, NULL);
    return m;
}

void web_manifest_free(struct web_manifest *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->mu);
    buf_free(&m->text);
    free(m->unless);
    free(m->url);
    free(m);
}

static int refresh_list(struct web *w, struct web_manifest *m, struct retry *r, struct err *e)
{
    char value[256];
    cleanup_free char *at = NULL;
    cleanup_resp struct http_resp resp = {0};
    struct web_call c = {.method = "GET",
        .url = m->url,
        .match = m->unless,
        .may_be_same = m->unless != NULL,
        .max_body = LIST_MAX,
        .what = m->url};
    mutex_assert_held(&m->mu);
    if (m->asked_ns && clock_mono_ns() - m->asked_ns < FRESH_NS)
        return 0;
    if (web_do(w, &c, r, &resp, &at, e))
        return -1;
    m->asked_ns = clock_mono_ns();
    if (resp.status == 304)
        return 0;
    buf_free(&m->text);
    m->text = resp.body;
    resp.body = (struct buf){0};
    free(m->unless);
    m->unless = http_header(&resp, "etag", value, sizeof value)
        ? xasprintf("If-None-Match: %s", value)
        : http_header(&resp, "last-modified", value, sizeof value)
        ? xasprintf("If-Modified-Since: %s", value)
        : NULL;
    return 0;
}

/* A line may be a URL below the one that is mounted. False: it is below another one. */
static bool take_url(const struct web *w, char **path)
{
    size_t n = strlen(w->base);
    if (!strstr(*path, "://"))
        return true;
    if (strncmp(*path, w->base, n) != 0)
        return false;
    memmove(*path, *path + n, strlen(*path + n) + 1);
    return http_head_unescape(*path, false) == 0 && **path && store_path_ok(*path)
        && !strchr(*path, '\n');
}

int web_manifest_each(struct web *w, struct retry *r, void (*fn)(void *user, const char *path),
    void *user, struct err *e)
{
    struct web_manifest *m = w->manifest;
    pthread_mutex_lock(&m->mu);
    int rc = refresh_list(w, m, r, e);
    const char *line = buf_str(&m->text), *end = line + m->text.len;
    for (unsigned number = 1; rc == 0; number++) {
        cleanup_free char *path = NULL;
        uint64_t size;
        bool bad;
        if (!web_manifest_line(&line, end, &path, &size, &bad))
            break;
        bool is_url = path && strstr(path, "://");
        if (is_url ? !take_url(w, &path) : bad) {
            cleanup_free char *shown = web_shown_lead(path);
            rc = store_err(e, ERR_INVALID, EINVAL, REASON_INVALID_OPTION, m->url,
                ": line %u is no path below the URL: %.100s", number, shown);
        } else if (path)
            fn(user, path);
    }
    pthread_mutex_unlock(&m->mu);
    return rc;
}
