/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/web_hub.h"

#include "fuse/store/impl.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- URLs ------------------------------------------------------------------------------------ */

/* Names of a repository: "name" or "owner/name". NULL: at is no path to one. */
static const char *find_resolve(const char *at)
{
    static const char word[] = "resolve/";
    for (int names = 0; names < 3; names++) {
        if (names && strncmp(at, word, sizeof word - 1) == 0)
            return at;
        size_t n = strcspn(at, "/");
        if (!n || !at[n])
            return NULL;
        at += n + 1;
    }
    return NULL;
}

struct web_hub *web_hub_new(const char *base)
{
    const char *host = strstr(base, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    if (!path)
        return NULL;
    path++;
    bool kind = strncmp(path, "datasets/", 9) == 0 || strncmp(path, "spaces/", 7) == 0;
    const char *name = kind ? strchr(path, '/') + 1 : path;
    const char *resolve = find_resolve(name);
    const char *revision = resolve ? strchr(resolve, '/') + 1 : NULL;
    size_t n = revision ? strcspn(revision, "/") : 0;
    if (!n)
        return NULL;
    struct web_hub *h = xcalloc(1, sizeof *h);
    h->tree = xasprintf("%.*sapi/%s%.*stree/%.*s", (int)(path - base), base, kind ? "" : "models/",
        (int)(resolve - path), path, (int)n, revision);
    h->prefix = xstrdup(revision[n] ? revision + n + 1 : "");
    return h;
}

void web_hub_free(struct web_hub *h)
{
    if (!h)
        return;
    free(h->tree);
    free(h->prefix);
    free(h);
}

char *web_hub_url(const struct web_hub *h, const char *dir, bool tree)
{
    cleanup_free char *escaped = http_escape(dir, true);
    char *url = xasprintf("%s/%s%s", h->tree, h->prefix, escaped);
    size_t n = strlen(url);
    while (url[n - 1] == '/')
        url[--n] = '\0';
    char *whole = xasprintf("%s?recursive=%s", url, tree ? "true" : "false");
    free(url);
    return whole;
}

char *web_next_page(const char *link)
{
    for (const char *p = link; (p = strchr(p, '<')); p++) {
        const char *end = strchr(p, '>');
        if (!end)
            return NULL;
        size_t params = strcspn(end, ",<");
        cleanup_free char *rest = xstrndup(end, params);
        if (strstr(rest, "rel=\"next\"") || strstr(rest, "rel=next"))
            return xstrndup(p + 1, (size_t)(end - p - 1));
        p = end;
    }
    return NULL;
}

/* -- pages ------------------------------------------------------------------------------------ */

void web_hub_version(const char *etag, char out[STORE_VERSION_MAX])
{
    const char *tag = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
    size_t n = strlen(tag);
    out[0] = '\0';
    if (n > 2 && tag[0] == '"' && tag[n - 1] == '"') {
        tag++;
        n -= 2;
    }
    if (n && n < STORE_VERSION_MAX && *tag != '~' && http_is_word(tag, n) && !memchr(tag, '"', n))
        snprintf(out, STORE_VERSION_MAX, "%.*s", (int)n, tag);
}

void web_hub_note(const struct http_resp *resp, struct web_linked *l)
{
    char value[256];
    bool ours = resp->status / 100 == 2; /* and lies nowhere else */
    if (http_header(resp, "x-linked-etag", value, sizeof value)
        || (ours && http_header(resp, "etag", value, sizeof value)))
        web_hub_version(value, l->version);
    if (http_header(resp, "x-linked-size", value, sizeof value)
        || (resp->status == 200 && http_header(resp, "content-length", value, sizeof value))) {
        l->sized = true;
        l->size = strtoull(value, NULL, 10);
    }
}

/* 0, 1: it is something that is not shown, -1. */
static int take_entry(const json_t *j, struct store_stat *st, const char **path, struct err *e)
{
    const char *type, *oid = jget_str(j, "lfs.oid", jget_str(j, "oid", ""));
    int64_t size;
    *st = (struct store_stat){0};
    if (jget_str_req(j, "type", &type, e) || jget_str_req(j, "path", path, e))
        return -1;
    st->is_dir = strcmp(type, "directory") == 0;
    if (st->is_dir)
        return 0;
    if (strcmp(type, "file") != 0)
        return 1;
    const char *where = jget_obj(j, "lfs") ? "lfs.size" : "size";
    if (jget_int_req(j, where, 0, INT64_MAX, &size, e))
        return -1;
    st->size = (uint64_t)size;
    web_hub_version(oid, st->version);
    return 0;
}

int web_hub_page(const char *text, size_t len, const struct web_hub *h, const char *dir,
    store_list_fn fn, void *user, struct err *e)
{
    cleanup_json json_t *j = json_parse(text, len, e);
    cleanup_free char *above = xstrdup(h->prefix);
    if (!j)
        return -1;
    if (!json_is_array(j) || http_head_unescape(above, false))
        return err_set(e, ERR_INVALID, "no list of files");
    cleanup_free char *prefix = xasprintf("%s%s%s", above, dir, *dir ? "/" : "");
    size_t skip = strlen(prefix);
    for (size_t i = 0; i < json_array_size(j); i++) {
        struct store_stat st;
        const char *path;
        int rc = take_entry(json_array_get(j, i), &st, &path, e);
        if (rc < 0)
            return -1;
        if (rc || strncmp(path, prefix, skip) != 0)
            continue;
        if (!path[skip] || !store_path_ok(path + skip) || strchr(path, '\n'))
            store_left_out(h->tree, path, NAME_OF_NO_FILE);
        else if (fn(user, &(struct store_entry){.name = path + skip, .st = st}))
            break;
    }
    return 0;
}
