/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of stores: their text carries a reason, which conditions, exit messages and retries read
 * back from it. */
#include "fuse/store/impl.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const reason_names[] = {
    [REASON_INVALID_URL] = "InvalidURL",
    [REASON_INVALID_OPTION] = "InvalidOption",
    [REASON_SECRET_MISSING] = "SecretMissing",
    [REASON_CONFIG_MAP_MISSING] = "ConfigMapMissing",
    [REASON_ACCESS_DENIED] = "AccessDenied",
    [REASON_EXPIRED] = "ExpiredCredentials",
    [REASON_BUCKET_NOT_FOUND] = "BucketNotFound",
    [REASON_NOT_FOUND] = "NotFound",
    [REASON_NAME_NOT_RESOLVED] = "NameNotResolved",
    [REASON_UNREACHABLE] = "Unreachable",
    [REASON_TLS_FAILED] = "TLSFailed",
    [REASON_STORE_ERROR] = "StoreError",
};

/* The first ": Reason:" or ": Reason (" in the text; *at: where the reason begins. NULL if there is
 * none. */
static const char *find_reason(const char *text, const char **at)
{
    const char *best = NULL;
    for (size_t i = 0; i < ARRAY_LEN(reason_names); i++) {
        size_t n = strlen(reason_names[i]);
        for (const char *p = text; (p = strstr(p, reason_names[i])); p += n) {
            bool starts = p - text >= 2 && p[-1] == ' ' && p[-2] == ':';
            bool ends = p[n] == ':' || (p[n] == ' ' && p[n + 1] == '(');
            if (starts && ends && (!best || p < *at)) {
                best = reason_names[i];
                *at = p;
            }
        }
    }
    return best;
}

int store_err(struct err *e, enum err_class cls, int sys, enum reason reason, const char *what,
    const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *text = xvasprintf(fmt, ap);
    va_end(ap);
    /* A long name must not push the reason out of the message, nor one that looks like a reason
     * take its place. */
    size_t n = strlen(what), room = 200;
    cleanup_free char *name = xasprintf("%.*s%s: ", (int)MIN(n, room), what, n > room ? "…" : "");
    cleanup_free char *message = xasprintf("%s%s%s", name, reason_names[reason], text);
    for (const char *at; find_reason(message, &at) && (size_t)(at - message) < strlen(name);)
        message[at - message - 1] = '_';
    err_set(e, cls, "%s", message);
    e->sys = sys;
    return -1;
}

int store_err_network(const char *url, const char *what, const struct err *inner, struct err *e)
{
    if (inner->sys == ECANCELED)
        return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, what, ": cancelled");
    if (inner->cls == ERR_DENIED)
        return store_err(e, ERR_DENIED, EIO, REASON_TLS_FAILED, url,
            ": %s; name the authority's certificates in caBundle (or option ca-cert)", inner->msg);
    if (inner->cls == ERR_EXHAUSTED || inner->cls == ERR_INVALID)
        return store_err(e, inner->cls, inner->sys, REASON_STORE_ERROR, what, ": %s", inner->msg);
    return store_err(e, ERR_RETRY, EIO,
        inner->sys == EADDRNOTAVAIL ? REASON_NAME_NOT_RESOLVED : REASON_UNREACHABLE, what, ": %s",
        inner->msg);
}

const char *store_reason(const struct err *e)
{
    const char *at, *name = find_reason(e->msg, &at);
    return name ? name : reason_names[REASON_STORE_ERROR];
}
