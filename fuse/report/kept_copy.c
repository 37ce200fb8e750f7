/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/report/kept_copy.h"

#include "fuse/report/node_dir.h"
#include "fuse/store/timed_call.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (2 * NS_PER_S)

struct kept_copy {
    pthread_mutex_t mu;
    struct timed_calls *calls;
    struct kept_seen last; /* mu */
    char *of;              /* mu: the directory that it is of; NULL: none */
};

/* A look at the directory, by a thread that may never come back from it. */
struct kept_look {
    struct timed_job job;
    char *stage_dir;
    struct kept_seen seen;
};

/* NULL: not in a pod, or not known; the caller frees. */
static char *kept_on_node(const char *dir)
{
    struct err e = ERR_INIT;
    cleanup_mountinfo struct mountinfo m = {0};
    cleanup_free char *real = realpath(dir, NULL);
    return real && mountinfo_read(&m, &e) == 0 ? node_dir_of(&m, real) : NULL;
}

static void look_run(struct timed_job *job)
{
    struct kept_look *l = (struct kept_look *)job;
    kept_list(l->stage_dir, &l->seen.kept);
    l->seen.dir = l->seen.kept.files ? kept_dir(l->stage_dir) : xstrdup("");
    l->seen.node_dir = *l->seen.dir ? kept_on_node(l->seen.dir) : NULL;
    if (!l->seen.node_dir)
        l->seen.node_dir = xstrdup("");
}

static void look_drop(struct timed_job *job)
{
    struct kept_look *l = (struct kept_look *)job;
    kept_seen_free(&l->seen);
    free(l->stage_dir);
    free(l);
}

void kept_seen_free(struct kept_seen *s)
{
    kept_free(&s->kept);
    free(s->dir);
    free(s->node_dir);
    *s = (struct kept_seen){0};
}

static void seen_copy(const struct kept_seen *s, struct kept_seen *out)
{
    *out = *s;
    out->dir = xstrdup(s->dir ? s->dir : "");
    out->node_dir = xstrdup(s->node_dir ? s->node_dir : "");
    for (size_t i = 0; i < s->kept.nshown; i++) {
        out->kept.shown[i].name = xstrdup(s->kept.shown[i].name);
        out->kept.shown[i].path = xstrdup(s->kept.shown[i].path);
    }
}

struct kept_copy *kept_copy_new(void)
{
    struct kept_copy *k = xcalloc(1, sizeof *k);
    pthread_mutex_init(&k->mu, NULL);
    k->calls = timed_calls_new(&(struct timed_conf){.name = "what is kept", .max_stuck = 1});
    return k;
}

void kept_copy_free(struct kept_copy *k)
{
    if (!k)
        return;
    timed_calls_free(k->calls);
    kept_seen_free(&k->last);
    free(k->of);
    pthread_mutex_destroy(&k->mu);
    free(k);
}

void kept_copy_get(struct kept_copy *k, const char *stage_dir, struct kept_seen *out)
{
    struct err none = ERR_INIT;
    struct kept_look *l = NULL;
    *out = (struct kept_seen){.dir = xstrdup(""), .node_dir = xstrdup("")};
    if (!stage_dir)
        return;
    l = xcalloc(1, sizeof *l);
    l->job.run = look_run;
    l->job.drop = look_drop;
    l->job.what = "what is kept";
    l->job.brief = true;
    l->stage_dir = xstrdup(stage_dir);
    bool fresh = timed_call(k->calls, &l->job, clock_mono_ns() + LOOK_NS, NULL, &none) == 0;
    pthread_mutex_lock(&k->mu);
    if (fresh) {
        kept_seen_free(&k->last);
        free(k->of);
        k->last = l->seen;
        k->of = steal(&l->stage_dir);
        l->seen = (struct kept_seen){0};
    }
    if (k->of && strcmp(k->of, stage_dir) == 0) {
        kept_seen_free(out);
        seen_copy(&k->last, out);
    }
    pthread_mutex_unlock(&k->mu);
    if (fresh)
        look_drop(&l->job);
}
