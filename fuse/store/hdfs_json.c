/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/hdfs_json.h"

#include "fuse/store/impl.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX (INT64_MAX / NS_PER_MS)

/* 0, 1: it is something that is not shown, -1. */
static int take_status(const json_t *j, struct hdfs_status *out, struct err *e)
{
    const char *type;
    int64_t length, mtime, id = jget_int(j, "fileId", 0);
    *out = (struct hdfs_status){0};
    if (jget_str_req(j, "type", &type, e) || jget_int_req(j, "length", 0, INT64_MAX, &length, e)
        || jget_int_req(j, "modificationTime", 0, TIME_MAX, &mtime, e))
        return -1;
    out->st.is_dir = strcmp(type, "DIRECTORY") == 0;
    if (!out->st.is_dir && strcmp(type, "FILE") != 0)
        return 1;
    out->st.mtime_ns = mtime * NS_PER_MS;
    out->id = id > 0 ? (uint64_t)id : 0;
    out->permission = (unsigned)strtoul(jget_str(j, "permission", "0"), NULL, 8) & 07777;
    snprintf(out->owner, sizeof out->owner, "%s", jget_str(j, "owner", ""));
    snprintf(out->group, sizeof out->group, "%s", jget_str(j, "group", ""));
    if (out->st.is_dir)
        return 0;
    out->st.size = (uint64_t)length;
    snprintf(out->st.version, sizeof out->st.version, "%" PRIu64 "-%" PRId64 "-%" PRId64, out->id,
        mtime, length);
    return 0;
}

int hdfs_json_status(const char *text, size_t len, struct hdfs_status *out, struct err *e)
{
    cleanup_json json_t *j = json_parse(text, len, e);
    const json_t *status = j ? jget_obj(j, "FileStatus") : NULL;
    if (!j)
        return -1;
    if (!status)
        return err_set(e, ERR_INVALID, "no FileStatus in the answer");
    int rc = take_status(status, out, e);
    return rc > 0 ? err_set(e, ERR_NOTFOUND, "neither a file nor a directory") : rc;
}

static bool is_listed(const char *name, size_t entries)
{
    return *name ? store_name_ok(name, strlen(name)) : entries == 1;
}

int hdfs_json_listing(const char *text, size_t len, hdfs_entry_fn fn, void *user, char **last,
    bool *more, struct err *e)
{
    *last = NULL;
    *more = false;
    cleanup_json json_t *j = json_parse(text, len, e);
    if (!j)
        return -1;
    const json_t *list = jget_arr(j, "DirectoryListing.partialListing.FileStatuses.FileStatus");
    if (!list)
        list = jget_arr(j, "FileStatuses.FileStatus");
    if (!list)
        return err_set(e, ERR_INVALID, "no FileStatuses in the answer");
    size_t n = json_array_size(list);
    bool ended = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *name = jget_str(entry, "pathSuffix", NULL);
        struct hdfs_status status;
        int rc = name ? take_status(entry, &status, e)
                      : err_set(e, ERR_INVALID, "an entry has no pathSuffix");
        if (rc < 0)
            return -1;
        if (i == n - 1)
            *last = xstrdup(name);
        if (!ended && rc == 0 && is_listed(name, n))
            ended = fn(user, name, &status) != 0;
    }
    *more = n > 0 && jget_int(j, "DirectoryListing.remainingEntries", 0) > 0;
    return 0;
}

void hdfs_json_fault(const char *text, size_t len, struct hdfs_fault *out)
{
    struct err ignored = ERR_INIT;
    cleanup_json json_t *j = json_parse(text, len, &ignored);
    *out = (struct hdfs_fault){0};
    if (!j)
        return;
    const char *message = jget_str(j, "RemoteException.message", "");
    snprintf(
        out->exception, sizeof out->exception, "%s", jget_str(j, "RemoteException.exception", ""));
    cleanup_free char *line = text_legible(
        message, strcspn(message, "\r\n"), sizeof out->message - 1);
    snprintf(out->message, sizeof out->message, "%s", line);
    text_end_whole(out->exception);
}

int hdfs_json_boolean(const char *text, size_t len, bool *out, struct err *e)
{
    cleanup_json json_t *j = json_parse(text, len, e);
    const json_t *value = j ? jget(j, "boolean") : NULL;
    if (!j)
        return -1;
    if (!json_is_boolean(value))
        return err_set(e, ERR_INVALID, "no boolean in the answer");
    *out = json_is_true(value);
    return 0;
}

char *hdfs_json_token(const char *text, size_t len, struct err *e)
{
    const char *token;
    cleanup_json json_t *j = json_parse(text, len, e);
    if (!j || jget_str_req(j, "Token.urlString", &token, e))
        return NULL;
    if (http_is_word(token, strlen(token)))
        return xstrdup(token);
    err_set(e, ERR_INVALID, "Token.urlString is no token");
    return NULL;
}

int hdfs_json_time(const char *text, size_t len, int64_t *out_ms, struct err *e)
{
    cleanup_json json_t *j = json_parse(text, len, e);
    return j ? jget_int_req(j, "long", 0, TIME_MAX, out_ms, e) : -1;
}

char *hdfs_json_attribute(const char *text, size_t len, const char *name)
{
    struct err ignored = ERR_INIT;
    cleanup_json json_t *j = json_parse(text, len, &ignored);
    const json_t *list = j ? jget_arr(j, "XAttrs") : NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *value = jget_str(entry, "value", NULL);
        size_t n = value ? strlen(value) : 0;
        if (strcmp(jget_str(entry, "name", ""), name) == 0 && n >= 2 && *value == '"'
            && value[n - 1] == '"')
            return xstrndup(value + 1, n - 2);
    }
    return NULL;
}

bool hdfs_redirect_ok(const char *location, bool tls, const char **host, size_t *nhost)
{
    bool secure = strncmp(location, "https://", 8) == 0;
    if (!secure && (tls || strncmp(location, "http://", 7) != 0))
        return false;
    *host = location + (secure ? 8 : 7);
    *nhost = strcspn(*host, "/?#");
    const char *path = *host + *nhost, *marker = strstr(path, "/webhdfs/v1/");
    return *nhost && !memchr(*host, '@', *nhost) && http_is_word(location, strlen(location))
        && marker && !memchr(path, '?', (size_t)(marker - path)) && !strchr(path, '#');
}
