/* SPDX-License-Identifier: Apache-2.0 */
/* doctor — what is wrong: with Millrace in a cluster, from what the API server tells (pure); with
 * this machine; with a store. */
#ifndef MILLRACE_FUSE_CLI_DOCTOR_H
#define MILLRACE_FUSE_CLI_DOCTOR_H

#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <jansson.h>
#include <stdbool.h>

/* Answers of the API server, borrowed; NULL where the person may not read it, or there is none. */
struct doctor_facts {
    const char *ns, *version; /* version: ours */
    bool may_list_crds, may_get_driver;
    const json_t *crds;       /* those that exist, of ours and tfjobs */
    const json_t *driver;     /* CSIDriver */
    const json_t *pods;       /* of ours, of all namespaces or (pods_of_all false) of ns */
    const json_t *daemonsets; /* of all namespaces */
    const json_t *nodes, *csinodes, *datasets;
    bool all;             /* pods are of all namespaces */
    bool all_datasets;    /* so are datasets */
    const json_t *tfjobs; /* of all namespaces or (all_tfjobs false) of ns */
    bool all_tfjobs;
    bool may_not_list;     /* Datasets: else, without any, there is no such kind */
    const json_t *refused; /* array of "list pods": what may not be done in ns */
};

enum doctor_verdict { DOCTOR_OK, DOCTOR_FAILED, DOCTOR_NOTE, DOCTOR_SKIPPED };

/* Writes a line for each check; returns how many have FAILED. */
unsigned doctor_report(const struct doctor_facts *f, struct buf *out);

struct doctor_lines {
    struct buf *out;
    unsigned failed;
    bool at_once; /* each is printed, too, as soon as it is known */
};
void doctor_checks(const struct doctor_facts *f, struct doctor_lines *r); /* the same */
/* doctor_cluster.c; required false: nothing is said where no cluster is configured */
struct cluster_flags;
int doctor_cluster(
    const struct cluster_flags *flags, bool required, struct doctor_lines *r, struct err *e);
/* doctor_machine.c: can it mount, and serve well? */
void doctor_machine(struct doctor_lines *r);
/* doctor_store.c: one step after the other. write: an empty object is written and removed */
struct args;
void doctor_store(const struct args *a, const char *url, bool write, struct doctor_lines *r);

/* -- internal to doctor*.c --------------------------------------------------------------------- */

void doctor_line(struct doctor_lines *r, enum doctor_verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool doctor_is_component(const json_t *pod, const char *component);
bool doctor_pod_is_ready(const json_t *pod);
/* of a component, that is (not) ready; NULL: none */
const json_t *doctor_first_of(const struct doctor_facts *f, const char *component, bool ready);
/* by metadata.name; NULL: it is not there */
const json_t *doctor_crd(const struct doctor_facts *f, const char *name);
#define DOCTOR_CRDS_REMEDY \
    "kubectl apply --server-side --force-conflicts -f crds/ (of the version that runs)"
/* Why nobody has looked at an object of that namespace, as far as it is known; caller frees. */
char *doctor_unseen(const struct doctor_facts *f, const char *ns);
/* doctor_tfjob.c */
void doctor_check_tfjob_kind(const struct doctor_facts *f, struct doctor_lines *r);
void doctor_check_tfjobs(const struct doctor_facts *f, struct doctor_lines *r);
/* doctor_plugin.c */
void doctor_check_plugin(const struct doctor_facts *f, struct doctor_lines *r);
void doctor_check_disks(const struct doctor_facts *f, struct doctor_lines *r);
void doctor_check_driver(const struct doctor_facts *f, struct doctor_lines *r);

#endif
