/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fake_files.h"

#include "lib/base/mem.h"
#include "tests/fake/fake_conns.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API    "/webhdfs/v1"
#define DIR_ID 2
#define FILES  64
#define NAME   128
#define INODES "/.reserved/.inodes/"

struct file {
    char name[NAME]; /* below /set; "": none */
    char *data;
    size_t len;
    unsigned id;
};

struct fake_files {
    struct fake_conns *conns;
    pthread_mutex_t mu; /* guards all below */
    struct file files[FILES];
    unsigned last_id, refused, struck;
    char token[64];
    bool standby, httpfs;
    struct {
        char where[8], kind[16];
        unsigned left;
    } faults[16];
    size_t nfaults;
};

/* -- files ---------------------------------------------------------------------------------------
 */

static struct file *find(struct fake_files *f, const char *name)
{
    for (size_t i = 0; *name && i < FILES; i++)
        if (strcmp(f->files[i].name, name) == 0)
            return &f->files[i];
    return NULL;
}

static void drop(struct file *file)
{
    free(file->data);
    *file = (struct file){0};
}

static void put(struct fake_files *f, const char *name, const void *data, size_t len)
{
    struct file *file = find(f, name);
    for (size_t i = 0; !file && i < FILES; i++)
        if (!*f->files[i].name)
            file = &f->files[i];
    if (!file)
        abort();
    drop(file);
    snprintf(file->name, sizeof file->name, "%s", name);
    file->data = xmalloc(len + 1);
    memcpy(file->data, data, len);
    file->len = len;
    file->id = DIR_ID + ++f->last_id;
}

/* The name below /set that a path means, also one by inodes; NULL: it is no such path. */
static const char *name_of(struct fake_files *f, const char *path)
{
    if (strncmp(path, "/set", 4) == 0)
        return path[4] == '/' ? path + 5 : "";
    if (strncmp(path, INODES, strlen(INODES)) != 0)
        return NULL;
    char *end;
    unsigned id = (unsigned)strtoul(path + strlen(INODES), &end, 10);
    if (id == DIR_ID)
        return *end ? end + 1 : "";
    for (size_t i = 0; i < FILES; i++)
        if (f->files[i].id == id)
            return f->files[i].name;
    return NULL;
}

/* -- answers -------------------------------------------------------------------------------------
 */

/* A value of the query, unescaped; "" if it is not there. */
static const char *query(const struct request *r, const char *key, char out[256])
{
    *out = '\0';
    for (const char *at = r->h.query; at && *at; at += strcspn(at, "&"), at += *at == '&') {
        size_t n = strlen(key);
        if (strncmp(at, key, n) == 0 && at[n] == '=')
            snprintf(out, 256, "%.*s", (int)strcspn(at + n + 1, "&"), at + n + 1);
    }
    http_head_unescape(out, false);
    return out;
}

static void exception(struct answer *a, int status, const char *name, const char *message)
{
    a->status = status;
    buf_addf(&a->body,
        "{\"RemoteException\":{\"exception\":\"%s\",\"javaClassName\":\"\",\"message\":\"%s\"}}",
        name, message);
}

static void lead(struct fake_files *f, const struct request *r, struct answer *a, const char *more)
{
    a->status = 307;
    buf_addf(&a->headers, "Location: http://127.0.0.1:%d%s%s%s%s\r\n", fake_conns_port(f->conns),
        r->h.path, *r->h.query ? "?" : "", r->h.query, more);
}

/* Faults of what is sent. */
static void spoil(const char *fault, struct answer *a)
{
    if (strcmp(fault, "short") == 0)
        a->body.len /= 2;
    if (strcmp(fault, "long") == 0)
        buf_adds(&a->body, "and more than that");
    a->stall = strcmp(fault, "stall") == 0;
    if (a->stall || strcmp(fault, "truncated") == 0)
        a->cut = a->body.len / 2;
    a->drop |= strcmp(fault, "lost") == 0;
}

static void web(struct fake_files *f, const struct request *r, struct answer *a)
{
    const char *name = name_of(f, r->h.path);
    const struct file *file = name ? find(f, name) : NULL;
    char range[64];
    unsigned long first = 0, last = 0;
    if (!file) {
        a->status = 404;
        return;
    }
    buf_addf(&a->headers, "ETag: \"%u\"\r\n", file->id);
    bool ranged = http_head_value(r->h.headers, "range", range, sizeof range)
        && sscanf(range, "bytes=%lu-%lu", &first, &last) == 2 && first < file->len;
    last = ranged ? MIN(last, file->len - 1) : file->len - 1;
    a->status = ranged ? 206 : 200;
    if (ranged)
        buf_addf(&a->headers, "Content-Range: bytes %lu-%lu/%zu\r\n", first, last, file->len);
    buf_add(&a->body, file->data + first, last + 1 - first);
}

static void status_of(struct fake_files *f, const char *name, struct answer *a)
{
    const struct file *file = find(f, name);
    if (*name && !file)
        exception(a, 404, "FileNotFoundException", "File does not exist");
    else
        buf_addf(&a->body,
            "{\"FileStatus\":{\"type\":\"%s\",\"length\":%zu,\"modificationTime\":1700000000000,"
            "\"fileId\":%u,\"permission\":\"644\",\"owner\":\"o\",\"group\":\"g\",\"pathSuffix\":\"\"}}",
            file ? "FILE" : "DIRECTORY", file ? file->len : 0, file ? file->id : DIR_ID);
}

static void rename_to(
    struct fake_files *f, const char *name, const struct request *r, struct answer *a)
{
    char to[256], options[256];
    struct file *file = find(f, name);
    const char *target = name_of(f, query(r, "destination", to));
    bool replace = strcmp(query(r, "renameoptions", options), "OVERWRITE") == 0;
    struct file *there = target ? find(f, target) : NULL;
    if (!file) {
        exception(a, 404, "FileNotFoundException", "rename source is not found");
    } else if (!target || !*target) {
        exception(a, 403, "IOException", "destination is no file");
    } else if (there && f->httpfs) {
        buf_adds(&a->body, "{\"boolean\":false}");
    } else if (there && !replace) {
        exception(a, 403, "FileAlreadyExistsException", "rename destination already exists");
    } else {
        if (there && there != file)
            drop(there);
        snprintf(file->name, sizeof file->name, "%s", target);
    }
}

static void name_node(struct fake_files *f, const struct request *r, const char *name,
    const char *op, struct answer *a)
{
    if (f->standby) {
        exception(a, 403, "StandbyException",
            "Operation category READ is not supported in state standby");
    } else if (strcmp(op, "GETFILESTATUS") == 0) {
        status_of(f, name, a);
    } else if (strcmp(op, "OPEN") == 0 || strcmp(op, "CREATE") == 0) {
        lead(f, r, a, "&step=data");
    } else if (strcmp(op, "RENAME") == 0) {
        rename_to(f, name, r, a);
    } else if (strcmp(op, "DELETE") == 0) {
        struct file *file = find(f, name);
        buf_addf(&a->body, "{\"boolean\":%s}", file ? "true" : "false");
        if (file)
            drop(file);
    } else if (strcmp(op, "SETPERMISSION") != 0 && strcmp(op, "CHECKACCESS") != 0) {
        exception(a, 400, "UnsupportedOperationException", op);
    }
}

static void data_node(struct fake_files *f, const struct request *r, const char *name,
    const char *op, const char *fault, struct answer *a)
{
    const struct file *file = find(f, name);
    char text[256];
    size_t from = strtoul(query(r, "offset", text), NULL, 10);
    size_t n = strtoul(query(r, "length", text), NULL, 10);
    if (strcmp(op, "CREATE") == 0) {
        a->status = 201;
        put(f, name, r->body, strcmp(fault, "short") == 0 ? r->body_len / 2 : r->body_len);
    } else if (!file || from > file->len) {
        exception(a, 404, "FileNotFoundException", "File does not exist");
    } else {
        buf_add(&a->body, file->data + from, MIN(n, file->len - from));
    }
}

/* Faults that need no look at the file. True: the answer is ready. */
static bool early_fault(
    struct fake_files *f, const struct request *r, const char *fault, struct answer *a)
{
    if (strcmp(fault, "busy") == 0) {
        a->status = 503;
        buf_adds(&a->headers, "Retry-After: 1\r\n");
    } else if (strcmp(fault, "error") == 0) {
        a->status = 500;
    } else if (strcmp(fault, "nohead") == 0) {
        a->status = 405;
    } else if (strcmp(fault, "reset") == 0) {
        a->drop = true;
    } else if (strcmp(fault, "hang") == 0) {
        a->hang = true;
    } else if (strcmp(fault, "circle") == 0) {
        lead(f, r, a, "");
    } else if (strcmp(fault, "safemode") == 0) {
        exception(a, 403, "SafeModeException", "Cannot create file. Name node is in safe mode.");
    } else {
        return false;
    }
    return true;
}

/* True: the request has not the token that it must have, and the answer says so. */
static bool lacks_token(struct fake_files *f, const struct request *r, bool hdfs, struct answer *a)
{
    char given[256] = "", line[256] = "";
    http_head_value(r->h.headers, "authorization", line, sizeof line);
    const char *token = hdfs               ? query(r, "delegation", given)
        : strncmp(line, "Bearer ", 7) == 0 ? line + 7
                                           : "";
    if (!*f->token || strcmp(token, f->token) == 0)
        return false;
    f->refused++;
    if (hdfs)
        exception(a, 403, "InvalidToken", "token (token for o) is expired");
    else
        a->status = 401;
    return true;
}

static void respond(void *user, struct request *r, struct answer *a)
{
    struct fake_files *f = user;
    char op[256], step[256];
    bool hdfs = strncmp(r->h.path, API "/", strlen(API "/")) == 0;
    const char *where = !hdfs ? "web" : *query(r, "step", step) ? "data" : "name", *fault = "";
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; !*fault && i < f->nfaults; i++)
        if (f->faults[i].left && strcmp(f->faults[i].where, where) == 0) {
            f->faults[i].left--;
            fault = f->faults[i].kind;
        }
    f->struck += *fault && strcmp(fault, "fine") != 0;
    const char *name = hdfs ? name_of(f, r->h.path + strlen(API)) : NULL;
    if (early_fault(f, r, fault, a) || lacks_token(f, r, hdfs, a)) {
    } else if (!hdfs) {
        web(f, r, a);
    } else if (!name) {
        exception(a, 404, "FileNotFoundException", "File does not exist");
    } else if (*step) {
        data_node(f, r, name, query(r, "op", op), fault, a);
    } else {
        name_node(f, r, name, query(r, "op", op), a);
    }
    spoil(fault, a);
    pthread_mutex_unlock(&f->mu);
}

/* -- for tests -----------------------------------------------------------------------------------
 */

struct fake_files *fake_files_start(void)
{
    struct fake_files *f = xcalloc(1, sizeof *f);
    pthread_mutex_init(&f->mu, NULL);
    f->conns = fake_conns_start(0, respond, f);
    return f;
}

void fake_files_stop(struct fake_files *f)
{
    fake_conns_stop(f->conns);
    for (size_t i = 0; i < FILES; i++)
        drop(&f->files[i]);
    pthread_mutex_destroy(&f->mu);
    free(f);
}

int fake_files_port(const struct fake_files *f) { return fake_conns_port(f->conns); }

void fake_files_put(struct fake_files *f, const char *path, const void *data, size_t len)
{
    pthread_mutex_lock(&f->mu);
    put(f, name_of(f, path), data, len);
    pthread_mutex_unlock(&f->mu);
}

void *fake_files_get(struct fake_files *f, const char *path, size_t *len)
{
    void *copy = NULL;
    pthread_mutex_lock(&f->mu);
    const struct file *file = find(f, name_of(f, path));
    if (file) {
        copy = xmalloc(file->len + 1);
        memcpy(copy, file->data, file->len);
        *len = file->len;
    }
    pthread_mutex_unlock(&f->mu);
    return copy;
}

unsigned fake_files_count(struct fake_files *f)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (size_t i = 0; i < FILES; i++)
        n += *f->files[i].name != '\0';
    pthread_mutex_unlock(&f->mu);
    return n;
}

void fake_files_token(struct fake_files *f, const char *token)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->token, sizeof f->token, "%s", token);
    pthread_mutex_unlock(&f->mu);
}

static unsigned read_counter(struct fake_files *f, const unsigned *counter)
{
    pthread_mutex_lock(&f->mu);
    unsigned n = *counter;
    pthread_mutex_unlock(&f->mu);
    return n;
}

unsigned fake_files_refused(struct fake_files *f) { return read_counter(f, &f->refused); }
unsigned fake_files_struck(struct fake_files *f) { return read_counter(f, &f->struck); }

void fake_files_standby(struct fake_files *f, bool on)
{
    pthread_mutex_lock(&f->mu);
    f->standby = on;
    pthread_mutex_unlock(&f->mu);
}

void fake_files_httpfs(struct fake_files *f)
{
    pthread_mutex_lock(&f->mu);
    f->httpfs = true;
    pthread_mutex_unlock(&f->mu);
}

void fake_files_fault(struct fake_files *f, const char *where, const char *kind, unsigned count)
{
    pthread_mutex_lock(&f->mu);
    if (f->nfaults == ARRAY_LEN(f->faults))
        abort();
    snprintf(f->faults[f->nfaults].where, sizeof f->faults[0].where, "%s", where);
    snprintf(f->faults[f->nfaults].kind, sizeof f->faults[0].kind, "%s", kind);
    f->faults[f->nfaults++].left = count;
    pthread_mutex_unlock(&f->mu);
}

void fake_files_clear(struct fake_files *f)
{
    pthread_mutex_lock(&f->mu);
    f->nfaults = 0;
    pthread_mutex_unlock(&f->mu);
}
