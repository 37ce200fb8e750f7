/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/dataset_kind.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "operator/api/dataset_priv.h"

#include <ctype.h>
#include <string.h>

#define FORMS_MAX 1024
#define DIGITS    "0123456789"
#define HEX       DIGITS "abcdefABCDEF"
#define LOWER     "abcdefghijklmnopqrstuvwxyz"
#define ALNUM     HEX "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"

static int parse_claim(
    const struct dataset *d, struct dataset_mount *m, size_t i, const char *rest, struct err *e)
{
    const char *url = m->mount_point;
    size_t n = strcspn(rest, "/");
    m->claim = xstrndup(rest, n);
    m->claim_path = xstrdup(strcmp(rest + n, "/") == 0 ? "" : rest + n);
    size_t len = strlen(m->claim_path);
    if (len > 1 && m->claim_path[len - 1] == '/')
        m->claim_path[len - 1] = '\0';
    if (strspn(m->claim, LOWER DIGITS "-.") != n || !isalnum((unsigned char)*m->claim)
        || (*m->claim_path && !dataset_plain_path(m->claim_path)))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\" is not like pvc://claim/directory", i, url);
    if (strcmp(m->claim, d->name) == 0)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\" is the volume of this Dataset itself: name another claim",
            i, url);
    return 0;
}

/* "host", "host:port" or "[::1]:port", and no user: its password would be seen. */
static bool is_server(const char *s, size_t n)
{
    bool v6 = *s == '[';
    size_t host = v6 ? strspn(s + 1, HEX ":.") + 2 : strspn(s, ALNUM "-.");
    if (host > n || (v6 ? s[host - 1] != ']' : !isalnum((unsigned char)*s)))
        return false;
    size_t digits = host < n ? strspn(s + host + 1, DIGITS) : 0;
    return host == n || (s[host] == ':' && digits > 0 && digits <= 5 && host + 1 + digits == n);
}

/* What is below the bucket or the server, as their stores take it: slashes at its end count for
 * nothing. */
static int parse_names(const struct dataset_mount *m, size_t i, const char *at, struct err *e)
{
    size_t n = strlen(at);
    while (n && at[n - 1] == '/')
        n--;
    cleanup_free char *path = xstrndup(at, n);
    return !n || dataset_plain_path(path)
        ? 0
        : err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint must be like %s: no empty names (two '/' in a row), no '.', no '..', names of at most 255",
            i, m->kind->form);
}

static int parse_bucket(
    const struct dataset *d, struct dataset_mount *m, size_t i, const char *rest, struct err *e)
{
    (void)d;
    size_t n = strcspn(rest, "/");
    if (strspn(rest, ALNUM "-._") < n)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: a bucket's name holds only letters, digits, '.', '-' and '_' (a server's port belongs into options.endpoint, keys into a Secret, see secretRef)",
            i);
    rest += n;
    while (rest[0] == '/' && rest[1] == '/')
        rest++; /* the store leaves them out, too */
    return parse_names(m, i, rest, e);
}

static int parse_server(const struct dataset_mount *m, size_t i, const char *rest, struct err *e)
{
    return is_server(rest, strcspn(rest, "/"))
        ? 0
        : err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint is not like %s, with a port behind the server if it has another one; a user and a password belong into a Secret (secretRef)",
            i, m->kind->form);
}

static int parse_hdfs(
    const struct dataset *d, struct dataset_mount *m, size_t i, const char *rest, struct err *e)
{
    (void)d;
    return parse_server(m, i, rest, e) ? -1 : parse_names(m, i, rest + strcspn(rest, "/"), e);
}

static int parse_web(
    const struct dataset *d, struct dataset_mount *m, size_t i, const char *rest, struct err *e)
{
    (void)d;
    if (parse_server(m, i, rest, e))
        return -1;
    return strchr(rest, ' ') ? err_set(e, ERR_INVALID,
               "spec.mounts[%zu].mountPoint: in the URL of a web server a blank is written %%20", i)
                             : 0;
}

/* A new kind of source is a row here; the CRD's rules say the same to kubectl (crds/). */
static const struct dataset_kind kinds[] = {
    {.scheme = "s3",
        .form = "s3://bucket/prefix",
        .behind = "bucket",
        .defaults = "s3",
        .options = OPTION_OF_S3,
        .parse = parse_bucket},
    {.scheme = "gs",
        .form = "gs://bucket/prefix",
        .behind = "bucket",
        .defaults = "gs",
        .options = OPTION_OF_GS,
        .parse = parse_bucket},
    {.scheme = "pvc",
        .form = "pvc://claim/directory",
        .behind = "claim",
        .defaults = "pvc",
        .options = OPTION_OF_FILES,
        .takes_no_secret = "a PersistentVolumeClaim",
        .parse = parse_claim},
    {.scheme = "hdfs",
        .form = "hdfs://namenode:8020/directory",
        .behind = "name node",
        .defaults = "hdfs",
        .options = OPTION_OF_HDFS,
        .parse = parse_hdfs},
    {.scheme = "https",
        .form = "https://server/directory",
        .behind = "server",
        .defaults = "web",
        .options = OPTION_OF_WEB,
        .takes_no_writes = "a web server",
        .parse = parse_web},
    {.scheme = "http",
        .form = "http://server/directory",
        .behind = "server",
        .defaults = "web",
        .options = OPTION_OF_WEB,
        .takes_no_writes = "a web server",
        .parse = parse_web},
};

const struct dataset_kind *dataset_kind_at(size_t i)
{
    return i < ARRAY_LEN(kinds) ? &kinds[i] : NULL;
}

char *dataset_kind_forms(void)
{
    struct buf b = BUF_INIT(FORMS_MAX);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        buf_addf(&b, "%s%s", !i ? "" : i + 1 < ARRAY_LEN(kinds) ? ", " : " or ", kinds[i].form);
    char *forms = xstrdup(buf_str(&b));
    buf_free(&b);
    return forms;
}

static const struct dataset_kind *kind_of(const char *url)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t n = strlen(kinds[i].scheme);
        if (strncmp(url, kinds[i].scheme, n) == 0 && strncmp(url + n, "://", 3) == 0)
            return &kinds[i];
    }
    return NULL;
}

int dataset_kind_parse(const struct dataset *d, struct dataset_mount *m, size_t i, struct err *e)
{
    const char *url = m->mount_point, *rest = strstr(url, "://");
    cleanup_free char *forms = dataset_kind_forms();
    if (!rest)
        return err_set(
            e, ERR_INVALID, "spec.mounts[%zu].mountPoint: \"%s\" is no URL: use %s", i, url, forms);
    m->kind = kind_of(url);
    if (!m->kind)
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\": unknown URL scheme \"%.*s\": use %s", i, url,
            (int)(rest - url), url, forms);
    for (const char *s = url; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f || *s == '?' || *s == '#')
            return err_set(e, ERR_INVALID,
                "spec.mounts[%zu].mountPoint must not hold control characters, '?' or '#'", i);
    rest += 3;
    if (!strcspn(rest, "/"))
        return err_set(e, ERR_INVALID,
            "spec.mounts[%zu].mountPoint: \"%s\" names no %s after %s://", i, url, m->kind->behind,
            m->kind->scheme);
    return m->kind->parse ? m->kind->parse(d, m, i, rest, e) : 0;
}
