/* SPDX-License-Identifier: Apache-2.0 */
/* golden — plans checked against cases that people read: tests/golden/<kind>/<case>.yaml, in the
 * language of tests/golden/README.md. Besides, for each case: the plan for the world after the plan
 * has no writes (deleted objects linger with a deletionTimestamp); and when they go, plan after
 * plan comes to rest within GOLDEN_ROUNDS.
 *
 * golden_apply() is the small API server behind that; tests that move a world on by themselves use
 * it too. A world is {"now": "2026-01-31T12:00:00Z", "objects": [everything but the object that is
 * reconciled], … what the kind wants}. */
#ifndef MILLRACE_TESTS_GOLDEN_GOLDEN_H
#define MILLRACE_TESTS_GOLDEN_GOLDEN_H

#include "operator/ctl/plan.h"

#include <jansson.h>

#define GOLDEN_NOW    "2026-01-31T12:00:00Z"
#define GOLDEN_ROUNDS 10

/* cr is NULL if there is none */
typedef void (*golden_plan)(const json_t *cr, const json_t *world, struct plan *plan);

struct golden_kind {
    const char *dir;          /* tests/golden/<dir>/ has the cases */
    const char *base;         /* tests/golden/base/<base>.yaml has what they have in common */
    const char *kind;         /* of the object that is reconciled; a key of the base */
    const char *const *words; /* of its own language; ends with NULL */
    golden_plan plan;
    /* Adds what the case says in the words of its kind to *cr (its metadata, spec and status as the
     * base and the case give them) and to the world, which has "now" and an empty "objects". */
    void (*expand)(const json_t *base, const json_t *c, json_t *cr, json_t *world);
    /* Lets a pod of the world run and be ready. */
    void (*make_ready)(const json_t *base, json_t *pod, const json_t *world);
};

/* Runs every case of a kind as a cmocka group; returns the number of failures. No case at all is a
 * failure. MILLRACE_UPDATE_GOLDEN=1 writes the plans into the cases instead. */
int golden_run(const struct golden_kind *kind);

/* ---- worlds ---- */

int64_t golden_now(const json_t *world); /* "now", ns since the epoch */
/* The world's objects of a kind. Caller frees the array; the objects are borrowed. *n: how many. */
const json_t **golden_objects(const json_t *world, const char *kind, size_t *n);
/* borrowed; NULL if absent */
json_t *golden_find(json_t *world, const char *kind, const char *ns, const char *name);
void golden_add(json_t *world, json_t *object_take);
/* the same, by kind and name; nothing happens if it is absent */
void golden_remove(json_t *world, const char *kind, const char *name);

enum golden_delete {
    GOLDEN_LINGER, /* deletionTimestamp is set, and that is all: finalizers, a kubelet at work */
    GOLDEN_GONE,
};
/* Anything but events and requeues. */
bool golden_has_writes(const struct plan *p);
/* Runs the actions on cr and world, in place. Stops in front of write `stop_at` (counted from 0;
 * SIZE_MAX: never), as an operator does that is killed. Returns how many writes were done. */
size_t golden_apply(
    json_t *cr, json_t *world, const struct plan *p, enum golden_delete how, size_t stop_at);

/* ---- cases (case.c) ---- */

/* RFC 7386, in place */
void golden_merge(json_t *object, const json_t *patch);
/* The test fails: a case that cannot be read is its author's error. */
void golden_refuse(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The object of a base, patched by a case's (or an inner mapping's) metadata, spec, was and status.
 * Caller owns it. */
json_t *golden_object(const json_t *base, const char *kind, const json_t *c);
/* A case as cr (NULL: there is none) and world. Caller owns both. */
void golden_expand(const struct golden_kind *kind, const json_t *base, const json_t *c, json_t **cr,
    json_t **world);

/* ---- plans as text (show.c) ---- */

/* What is shown of an object that a plan makes: how it differs from the reference of its name or
 * role, or all of it. refs is filled by golden_refs. whole: show the first of each role whole. */
struct golden_show {
    const json_t *cr, *world;
    const json_t *refs;
    bool whole;
    bool children; /* leave out status, events, requeues */
};
char *golden_text(const struct golden_show *s, const struct plan *p); /* caller frees */
/* Makes what the plan creates or applies the reference of its name and role, unless there is one.
 */
void golden_refs(json_t *refs, const struct plan *p);

/* ---- json as text (flow.c) ---- */

/* The keys of an object in order, borrowed. Caller frees the array. *n: how many. */
const char **golden_keys(const json_t *object, size_t *n);
struct buf;
/* {a: 1, b: [x, "y z"]} on one line; the string `now` as the word now */
void golden_flow(struct buf *b, const json_t *j, const char *now);
/* over several lines where one is too long, each indented and ended */
void golden_block(struct buf *b, const json_t *j, int indent, const char *now);
/* A line for each difference: "path: value", "+path: value", "-path". */
void golden_delta(
    struct buf *b, const char *path, const json_t *from, const json_t *to, const char *now);
/* Lines of two texts, with - and + in front of what differs; caller frees. */
char *golden_diff(const char *from, const char *to);

#endif
