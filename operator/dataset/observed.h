/* SPDX-License-Identifier: Apache-2.0 */
/* observed — what the plan of one Dataset looks at. Borrowed and immutable while the plan is made;
 * the controller fills it from informers, tests from files. */
#ifndef MILLRACE_OPERATOR_DATASET_OBSERVED_H
#define MILLRACE_OPERATOR_DATASET_OBSERVED_H

#include "operator/api/cond.h"
#include "operator/api/dataload.h"
#include "operator/ctl/plan.h"
#include "operator/dataset/clients.h"
#include "operator/dataset/poll.h"
#include "operator/render/pod.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct dataset_observed {
    const json_t *cr;                          /* NULL: there is none (any more) */
    const json_t *pv, *pvc, *service, *policy; /* under our names, whoever made them; NULL: none */
    /* our pods with the Dataset's uid: workers, clients (and loaders, passed over) */
    const struct cache_pod *pods;
    size_t npods;
    const json_t *const *pod_nodes;   /* that of each pod, NULL: it is gone; or not looked up */
    const json_t *const *attachments; /* VolumeAttachments of the PV */
    size_t nattachments;
    const json_t *const *nodes; /* as of clients_observed */
    const json_t *gpu_nodes;    /* of gpu_nodes_of(); or NULL */
    const json_t *demands;      /* of gated_demands(); or NULL */
    /* array of names of the pods that use the claim, of a minute ago at most; only looked up when
     * deleting, as long as the claim is there */
    const json_t *users;
    /* names of claims that there are, of those that it mounts: an object; NULL: not looked up */
    const json_t *claims;
    const char *ring; /* ring_claim(); NULL: none */
    struct poll_reads retired;
    const json_t *said; /* of ctl/verdicts, of the Dataset's pods; may be NULL */
    int64_t now_ns;     /* since the epoch */
    struct render_env env;
};

void dataset_plan(const struct dataset_observed *o, struct plan *p);
/* Says why the server refused a child, in the Dataset's condition and an event. */
void dataset_plan_refused(const json_t *cr, const struct plan_action *failed, const struct err *why,
    int64_t now_ns, struct plan *then);

/* internal to operator/dataset/, one file each */
struct dataset_eval {
    const struct dataset *d;         /* NULL: the spec is not valid */
    struct cache_pod_health *health; /* one a pod */
    bool *current;                   /* one a pod: made of the spec as it is */
    struct map *by_name;             /* const struct cache_pod *, of o->pods */
    struct clients clients;
    /* a worker's successor is asked about; or that was refused, or a worker: "": neither was */
    bool asks;
    char refused[512];
    struct cache_pod_making making;
    /* until then the next outdated worker stays, for what was preloaded to be held again, since the
     * epoch; 0: none waits for that */
    int64_t roll_waits_until_ns;
    const char *refused_reason; /* NULL: as of any refusal */
};
/* d: NULL if the spec is not valid */
void dataset_evaluate(
    const struct dataset_observed *o, const struct dataset *d, struct dataset_eval *v);
void dataset_eval_free(struct dataset_eval *v);
/* In words for people: a pod stays as it was made, since the server refuses its successor. */
void dataset_say_refused(
    const json_t *cr, const json_t *pod, const char *words, char *out, size_t size);
#define DATASET_WORDS_LEN 320
/* true: nobody finds the workers, since DNS takes no names as long as theirs; out: what to do */
bool dataset_unresolvable(const struct dataset *d, char out[DATASET_WORDS_LEN]);
/* The first mount whose claim is not there; SIZE_MAX: there is none. */
size_t dataset_lacks_claim(const struct dataset_observed *o, const struct dataset *d);
/* NULL: there is none */
const struct cache_pod *dataset_worker(const struct dataset_eval *v, int index);
/* Of the status only phase and the condition Ready: it is False, and an Event (if asked for) says
 * so once. status: with what else is to be in it; NULL: that of cr. */
void dataset_plan_not_ready(const json_t *cr, const json_t *status, int64_t now_ns,
    const char *phase, const char *reason, const char *message, bool event, struct plan *p);
/* Pod `at`, which is being deleted, on a dead node; see pod_abandon(). */
bool dataset_abandon(const struct dataset_observed *o, size_t at, struct plan *p);
void dataset_plan_delete(const struct dataset_observed *o, struct plan *p);
void dataset_plan_workers(const struct dataset_observed *o, struct dataset_eval *v, struct plan *p);
/* What users would want to know of a Dataset that works: the conditions CacheFits and FullSpeed. */
struct dataset_advice {
    struct cond cond;
    char message[768];
    bool keep; /* it is not known now, or only of some nodes: what is recorded stays */
};
/* s: with its spec, and the size of the data */
void dataset_advise_cache(
    const struct dataset_observed *o, const struct dataset_status *s, struct dataset_advice *a);
/* desired: nodes that use it */
void dataset_advise_speed(const struct dataset_observed *o, int desired, struct dataset_advice *a);
/* The latest mount of the Dataset that died in the last hour and was made again; false: none. */
bool dataset_lost_mount(const struct dataset_observed *o, char *message, size_t size);
bool dataset_disk_full(const struct dataset_observed *o, char *message, size_t size);
/* A pod serves, as kubelet says, and has not answered this operator for a minute. *wait_ns: when to
 * look again, -1: no need. */
bool dataset_not_heard(
    const struct dataset_observed *o, char *message, size_t size, int64_t *wait_ns);
/* A pod that serves has not told of itself yet: it is new, or this operator is. */
bool dataset_unheard(const struct dataset_observed *o);
/* Condition WritesKept, s->kept_files, and an Event when there are more. */
void dataset_plan_kept(const struct dataset_observed *o, json_t *conditions,
    struct dataset_status *s, struct plan *events);
/* status and events. problem: why there are no children ({reason, message}), reason NULL: none */
struct dataset_problem {
    const char *reason;
    char message[512];
    bool passes; /* by itself; else only a person can mend it */
};
/* What comes of spec.cache.preload. */
struct dataset_preloading {
    bool asked;  /* there is a condition Preloaded */
    bool ending; /* it is not asked for any more, but the status is kept a while */
    struct cond cond;
    char reason[48], message[640];
    bool warn;                         /* the transition to it is a Warning */
    struct dataload_progress progress; /* not known: the recorded one stays */
    char refused[512]; /* why the pod that preloads stays as it was made; "": it does not */
};
void dataset_plan_preload(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct dataset_problem *problem, struct dataset_preloading *r, struct plan *p);
/* Do the workers as they are now hold what is to be preloaded? */
enum dataset_held {
    DATASET_HELD,   /* all of it, or nothing is asked for */
    DATASET_COMING, /* not yet, or it is not known yet */
    DATASET_NEVER,  /* it cannot be: it has no room, or is not there */
};
enum dataset_held dataset_preload_held(
    const struct dataset_observed *o, const struct dataset_eval *v);
/* d: NULL if the spec is not valid */
void dataset_count(const struct dataset_observed *o, const struct dataset *d,
    const struct dataset_preloading *preload, struct dataset_status *s);
void dataset_plan_status(const struct dataset_observed *o, const struct dataset_eval *v,
    const struct dataset_problem *problem, const struct dataset_preloading *preload,
    struct plan *p);

#endif
