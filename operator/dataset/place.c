/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/place.h"

#include "lib/base/buf.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "operator/dataset/demand.h"

#include <stdlib.h>
#include <string.h>

/* behind the name of a node that was offered, by its use */
static const char marks[] = {[PLACE_IDLE] = 0, [PLACE_AWAITED] = '?', [PLACE_USED] = '!'};

/* ---- places ---- */

/* Not the same nodes first for every Dataset. */
static size_t place_first(const char *uid, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (const char *p = uid; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3;
    return (size_t)(h % (n ? n : 1));
}

static struct place *place_of(const struct places *s, const char *node)
{
    for (size_t i = 0; i < s->n && *node; i++)
        if (strcmp(s->v[i].node, node) == 0)
            return &s->v[i];
    return NULL;
}

static void mark_jobs(const struct dataset_observed *o, struct places *s)
{
    struct map *used = map_new(NULL);
    for (size_t i = 0; i < o->nattachments; i++)
        if (!kube_deleting(o->attachments[i]))
            map_put(used, jget_str(o->attachments[i], "spec.nodeName", ""), used);
    for (size_t i = 0; i < s->n; i++)
        if (map_get(used, s->v[i].node))
            s->v[i].use = PLACE_USED;
    map_free(used);
}

static enum place_use awaited_by(const struct dataset_observed *o, const json_t *node)
{
    for (size_t i = 0; i < json_array_size(o->demands); i++)
        if (demand_fits(json_array_get(o->demands, i), node))
            return PLACE_AWAITED;
    return PLACE_IDLE;
}

void places_take(const struct dataset_observed *o, const struct dataset_eval *v, struct places *s)
{
    size_t n = json_array_size(o->gpu_nodes), i;
    json_t *node;
    *s = (struct places){xcalloc(n + 1, sizeof *s->v), 0};
    if (!v->d || v->d->placement != DATASET_BESIDE_GPU)
        return;
    size_t first = place_first(v->d->uid, n);
    json_array_foreach ((json_t *)o->gpu_nodes, i, node)
        if (demand_is_selected(node, o->env.plugin_nodes)
            && demand_is_tolerated(jget_arr(node, "taints"), v->d->worker.tolerations))
            s->v[s->n++] = (struct place){jget_str(node, "name", ""), awaited_by(o, node), 0,
                i >= first ? i - first : i + n - first};
    mark_jobs(o, s);
    for (i = 0; i < o->npods; i++) {
        const json_t *pod = o->pods[i].pod;
        struct place *p = cache_pod_is(pod, COMPONENT_WORKER)
                && v->health[i].state != CACHE_POD_LEAVING
            ? place_of(s, jget_str(pod, "spec.nodeName", ""))
            : NULL;
        if (p)
            p->workers++;
    }
}

void places_free(struct places *s)
{
    free(s->v);
    s->v = NULL;
}

/* ---- what a worker is offered ---- */

static int by_worth(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->use != y->use)
        return x->use > y->use ? -1 : 1;
    if (x->workers != y->workers)
        return x->workers < y->workers ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static size_t best_of(const struct places *s)
{
    size_t best = 0;
    for (size_t i = 1; i < s->n; i++)
        if (by_worth(&s->v[i], &s->v[best]) < 0)
            best = i;
    return best;
}

/* So far apart that what the scheduler weighs beside it, such as how full nodes are, does not lead
 * from a node with a job to one without: between equals it may. */
static int weight_of(const struct places *sorted, size_t i)
{
    enum place_use use = sorted->v[i].use;
    int usual = use == sorted->v[0].use ? 80 : use == PLACE_AWAITED ? 40 : 20;
    return i == 0 ? 100 : sorted->v[i].workers ? usual * 3 / 4 : usual;
}

static const char *node_of_worker(const struct dataset_eval *v, int index)
{
    const struct cache_pod *m = dataset_worker(v, index);
    return m ? jget_str(m->pod, "spec.nodeName", "") : "";
}

void place_offer_take(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct places *s, int index, struct place_offer *to)
{
    cleanup_places struct places mine = {xcalloc(s->n + 1, sizeof *mine.v), s->n};
    cleanup_buf struct buf text = BUF_INIT(RENDER_PLACES_MAX * 256);
    *to = (struct place_offer){.text = NULL};
    if (s->n)
        memcpy(mine.v, s->v, s->n * sizeof *mine.v);
    struct place *own = place_of(&mine, node_of_worker(v, index));
    const struct cache_pod *m = dataset_worker(v, index);
    if (own && own->workers && v->health[m - o->pods].state != CACHE_POD_LEAVING)
        own->workers--;
    for (int i = 0; i < index && s->n; i++)
        if (!*node_of_worker(v, i))
            mine.v[best_of(&mine)].workers++;
    qsort(mine.v, mine.n, sizeof *mine.v, by_worth);
    for (size_t i = 0; i < mine.n && i < RENDER_PLACES_MAX; i++) {
        to->v[i] = (struct render_place){mine.v[i].node, weight_of(&mine, i)};
        buf_addf(&text, "%s%s", i ? " " : "", mine.v[i].node);
        if (marks[mine.v[i].use])
            buf_addc(&text, marks[mine.v[i].use]);
    }
    to->text = xstrdup(buf_str(&text));
    to->places = (struct render_places){to->v, MIN(mine.n, (size_t)RENDER_PLACES_MAX), to->text};
}

void place_offer_free(struct place_offer *x) { free(x->text); }

/* ---- another one ---- */

static int rank_of(const struct place *p) { return !p ? 0 : 1 + (int)p->use; }

static enum place_use use_of_mark(char mark)
{
    enum place_use use = PLACE_USED;
    while (use != PLACE_IDLE && marks[use] != mark)
        use--;
    return use;
}

/* Beyond the names that it holds, nothing is known of what was there: it was no better than those.
 */
static bool was_offered(const char *offered, const struct place *p)
{
    size_t len = strlen(p->node), words = 0;
    enum place_use least = PLACE_USED;
    for (const char *w = offered; *w; words++) {
        size_t n = strcspn(w, " ");
        enum place_use use = n ? use_of_mark(w[n - 1]) : PLACE_IDLE;
        least = MIN(least, use);
        if (n - (use != PLACE_IDLE) == len && strncmp(w, p->node, len) == 0)
            return use >= p->use;
        w += n + (w[n] == ' ');
    }
    return words >= RENDER_PLACES_MAX && least >= p->use;
}

const struct place *place_better(const struct places *s, const json_t *worker)
{
    const struct place *own = place_of(s, jget_str(worker, "spec.nodeName", "")), *best = NULL;
    const char *offered = kube_annotation(worker, ANNOTATION_OFFERED);
    for (size_t i = 0; i < s->n; i++) {
        const struct place *p = &s->v[i];
        if (p->workers == 0 && rank_of(p) > rank_of(own) && !was_offered(offered, p)
            && (!best || by_worth(p, best) < 0))
            best = p;
    }
    return best;
}
