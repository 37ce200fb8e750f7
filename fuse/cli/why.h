/* SPDX-License-Identifier: Apache-2.0 */
/* why — what a pod waits for, or why its reads are slow: one sentence and the next command, from
 * what the API server tells. Pure: the answers of the server are collected elsewhere (facts.h).
 *
 * A rule looks at one thing; the first that has something to say is the answer. They are in the
 * order in which a pod gets on: its claims, gates, the scheduler, the dataset, the plugin of the
 * node, the attachment, the client, containers, and then, for a pod that runs, what makes its reads
 * slow. */
#ifndef MILLRACE_FUSE_CLI_WHY_H
#define MILLRACE_FUSE_CLI_WHY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The worse, the higher. */
enum why_rank { WHY_FINE, WHY_SLOW, WHY_WAITS, WHY_FAILS };

struct why {
    enum why_rank rank;
    char *sentence, *next; /* owned; next "": there is nothing to do */
};
void why_free(struct why *w);
#define cleanup_why __attribute__((cleanup(why_free)))

/* Answers of the API server, borrowed. Arrays are NULL where the person may not read them, objects
 * also where there is none. */
struct why_facts {
    const char *command; /* how we are called: "millrace", "kubectl millrace" */
    const char *ns;
    const json_t *pod;
    const json_t *events;                     /* of pods of the namespace */
    const json_t *claims, *datasets, *caches; /* of the namespace; caches: pods of ours */
    const json_t *elsewhere;                  /* Datasets of all namespaces */
    const json_t *attachments;                /* VolumeAttachments of our driver */
    const json_t *nodes, *csinodes;           /* some of them */
    const json_t *operators;                  /* pods, of all namespaces, where they matter */
};

/* w was zeroed. Always says something. */
void why_pod(const struct why_facts *f, struct why *w);
/* Takes pods out that failed and were replaced: pods are those of one job or Deployment. */
void why_drop_replaced(json_t *pods);
bool why_all_succeeded(const json_t *pods);
/* Of an object of ours that nobody has looked at, because operators (pods) watch another namespace.
 */
bool why_object_unwatched(
    const json_t *object, const char *kind, const char *ns, const json_t *operators, struct why *w);
/* Of a TFJob that nobody has looked at, because Millrace was told to run none. */
bool why_tfjob_unrun(const json_t *job, const json_t *operators, struct why *w);
#define TFJOBS_NOT_OURS                                                                            \
    "Millrace does not run TFJobs here (value tfjob.enabled of its chart is false), and no other " \
    "operator has taken it: let one of them run TFJobs, see docs/migrate/training-operator.md"
/* Of a job that has no pods: job is a TFJob, a Job or the like, events are its own. */
void why_job(const json_t *job, const char *ns, const json_t *events, struct why *w);
/* Of what is no pod and no job; command: how we are called. */
void why_of_dataset(const json_t *dataset, const char *command, struct why *w);
void why_of_dataload(const json_t *load, struct why *w);

/* -- for the rules --------------------------------------------------------------------------- */

typedef bool (*why_rule)(const struct why_facts *f, struct why *w);

/* Both return true: `return why_say(…)`. The sentence begins with "pod NAME ". */
bool why_say(const struct why_facts *f, struct why *w, enum why_rank rank, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool why_next(struct why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "kubectl -n NS describe pod NAME" */
bool why_describe(const struct why_facts *f, struct why *w);

/* "millrace status DATASET -n NS" */
bool why_status(const struct why_facts *f, struct why *w, const char *dataset);

/* "client", "worker", "loader"; "": it is no cache pod */
const char *our_component(const json_t *pod);
const char *scheduler_message(const json_t *pod); /* "": none */
bool pod_started(const struct why_facts *f);      /* a container of it runs, or did */
/* What kind it is must not matter: "x, y" of array's names, closest first; NULL: none is close. */
const char *similar_name(const json_t *objects, const char *name);
const json_t *named(const json_t *objects, const char *name); /* by metadata.name; NULL: none */
/* The newest event of the pod; of one of the reasons, unless it is "". NULL: none. */
const json_t *newest_event(const struct why_facts *f, const char *type, const char *const *reasons);
/* One line without a full stop at its end; caller frees. */
char *one_line(const char *text);

/* claim i of the pod; NULL: there are no more of them */
const char *pod_claim(const struct why_facts *f, size_t i);
/* The Dataset whose claim that is; NULL: it is no claim of ours. */
const json_t *claim_dataset(const struct why_facts *f, const char *claim);

/* why_pod.c */
bool why_leaving(const struct why_facts *f, struct why *w);
bool why_unscheduled(const struct why_facts *f, struct why *w);
/* why_ours.c: as why_pod(), of a client, worker or loader pod */
void why_cache_pod(const struct why_facts *f, struct why *w);
/* why_blind.c: as why_pod(), for a person who may not read Datasets */
void why_pod_blind(const struct why_facts *f, struct why *w);
/* why_watched.c; pods: any of ours */
#define COMPONENT_OPERATOR "operator"         /* its container is called so, too */
const char *watched_only(const json_t *pods); /* the one namespace; "": all of them */
bool runs_no_tfjobs(const json_t *pods);      /* told so by its chart */
bool is_unwatched(const json_t *pods, const char *ns);
bool pod_needs_operator(const json_t *pod, const json_t *datasets); /* to get on */
bool why_unwatched(const struct why_facts *f, struct why *w);
/* why_claim.c */
bool why_claim_missing(const struct why_facts *f, struct why *w);
bool why_gated(const struct why_facts *f, struct why *w);
bool why_dataset_not_ready(const struct why_facts *f, struct why *w);
bool why_reads_slow(const struct why_facts *f, struct why *w);
/* why_place.c; message: the scheduler's. false: its nodeSelector and nodeAffinity are not the cause
 */
bool why_no_such_node(const struct why_facts *f, const char *message, struct why *w);
/* why_node.c */
bool why_plugin_missing(const struct why_facts *f, struct why *w);
bool lacks_plugin(const struct why_facts *f); /* the node of the pod; false: it is not known */
bool plugin_next(const struct why_facts *f, struct why *w); /* the command that looks for it */
const char *mount_failure(const struct why_facts *f); /* kubelet's words, of a pod that starts */
bool why_client_down(const struct why_facts *f, struct why *w);
bool why_not_attached(const struct why_facts *f, struct why *w);
bool why_not_mounted(const struct why_facts *f, struct why *w);
/* why_container.c */
/* The status of the first container, of init containers too, that cannot start; NULL: none. */
const json_t *held_up_container(const json_t *pod);
bool why_container_failed(const struct why_facts *f, struct why *w);
bool why_container_killed(const struct why_facts *f, struct why *w);
bool why_pod_ended(const struct why_facts *f, struct why *w);
bool why_starting(const struct why_facts *f, struct why *w);
bool why_not_ready(const struct why_facts *f, struct why *w);

#endif
