/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/ctl/indexer.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* An entry stands in one posting for each of its index values and knows its place there, so that
 * leaving costs nothing however many stand there. */
struct indexer_link {
    struct indexer_posting *posting;
    size_t at;
};

struct indexer_entry {
    struct indexed is; /* owns its members */
    char *key;
    uint64_t mark;
    struct indexer_link *links; /* owned */
    size_t nlinks, cap;
};

struct indexer_posted {
    struct indexer_entry *entry;
    size_t link; /* which of the entry's links leads here */
};

struct indexer_posting {
    struct map *home; /* the index it belongs to */
    char *value;
    struct indexer_posted *v; /* owned */
    size_t n, cap;
};

struct indexer_index {
    struct informer_index def;
    struct map *postings; /* value → owned struct indexer_posting */
};

struct indexer {
    struct map *entries; /* key → owned struct indexer_entry */
    struct indexer_index *indexes;
    size_t nindexes;
};

static void indexer_posting_free(void *p)
{
    struct indexer_posting *x = p;
    free(x->value);
    free(x->v);
    free(x);
}

static void indexer_entry_free(void *p)
{
    struct indexer_entry *en = p;
    obj_unref(en->is.o);
    free(en->is.uid);
    free(en->links);
    free(en->key);
    free(en);
}

struct indexer *indexer_new(void)
{
    struct indexer *s = xcalloc(1, sizeof *s);
    s->entries = map_new(indexer_entry_free);
    return s;
}

void indexer_free(struct indexer *s)
{
    if (!s)
        return;
    map_free(s->entries);
    for (size_t i = 0; i < s->nindexes; i++)
        map_free(s->indexes[i].postings);
    free(s->indexes);
    free(s);
}

static struct indexer_index *index_of(const struct indexer *s, const char *name)
{
    for (size_t i = 0; i < s->nindexes; i++)
        if (strcmp(s->indexes[i].def.name, name) == 0)
            return &s->indexes[i];
    return NULL;
}

void indexer_add_index(struct indexer *s, const struct informer_index *index)
{
    if (index_of(s, index->name))
        return;
    s->indexes = xrealloc(s->indexes, (s->nindexes + 1) * sizeof *s->indexes);
    s->indexes[s->nindexes++] = (struct indexer_index){*index, map_new(indexer_posting_free)};
}

/* ---- postings ---- */

struct indexer_joining {
    struct indexer_entry *entry;
    struct indexer_index *index;
};

static void indexer_join(void *to, const char *value)
{
    struct indexer_joining *j = to;
    struct indexer_entry *en = j->entry;
    struct indexer_posting *p = map_get(j->index->postings, value);
    if (!p) {
        p = xcalloc(1, sizeof *p);
        p->home = j->index->postings;
        p->value = xstrdup(value);
        map_put(p->home, value, p);
    }
    if (p->n && p->v[p->n - 1].entry == en) /* the same value twice */
        return;
    if (p->n == p->cap)
        p->v = xrealloc(p->v, (p->cap = p->cap ? p->cap * 2 : 4) * sizeof *p->v);
    if (en->nlinks == en->cap)
        en->links = xrealloc(en->links, (en->cap = en->cap ? en->cap * 2 : 4) * sizeof *en->links);
    p->v[p->n] = (struct indexer_posted){en, en->nlinks};
    en->links[en->nlinks++] = (struct indexer_link){p, p->n++};
}

static void join_all(struct indexer *s, struct indexer_entry *en, const json_t *object)
{
    for (size_t i = 0; i < s->nindexes; i++) {
        struct indexer_joining j = {en, &s->indexes[i]};
        j.index->def.values(j.index->def.arg, object, indexer_join, &j);
    }
}

static void leave_all(struct indexer_entry *en)
{
    for (size_t i = 0; i < en->nlinks; i++) {
        struct indexer_posting *p = en->links[i].posting;
        struct indexer_posted last = p->v[--p->n];
        if (p->n && last.entry != en) {
            p->v[en->links[i].at] = last;
            last.entry->links[last.link].at = en->links[i].at;
        }
        if (!p->n)
            map_del(p->home, p->value);
    }
    en->nlinks = 0;
}

/* ---- objects ---- */

const struct indexed *indexer_get(const struct indexer *s, const char *key)
{
    const struct indexer_entry *en = map_get(s->entries, key);
    return en ? &en->is : NULL;
}

void indexer_put(
    struct indexer *s, const char *key, struct obj *o_take, const json_t *object, uint64_t mark)
{
    struct indexer_entry *en = map_get(s->entries, key);
    if (en) {
        leave_all(en);
        obj_unref(en->is.o);
        free(en->is.uid);
    } else {
        en = xcalloc(1, sizeof *en);
        en->key = xstrdup(key);
        map_put(s->entries, key, en);
    }
    en->is = (struct indexed){o_take, kube_rv(object), xstrdup(kube_uid(object))};
    en->mark = mark;
    join_all(s, en, object);
}

struct obj *indexer_del(struct indexer *s, const char *key)
{
    struct indexer_entry *en = map_get(s->entries, key);
    if (!en)
        return NULL;
    leave_all(en);
    struct obj *o = steal(&en->is.o);
    map_del(s->entries, key);
    return o;
}

void indexer_mark(struct indexer *s, const char *key, uint64_t mark)
{
    struct indexer_entry *en = map_get(s->entries, key);
    if (en)
        en->mark = mark;
}

size_t indexer_count(const struct indexer *s) { return map_len(s->entries); }

struct objs indexer_all(const struct indexer *s)
{
    struct objs l = {xcalloc(map_len(s->entries) + 1, sizeof *l.v), 0};
    const char *key;
    void *en;
    for (size_t i = 0; map_next(s->entries, &i, &key, &en);)
        l.v[l.n++] = obj_ref(((struct indexer_entry *)en)->is.o);
    return l;
}

static const struct indexer_posting *posting_of(
    const struct indexer *s, const char *index, const char *value)
{
    const struct indexer_index *ix = index_of(s, index);
    if (!ix)
        abort(); /* a misspelt name of ours */
    return map_get(ix->postings, value);
}

struct objs indexer_by(const struct indexer *s, const char *index, const char *value)
{
    const struct indexer_posting *p = posting_of(s, index, value);
    struct objs l = {NULL, 0};
    if (!p)
        return l;
    l.v = xcalloc(p->n, sizeof *l.v);
    for (; l.n < p->n; l.n++)
        l.v[l.n] = obj_ref(p->v[l.n].entry->is.o);
    return l;
}

static char **keys_all(const struct indexer *s)
{
    char **keys = xcalloc(map_len(s->entries) + 1, sizeof *keys);
    size_t n = 0;
    const char *key;
    void *p;
    for (size_t i = 0; map_next(s->entries, &i, &key, &p);)
        keys[n++] = xstrdup(key);
    return keys;
}

char **indexer_keys(const struct indexer *s, const char *index, const char *value)
{
    if (!index)
        return keys_all(s);
    const struct indexer_posting *p = posting_of(s, index, value);
    size_t n = p ? p->n : 0;
    char **keys = xcalloc(n + 1, sizeof *keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = xstrdup(p->v[i].entry->key);
    return keys;
}

char **indexer_unmarked(const struct indexer *s, uint64_t mark, uint64_t rv)
{
    char **keys = xcalloc(map_len(s->entries) + 1, sizeof *keys);
    size_t n = 0;
    const char *key;
    void *p;
    for (size_t i = 0; map_next(s->entries, &i, &key, &p);) {
        const struct indexer_entry *en = p;
        if (en->mark != mark && en->is.rv <= rv)
            keys[n++] = xstrdup(key);
    }
    return keys;
}
