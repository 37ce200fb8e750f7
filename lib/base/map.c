/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/map.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Open addressing, linear probing; a deleted slot keeps key == tombstone. */
struct slot {
    char *key;
    void *value;
};

struct map {
    struct slot *slots;
    size_t cap, len, used; /* used counts tombstones too */
    void (*free_value)(void *);
};

static char tombstone[1];

struct map *map_new(void (*free_value)(void *))
{
    struct map *m = xcalloc(1, sizeof *m);
    m->free_value = free_value;
    return m;
}

static bool live(const struct slot *s) { return s->key && s->key != tombstone; }

void map_free(struct map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->cap; i++)
        if (live(&m->slots[i])) {
            free(m->slots[i].key);
            if (m->free_value)
                m->free_value(m->slots[i].value);
        }
    free(m->slots);
    free(m);
}

static struct slot *map_find(const struct map *m, const char *key)
{
    if (!m->cap)
        return NULL;
    for (size_t i = hash64(key, strlen(key)) & (m->cap - 1); m->slots[i].key;
         i = (i + 1) & (m->cap - 1))
        if (m->slots[i].key != tombstone && strcmp(m->slots[i].key, key) == 0)
            return &m->slots[i];
    return NULL;
}

static void insert_new(struct map *m, char *key, void *value)
{
    size_t i = hash64(key, strlen(key)) & (m->cap - 1);
    while (m->slots[i].key)
        i = (i + 1) & (m->cap - 1);
    m->slots[i] = (struct slot){key, value};
    m->used++;
    m->len++;
}

static void map_grow(struct map *m)
{
    struct map old = *m;
    m->cap = old.len * 4 < 16 ? 16 : old.cap * (old.len * 2 >= old.cap ? 2 : 1);
    m->slots = xcalloc(m->cap, sizeof *m->slots);
    m->len = m->used = 0;
    for (size_t i = 0; i < old.cap; i++)
        if (live(&old.slots[i]))
            insert_new(m, old.slots[i].key, old.slots[i].value);
    free(old.slots);
}

void *map_get(const struct map *m, const char *key)
{
    struct slot *s = map_find(m, key);
    return s ? s->value : NULL;
}

void map_put(struct map *m, const char *key, void *value)
{
    struct slot *s = map_find(m, key);
    if (s) {
        if (m->free_value && s->value != value)
            m->free_value(s->value);
        s->value = value;
        return;
    }
    if ((m->used + 1) * 4 > m->cap * 3)
        map_grow(m);
    insert_new(m, xstrdup(key), value);
}

void *map_steal(struct map *m, const char *key)
{
    struct slot *s = map_find(m, key);
    if (!s)
        return NULL;
    void *value = s->value;
    free(s->key);
    *s = (struct slot){tombstone, NULL};
    m->len--;
    return value;
}

bool map_del(struct map *m, const char *key)
{
    if (!map_find(m, key))
        return false;
    void *value = map_steal(m, key);
    if (m->free_value)
        m->free_value(value);
    return true;
}

size_t map_len(const struct map *m) { return m->len; }

bool map_next(const struct map *m, size_t *iter, const char **key, void **value)
{
    for (; *iter < m->cap; ++*iter)
        if (live(&m->slots[*iter])) {
            *key = m->slots[*iter].key;
            *value = m->slots[*iter].value;
            ++*iter;
            return true;
        }
    return false;
}
