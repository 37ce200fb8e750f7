/* SPDX-License-Identifier: Apache-2.0 */
/* mount — a struct conf_mount put together by hand, and small helpers for tests of stores. Header
 * only. */
#ifndef MILLRACE_TESTS_LIB_MOUNT_H
#define MILLRACE_TESTS_LIB_MOUNT_H

#include "fuse/store/store.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct mount {
    struct conf_mount conf;
    struct conf_pair options[16], secrets[8], names[8];
};

static inline struct mount *mount_new(const char *url)
{
    struct mount *m = xcalloc(1, sizeof *m);
    m->conf.mount_point = xstrdup(url);
    m->conf.path = xstrdup("/");
    m->conf.options = m->options;
    m->conf.secrets = m->secrets;
    m->conf.secret_names = m->names;
    return m;
}

static inline void mount_option(struct mount *m, const char *key, const char *value)
{
    m->options[m->conf.noptions++] = (struct conf_pair){xstrdup(key), xstrdup(value)};
}

static inline void mount_secret(
    struct mount *m, const char *key, const char *path, const char *name)
{
    m->names[m->conf.nsecret_names++] = (struct conf_pair){xstrdup(key), xstrdup(name)};
    m->secrets[m->conf.nsecrets++] = (struct conf_pair){xstrdup(key), xstrdup(path)};
}

static inline void mount_free(struct mount *m)
{
    for (size_t i = 0; i < ARRAY_LEN(m->options); i++) {
        free(m->options[i].key);
        free(m->options[i].value);
    }
    for (size_t i = 0; i < ARRAY_LEN(m->secrets); i++) {
        free(m->secrets[i].key);
        free(m->secrets[i].value);
        free(m->names[i].key);
        free(m->names[i].value);
    }
    free(m->conf.mount_point);
    free(m->conf.path);
    free(m);
}

/* What store_put() takes; the second replaces expect only. */
#define PUT(from, bytes) (&(struct store_put){.fd = (from), .len = (bytes)})
#define PUT_OVER(from, bytes, version) \
    (&(struct store_put){.fd = (from), .len = (bytes), .expect = (version)})

/* Everything a listing gives, all pages, as "name:size " or "name/ " in the order of names. */
struct names {
    char *name[8192];
    size_t n, pages;
};

static inline int names_add(void *user, const struct store_entry *entry)
{
    struct names *l = user;
    if (l->n == ARRAY_LEN(l->name))
        return 1;
    l->name[l->n++] = entry->st.is_dir
        ? xasprintf("%s/", entry->name)
        : xasprintf("%s:%llu", entry->name, (unsigned long long)entry->st.size);
    return 0;
}

static inline int names_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline int names_list(
    struct store *s, const char *dir, bool tree, struct names *l, struct err *e)
{
    memset(l, 0, sizeof *l);
    char *cursor = NULL;
    int rc;
    do {
        rc = (tree ? store_list_tree : store_list)(s, dir, &cursor, names_add, l, e);
        l->pages++;
    } while (rc == 0 && cursor);
    free(cursor);
    qsort(l->name, l->n, sizeof *l->name, names_order);
    return rc;
}

static inline void names_free(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    l->n = 0;
}

static inline char *names_join(struct names *l) /* and frees them */
{
    size_t total = 1;
    for (size_t i = 0; i < l->n; i++)
        total += strlen(l->name[i]) + 1;
    char *text = xcalloc(1, total), *p = text;
    for (size_t i = 0; i < l->n; i++)
        p += sprintf(p, "%s%s", i ? " " : "", l->name[i]);
    names_free(l);
    return text;
}

/* Reproducible content: byte i of a file with that seed. */
static inline unsigned char content(unsigned seed, uint64_t i)
{
    return (unsigned char)((i * 2654435761u + (i >> 12) * 40503u + seed * 97u) >> 7);
}

static inline int content_fd(unsigned seed, uint64_t len)
{
    int fd = memfd_create("content", MFD_CLOEXEC);
    unsigned char chunk[65536];
    for (uint64_t at = 0; at < len;) {
        size_t n = MIN(sizeof chunk, len - at);
        for (size_t i = 0; i < n; i++)
            chunk[i] = content(seed, at + i);
        if (write(fd, chunk, n) != (ssize_t)n)
            abort();
        at += n;
    }
    return fd;
}

static inline bool content_same(unsigned seed, uint64_t off, const unsigned char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] != content(seed, off + i))
            return false;
    return true;
}

/* A sink that takes the bytes of the content with seed 1 in order, each once. */
struct taken {
    uint64_t at, most; /* the next one; it stops there */
};

static inline int take(void *user, const void *data, size_t len)
{
    struct taken *t = user;
    if (t->at >= t->most)
        return 1;
    if (!len || !content_same(1, t->at, data, len))
        abort();
    t->at += len;
    return 0;
}

#endif
