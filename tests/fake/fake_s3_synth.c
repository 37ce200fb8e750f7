/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are made up when somebody asks: millions of them. */
#include "tests/fake/fake_s3_ops.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_DIR  6 /* "d0000/" */
#define NAME_FILE 9 /* "f00000000" */

/* What is after "<prefix>/", or NULL. */
static const char *below(const struct fake_s3 *f, const char *key)
{
    size_t n = strlen(f->synth.prefix);
    return n && strncmp(key, f->synth.prefix, n) == 0 && key[n] == '/' ? key + n + 1 : NULL;
}

static void etag_of(const char *key, char out[40])
{
    snprintf(out, 40, "\"%016" PRIx64 "%016" PRIx64 "\"", hash64(key, strlen(key)),
        hash64_mix(1, strlen(key)));
}

static bool number_of(const char *text, char letter, unsigned digits, unsigned end, unsigned *out)
{
    char *rest;
    if (text[0] != letter || strspn(text + 1, "0123456789") != digits)
        return false;
    *out = (unsigned)strtoul(text + 1, &rest, 10);
    return *out < end;
}

bool synth_object(const struct fake_s3 *f, const char *key, struct object *out)
{
    const char *path = below(f, key);
    unsigned dir, file;
    if (!path || !number_of(path, 'd', 4, f->synth.dirs, &dir) || path[5] != '/'
        || !number_of(path + NAME_DIR, 'f', 8, f->synth.files, &file) || path[NAME_DIR + NAME_FILE])
        return false;
    out->len = f->synth.size;
    out->data = xmalloc(out->len + 1);
    for (size_t i = 0, n = strlen(key); i < out->len; i++)
        out->data[i] = key[i % n];
    etag_of(key, out->etag);
    return true;
}

static void add_dir(struct answer *a, const char *prefix, unsigned i)
{
    buf_addf(&a->body, "<CommonPrefixes><Prefix>%s/d%04u/</Prefix></CommonPrefixes>", prefix, i);
}

static void add_file(const struct fake_s3 *f, struct answer *a, unsigned dir, unsigned i)
{
    char key[128], etag[40];
    snprintf(key, sizeof key, "%s/d%04u/f%08u", f->synth.prefix, dir, i);
    etag_of(key, etag);
    buf_addf(&a->body,
        "<Contents><Key>%s</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>%s</ETag><Size>%zu</Size></Contents>",
        key, etag, f->synth.size);
}

/* Names [from, end) of a directory; text: the beginning that they must have ("" or a whole name).
 */
static void select_names(const char *text, const char *token, char letter, unsigned digits,
    unsigned *from, unsigned *end)
{
    unsigned i;
    if (*text && number_of(text, letter, digits, *end, &i)) {
        *from = i;
        *end = i + 1;
    } else if (*text) {
        *end = 0;
    }
    if (token && number_of(token, letter, digits, UINT32_MAX, &i) && i + 1 > *from)
        *from = i + 1;
}

bool synth_list(
    const struct fake_s3 *f, const char *prefix, const char *token, size_t limit, struct answer *a)
{
    const char *path = below(f, prefix), *after = token ? below(f, token) : NULL;
    if (!path)
        return false;
    unsigned dir = 0, from = 0, end;
    bool files = strchr(path, '/') != NULL;
    if (files) {
        end = number_of(path, 'd', 4, f->synth.dirs, &dir) ? f->synth.files : 0;
        select_names(path + NAME_DIR, after ? after + NAME_DIR : NULL, 'f', 8, &from, &end);
    } else {
        end = f->synth.dirs;
        select_names(path, after, 'd', 4, &from, &end);
    }
    bool more = end > from && end - from > limit;
    if (more)
        end = from + (unsigned)limit;
    for (unsigned i = from; i < end; i++)
        if (files)
            add_file(f, a, dir, i);
        else
            add_dir(a, f->synth.prefix, i);
    buf_addf(&a->body, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more && files)
        buf_addf(&a->body, "<NextContinuationToken>%s/d%04u/f%08u</NextContinuationToken>",
            f->synth.prefix, dir, end - 1);
    else if (more)
        buf_addf(&a->body, "<NextContinuationToken>%s/d%04u/</NextContinuationToken>",
            f->synth.prefix, end - 1);
    buf_adds(&a->body, "</ListBucketResult>");
    return true;
}
