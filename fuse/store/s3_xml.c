/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/s3_xml.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/head.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX      8u
#define NAME_MAX_BYTES 48u
#define TEXT_MAX       (16u << 10)
#define ITEMS_MAX      20000u

/* Called at the end of each element that has no child elements: path names of the open elements,
 * root first. */
typedef void (*leaf_fn)(void *user, char path[][NAME_MAX_BYTES], unsigned depth, const char *text);
typedef void (*close_fn)(void *user, const char *name, unsigned depth);

struct xml_reader {
    XML_Parser parser;
    char path[DEPTH_MAX][NAME_MAX_BYTES];
    unsigned depth;
    bool leaf, bad;
    struct buf text;
    leaf_fn on_leaf;
    close_fn on_close; /* may be NULL */
    void *user;
};

static void xml_stop(struct xml_reader *r)
{
    r->bad = true;
    XML_StopParser(r->parser, XML_FALSE);
}

static void on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
    (void)attributes;
    struct xml_reader *r = user;
    const char *colon = strrchr(name, ':');
    if (colon)
        name = colon + 1;
    if (r->depth == DEPTH_MAX) {
        xml_stop(r);
        return;
    }
    snprintf(r->path[r->depth++], NAME_MAX_BYTES, "%s", name);
    r->leaf = true;
    buf_clear(&r->text);
}

static void on_end(void *user, const XML_Char *name)
{
    (void)name;
    struct xml_reader *r = user;
    if (r->text.truncated) {
        xml_stop(r);
        return;
    }
    if (r->leaf)
        r->on_leaf(r->user, r->path, r->depth, buf_str(&r->text));
    r->leaf = false;
    r->depth--;
    if (r->on_close)
        r->on_close(r->user, r->path[r->depth], r->depth);
}

static void on_text(void *user, const XML_Char *text, int len)
{
    struct xml_reader *r = user;
    if (r->leaf)
        buf_add(&r->text, text, (size_t)len);
}

static void on_doctype(void *user, const XML_Char *name, const XML_Char *system_id,
    const XML_Char *public_id, int internal)
{
    (void)name, (void)system_id, (void)public_id, (void)internal;
    xml_stop(user); /* S3 sends none: entities in it are only ever an attack */
}

static bool xml_parse(const char *text, size_t len, leaf_fn on_leaf, close_fn on_close, void *user)
{
    struct xml_reader r = {
        .text = BUF_INIT(TEXT_MAX), .on_leaf = on_leaf, .on_close = on_close, .user = user};
    r.parser = XML_ParserCreate(NULL);
    if (!r.parser || len > S3_PAGE_BODY_MAX) {
        XML_ParserFree(r.parser);
        return false;
    }
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    bool ok = XML_Parse(r.parser, text, (int)len, 1) == XML_STATUS_OK && !r.bad;
    XML_ParserFree(r.parser);
    buf_free(&r.text);
    return ok;
}

/* -- errors ---------------------------------------------------------------------------------- */

static void fault_leaf(void *user, char path[][NAME_MAX_BYTES], unsigned depth, const char *text)
{
    struct s3_fault *f = user;
    /* of S3; of token services: in <ErrorResponse>, and of some in <Errors> therein */
    bool inside = depth > 2 && strcmp(path[0], "ErrorResponse") == 0
        && (depth == 3 || (depth == 4 && strcmp(path[1], "Errors") == 0));
    if ((depth != 2 && !inside) || strcmp(path[depth - 2], "Error") != 0)
        return;
    const char *name = path[depth - 1];
    if (strcmp(name, "Code") == 0)
        snprintf(f->code, sizeof f->code, "%s", text);
    else if (strcmp(name, "Message") == 0)
        snprintf(f->message, sizeof f->message, "%s", text);
    else if (strcmp(name, "Region") == 0)
        snprintf(f->region, sizeof f->region, "%s", text);
}

/* Messages and logs take one line of printable text. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = ' ';
}

bool s3_xml_fault(const char *text, size_t len, struct s3_fault *out)
{
    memset(out, 0, sizeof *out);
    if (!len || !xml_parse(text, len, fault_leaf, NULL, out) || !*out->code) {
        memset(out, 0, sizeof *out);
        return false;
    }
    make_printable(out->code);
    make_printable(out->message);
    make_printable(out->region);
    return true;
}

/* -- listings -------------------------------------------------------------------------------- */

struct s3_page_reader {
    struct s3_page *page;
    size_t cap;
    struct s3_item item; /* being read */
    bool url_encoded, is_truncated, is_page, too_many;
};

static void xml_set(char **to, const char *text)
{
    free(*to);
    *to = xstrdup(text);
}

static void page_leaf(void *user, char path[][NAME_MAX_BYTES], unsigned depth, const char *text)
{
    struct s3_page_reader *r = user;
    r->is_page = strcmp(path[0], "ListBucketResult") == 0;
    if (!r->is_page)
        return;
    const char *name = path[depth - 1];
    if (depth == 2 && strcmp(name, "EncodingType") == 0)
        r->url_encoded = strcmp(text, "url") == 0;
    else if (depth == 2 && strcmp(name, "IsTruncated") == 0)
        r->is_truncated = strcmp(text, "true") == 0;
    else if (depth == 2 && strcmp(name, "NextContinuationToken") == 0)
        xml_set(&r->page->next, text);
    if (depth != 3)
        return;
    if (strcmp(path[1], "CommonPrefixes") == 0 && strcmp(name, "Prefix") == 0) {
        xml_set(&r->item.key, text);
    } else if (strcmp(path[1], "Contents") == 0) {
        if (strcmp(name, "Key") == 0)
            xml_set(&r->item.key, text);
        else if (strcmp(name, "ETag") == 0)
            xml_set(&r->item.etag, text);
        else if (strcmp(name, "Generation") == 0)
            xml_set(&r->item.generation, text);
        else if (strcmp(name, "Size") == 0)
            r->item.size = *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : 0;
        else if (strcmp(name, "LastModified") == 0 && clock_parse_rfc3339(text, &r->item.mtime_ns))
            r->item.mtime_ns = 0;
    }
}

static void item_free(struct s3_item *item)
{
    free(item->key);
    free(item->etag);
    free(item->generation);
}

static void page_close(void *user, const char *name, unsigned depth)
{
    struct s3_page_reader *r = user;
    bool prefix = strcmp(name, "CommonPrefixes") == 0;
    if (depth != 1 || (!prefix && strcmp(name, "Contents") != 0))
        return;
    if (r->page->n == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 64;
        r->page->items = xrealloc(r->page->items, r->cap * sizeof *r->page->items);
    }
    if (r->page->n == ITEMS_MAX || !r->item.key) {
        item_free(&r->item);
        r->too_many |= r->page->n == ITEMS_MAX;
    } else {
        r->item.is_prefix = prefix;
        r->page->items[r->page->n++] = r->item;
    }
    r->item = (struct s3_item){0};
}

int s3_xml_page(const char *text, size_t len, struct s3_page *out, struct err *e)
{
    *out = (struct s3_page){0};
    struct s3_page_reader r = {.page = out};
    bool ok = xml_parse(text, len, page_leaf, page_close, &r) && r.is_page && !r.too_many;
    item_free(&r.item);
    if (ok && r.is_truncated && (!out->next || !*out->next))
        ok = false;
    if (!ok) {
        s3_page_free(out);
        return err_set(e, ERR_RETRY, "the listing the server sent is not the XML of ListObjectsV2");
    }
    if (!r.is_truncated)
        xml_set(&out->next, NULL);
    for (size_t i = 0; i < out->n && r.url_encoded; i++)
        if (http_head_unescape(out->items[i].key, true)) {
            free(out->items[i].key);
            out->items[i].key = NULL;
        }
    return 0;
}

void s3_page_free(struct s3_page *page)
{
    for (size_t i = 0; i < page->n; i++)
        item_free(&page->items[i]);
    free(page->items);
    free(page->next);
    *page = (struct s3_page){0};
}

/* -- credentials ----------------------------------------------------------------------------- */

struct xml_keys {
    char *id, *secret, *token, *until;
};

static void keys_leaf(void *user, char path[][NAME_MAX_BYTES], unsigned depth, const char *text)
{
    struct xml_keys *k = user;
    if (depth != 4 || strcmp(path[2], "Credentials") != 0)
        return;
    const char *name = path[3];
    if (strcmp(name, "AccessKeyId") == 0)
        xml_set(&k->id, text);
    else if (strcmp(name, "SecretAccessKey") == 0)
        xml_set(&k->secret, text);
    else if (strcmp(name, "SessionToken") == 0)
        xml_set(&k->token, text);
    else if (strcmp(name, "Expiration") == 0)
        xml_set(&k->until, text);
}

bool s3_xml_keys(
    const char *text, size_t len, char **id, char **secret, char **token, char until[40])
{
    struct xml_keys k = {0};
    bool ok = xml_parse(text, len, keys_leaf, NULL, &k) && k.id && k.secret;
    snprintf(until, 40, "%s", ok && k.until ? k.until : "");
    if (!ok) {
        free(k.id);
        free(k.secret);
        free(k.token);
        k.id = k.secret = k.token = NULL;
    }
    free(k.until);
    *id = k.id;
    *secret = k.secret;
    *token = k.token;
    return ok;
}

/* -- single values --------------------------------------------------------------------------- */

struct xml_value {
    const char *root, *element;
    char *value;
};

static void value_leaf(void *user, char path[][NAME_MAX_BYTES], unsigned depth, const char *text)
{
    struct xml_value *o = user;
    if (!o->value && depth == 2 && strcmp(path[0], o->root) == 0
        && strcmp(path[1], o->element) == 0)
        o->value = xstrdup(text);
}

char *s3_xml_text(const char *text, size_t len, const char *root, const char *element)
{
    struct xml_value o = {root, element, NULL};
    if (!xml_parse(text, len, value_leaf, NULL, &o)) {
        free(o.value);
        return NULL;
    }
    return o.value;
}
