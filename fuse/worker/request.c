/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/request.h"

#include "fuse/store/store.h"
#include "lib/http/http.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NUMBER_DIGITS_MAX 19 /* always fits in 63 bits */

/* Digits only: strtoull alone would take signs and blanks. *end is behind them. */
static int digits(const char *text, uint64_t *out, const char **end)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > NUMBER_DIGITS_MAX)
        return -1;
    *out = strtoull(text, NULL, 10);
    *end = text + n;
    return *out > INT64_MAX ? -1 : 0;
}

int request_number(
    const struct serve_req *req, const char *name, uint64_t dflt, uint64_t *out, struct err *e)
{
    char *text = serve_query(req, name);
    const char *end;
    *out = dflt;
    int rc = text && (digits(text, out, &end) || *end) ? -1 : 0;
    free(text);
    return rc ? err_set(e, ERR_INVALID, "the parameter %s is no number", name) : 0;
}

int request_mark(const struct serve_req *req, uint8_t *out, struct err *e)
{
    uint64_t mark = 0;
    if (request_number(req, "mark", 0, &mark, e))
        return -1;
    *out = (uint8_t)mark;
    return mark <= UINT8_MAX ? 0 : err_set(e, ERR_INVALID, "the parameter mark is above 255");
}

int request_pin(const struct serve_req *req, enum request_pin *out, struct err *e)
{
    char *text = serve_query(req, "pin");
    bool ok = !text || strcmp(text, "1") == 0 || strcmp(text, "0") == 0;
    *out = !text ? REQUEST_PIN_AS_IS : *text == '1' ? REQUEST_PIN : REQUEST_UNPIN;
    free(text);
    return ok ? 0 : err_set(e, ERR_INVALID, "the parameter pin is neither 0 nor 1");
}

int request_parse(const struct serve_req *req, size_t nmounts, struct request *r, struct err *e)
{
    *r = (struct request){.path = serve_query(req, "path"), .version = serve_query(req, "version")};
    uint64_t mount, size;
    int rc = 0;
    if (request_number(req, "mount", UINT64_MAX, &mount, e)
        || request_number(req, "size", UINT64_MAX, &size, e))
        rc = -1;
    else if (mount >= nmounts)
        rc = err_set(
            e, ERR_INVALID, "the parameter mount is missing or names no mount of this dataset");
    else if (size == UINT64_MAX)
        rc = err_set(e, ERR_INVALID, "the parameter size is missing");
    else if (!r->path || !*r->path || !store_path_ok(r->path))
        rc = err_set(e, ERR_INVALID, "the parameter path is missing or no relative path");
    else if (!r->version || strlen(r->version) >= STORE_VERSION_MAX
        || !http_is_word(r->version, strlen(r->version)))
        rc = err_set(e, ERR_INVALID,
            "the parameter version is missing, too long, or no word of visible characters");
    if (rc) {
        request_free(r);
        return -1;
    }
    r->key = (struct cache_key){(uint32_t)mount, r->path, r->version, size};
    return 0;
}

void request_free(struct request *r)
{
    free(r->path);
    free(r->version);
    *r = (struct request){.path = NULL};
}

enum range range_parse(const char *header, uint64_t size, uint64_t *off, uint64_t *len)
{
    *off = 0;
    *len = size;
    if (!header)
        return RANGE_OK;
    if (strncasecmp(header, "bytes=", 6) != 0)
        return RANGE_BAD;
    const char *p = header + 6;
    uint64_t first, last = UINT64_MAX;
    if (*p == '-') { /* the last n bytes */
        if (digits(p + 1, &last, &p) || *p)
            return RANGE_BAD;
        if (last == 0 || size == 0)
            return RANGE_OUTSIDE;
        *len = last < size ? last : size;
        *off = size - *len;
        return RANGE_OK;
    }
    if (digits(p, &first, &p) || *p++ != '-')
        return RANGE_BAD;
    if (*p && (digits(p, &last, &p) || *p || last < first))
        return RANGE_BAD;
    if (first >= size)
        return RANGE_OUTSIDE;
    *off = first;
    *len = (last < size ? last + 1 : size) - first;
    return RANGE_OK;
}
