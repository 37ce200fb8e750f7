/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/client_config.h"

#include "lib/base/buf.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <string.h>

#define CONFIG_MAX ((size_t)1 << 20)
#define OF_OTHERS  "csi.storage.k8s.io/"

static const char *const tiers[][2] = {{"cache-memory", "MEM"}, {"cache-disk", "SSD"}};
static const char *const write_types[] = {"Through", "CacheThrough", "AsyncThrough"};
#define WRITE_TYPE "write-type"
#define IMMUTABLE  "immutable"

static bool is_option(const char *key)
{
    return strcmp(key, CLIENT_URL) != 0 && strcmp(key, WRITE_TYPE) != 0
        && strcmp(key, IMMUTABLE) != 0 && strcmp(key, tiers[0][0]) != 0
        && strcmp(key, tiers[1][0]) != 0 && strncmp(key, OF_OTHERS, strlen(OF_OTHERS)) != 0;
}

int client_config_check(const struct volume_pair *params, size_t n, bool read_only, struct err *e)
{
    const char *url = volume_pair_value(params, n, CLIENT_URL),
               *write = volume_pair_value(params, n, WRITE_TYPE),
               *immutable = volume_pair_value(params, n, IMMUTABLE);
    if (!url || !strstr(url, "://"))
        return err_set(e, ERR_INVALID,
            "parameter %s is missing: where the data is, for example file:///data or s3://bucket/prefix",
            CLIENT_URL);
    for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
        const char *quota = volume_pair_value(params, n, tiers[i][0]);
        int64_t bytes;
        if (quota && quantity_parse(quota, &bytes))
            return err_set(e, ERR_INVALID,
                "parameter %s: '%.64s' is not a size; write for example 512Mi", tiers[i][0], quota);
    }
    for (size_t i = 0; write && i < ARRAY_LEN(write_types); i++)
        if (strcmp(write, write_types[i]) == 0)
            write = NULL;
    if (write)
        return err_set(e, ERR_INVALID,
            "parameter %s: '%.64s' is none of Through, CacheThrough, AsyncThrough", WRITE_TYPE,
            write);
    if (immutable && strcmp(immutable, "true") != 0 && strcmp(immutable, "false") != 0)
        return err_set(e, ERR_INVALID, "parameter %s: '%.64s' is neither true nor false", IMMUTABLE,
            immutable);
    if (immutable && !read_only && strcmp(immutable, "true") == 0)
        return err_set(e, ERR_INVALID,
            "parameter %s is true, but the volume is mounted for writing: give it the access mode ReadOnlyMany, or leave %s out",
            IMMUTABLE, IMMUTABLE);
    return 0;
}

static void add_pair(struct buf *b, bool *first, const char *key, const char *value)
{
    if (!*first)
        buf_addc(b, ',');
    *first = false;
    buf_add_json_string(b, key);
    buf_addc(b, ':');
    buf_add_json_string(b, value);
}

static void add_cache(struct buf *b, const struct volume_pair *params, size_t n)
{
    const char *write = volume_pair_value(params, n, WRITE_TYPE);
    bool first = true;
    buf_adds(b, ",\"cache\":{\"tiers\":[");
    for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
        const char *quota = volume_pair_value(params, n, tiers[i][0]);
        int64_t bytes;
        if (!quota || quantity_parse(quota, &bytes) || bytes == 0)
            continue;
        buf_addf(
            b, "%s{\"medium\":\"%s\",\"quota\":%" PRId64 "}", first ? "" : ",", tiers[i][1], bytes);
        first = false;
    }
    buf_adds(b, "]");
    if (write)
        buf_addf(b, ",\"rules\":[{\"path\":\"/\",\"writeType\":\"%s\"}]", write);
    buf_adds(b, "}");
}

char *client_config(
    const char *id, bool read_only, const struct volume_pair *params, size_t n, bool has_secrets)
{
    struct buf b = BUF_INIT(CONFIG_MAX);
    const char *ro = read_only ? "true" : "false";
    bool first = true;
    buf_adds(&b, "{\"namespace\":\"\",\"uid\":\"\",\"name\":");
    buf_add_json_string(&b, id);
    buf_addf(
        &b, ",\"readOnly\":%s,\"mounts\":[{\"path\":\"/\",\"readOnly\":%s,\"mountPoint\":", ro, ro);
    buf_add_json_string(&b, volume_pair_value(params, n, CLIENT_URL));
    buf_adds(&b, ",\"options\":{");
    for (size_t i = 0; i < n; i++)
        if (is_option(params[i].key))
            add_pair(&b, &first, params[i].key, params[i].value);
    buf_addc(&b, '}');
    if (volume_pair_value(params, n, IMMUTABLE))
        buf_addf(&b, ",\"immutable\":%s", volume_pair_value(params, n, IMMUTABLE));
    if (has_secrets) /* its keys as people spell them; client_proc_write() makes files of them */
        buf_adds(&b, ",\"secretDir\":\"0\",\"secretDirName\":\"of the volume\"");
    buf_adds(&b, "}]");
    if (volume_pair_value(params, n, tiers[0][0]) || volume_pair_value(params, n, tiers[1][0])
        || volume_pair_value(params, n, WRITE_TYPE))
        add_cache(&b, params, n);
    buf_adds(&b, "}");
    return buf_take(&b);
}
