/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/web_words.h"

#include "lib/base/mem.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

/* A hub says 401 of what does not exist, too, so that nobody learns of private repositories. */
static const char *repo_words(const struct web_refusal *r)
{
    if (strcmp(r->code, "GatedRepo") == 0)
        return r->known
            ? "the repository is gated, and the account of the token has no access: ask for it on the repository's page, as that account, or give the token of one that has it"
            : "the repository is gated: ask for access on its page, then give a token of that account (option bearer-token) from a Secret";
    if (strcmp(r->code, "RepoNotFound") == 0)
        return r->known
            ? "there is no such repository, or the account of the token may not see it: check the URL and whose token it is"
            : "there is no such repository, or it is private: check the URL, or give a token (option bearer-token) from a Secret";
    if (strcmp(r->code, "RevisionNotFound") == 0)
        return "the repository has no such revision: check what follows /resolve/ in the URL";
    return NULL;
}

const char *web_refusal_words(const struct web_refusal *r)
{
    const char *words = r->repo ? repo_words(r) : NULL;
    if (words || (r->status != 401 && r->status != 403))
        return words;
    if (r->repo && r->known && r->status == 401)
        return "the server does not take the token: is it a token of this very server, complete, and not revoked? (option bearer-token)";
    if (r->repo && r->known)
        return "the token may not read this repository: check what it is for, and whether its account has access";
    if (r->repo)
        return "no credentials were given: a private or gated repository needs a token (option bearer-token) from a Secret";
    if (r->listing && r->status == 403)
        return "the server does not list this directory: turn its index page on there, give a list (option manifest), or check what the credentials may read";
    return r->known
        ? "check the user and password, or the token, and what they may read"
        : "no credentials were given: set options user and password, or bearer-token, from a Secret";
}

/* -- buckets by their web addresses ----------------------------------------------------------- */

/* In the host's name: BUCKET and Amazon's region stand where they stand. */
enum address {
    BUCKET_IN_HOST, /* BUCKET.s3.REGION.amazonaws.com/prefix */
    BUCKET_IN_PATH, /* s3.REGION.amazonaws.com/BUCKET/prefix */
    CONSOLE,        /* its bucket is behind "buckets/", "object/" or "browser/" */
};

static bool ends_with(const char *host, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n >= k && strncasecmp(host + n - k, end, k) == 0
        && (n == k || *end == '.' || host[n - k - 1] == '.');
}

static bool is_of_amazon(const char *host, size_t n)
{
    return ends_with(host, n, ".amazonaws.com") || ends_with(host, n, ".amazonaws.com.cn");
}

/* How many bytes of a host of Amazon's are the bucket: those before ".s3." or ".s3-"; -1: it is no
 * host of S3. */
static ssize_t bucket_in(const char *host, size_t n)
{
    for (size_t i = n - 2; i-- > 0;) /* a bucket's name may have such a part, too */
        if ((i == 0 || host[i - 1] == '.') && strncasecmp(host + i, "s3", 2) == 0
            && (host[i + 2] == '.' || host[i + 2] == '-'))
            return i ? (ssize_t)i - 1 : 0;
    return -1;
}

/* false: it is of no bucket. *bucket: bytes of the host that are its name. */
static bool bucket_address(
    const char *host, size_t n, enum address *how, size_t *bucket, const char **scheme)
{
    static const char google[] = "storage.googleapis.com";
    *scheme = "s3";
    *bucket = 0;
    ssize_t in = is_of_amazon(host, n) ? bucket_in(host, n) : -1;
    if (in >= 0) {
        *how = in ? BUCKET_IN_HOST : BUCKET_IN_PATH;
        *bucket = (size_t)in;
        return true;
    }
    if (ends_with(host, n, "console.aws.amazon.com")
        || ends_with(host, n, "console.amazonaws.cn")) {
        *how = CONSOLE;
        return true;
    }
    *scheme = "gs";
    if (ends_with(host, n, google)) {
        *how = n > strlen(google) ? BUCKET_IN_HOST : BUCKET_IN_PATH;
        *bucket = n - strlen(google) - (n > strlen(google));
        return true;
    }
    *how = CONSOLE;
    return ends_with(host, n, "console.cloud.google.com")
        || ends_with(host, n, "storage.cloud.google.com");
}

/* What follows the first of the words that the path has; the whole path if it has none, as that of
 * storage.cloud.google.com; NULL: a page without a bucket. */
static const char *behind_words(const char *path, const char *host)
{
    static const char *const words[] = {"/buckets/", "/object/", "/browser/"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        const char *at = strstr(path, words[i]);
        if (at)
            return at + strlen(words[i]);
    }
    return strncasecmp(host, "storage.", 8) == 0 ? path + strspn(path, "/") : NULL;
}

char *web_bucket_of(const char *url, bool *page)
{
    const char *host = strstr(url, "://"), *scheme;
    enum address how;
    size_t bucket;
    *page = false;
    if (!host || strncasecmp(url, "http", 4) != 0)
        return NULL;
    host += 3;
    size_t n = strcspn(host, "/:?#");
    const char *path = host + strcspn(host, "/?#");
    if (!bucket_address(host, n, &how, &bucket, &scheme))
        return NULL;
    *page = how == CONSOLE;
    const char *rest = how == CONSOLE ? behind_words(path, host) : path + strspn(path, "/");
    if (!rest || (how != BUCKET_IN_HOST && !*rest))
        return *page ? xasprintf("%s://BUCKET/PREFIX", scheme) : NULL;
    int len = (int)strcspn(rest, "?#;");
    return bucket
        ? xasprintf("%s://%.*s%s%.*s", scheme, (int)bucket, host, len ? "/" : "", len, rest)
        : xasprintf("%s://%.*s", scheme, len, rest);
}
