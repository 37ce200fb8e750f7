/* SPDX-License-Identifier: Apache-2.0 */
/* dataload — the DataLoad custom resource, json → struct and its status. The only place that spells
 * its fields. Pure. */
#ifndef MILLRACE_OPERATOR_API_DATALOAD_H
#define MILLRACE_OPERATOR_API_DATALOAD_H

#include "lib/base/err.h"
#include "operator/api/cron.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define DATALOAD_NAME_MAX      56 /* NAME_LOADER_POD_FMT must stay a label */

#define DATALOAD_FAILURES_MAX  20
#define DATALOAD_HISTORY_MAX   5

#define DATALOAD_PENDING       "Pending"
#define DATALOAD_SCHEDULED     "Scheduled" /* nothing is due, and there is no run to tell of */
#define DATALOAD_EXECUTING     "Executing"
#define DATALOAD_COMPLETE      "Complete"
#define DATALOAD_FAILED        "Failed"
#define DATALOAD_COND_COMPLETE "Complete"
#define DATALOAD_COND_FAILED   "Failed"
/* For those who know no kinds. The same as Complete; of one with a schedule: it loads, or waits for
 * its time, and its last run has not failed. */
#define DATALOAD_COND_READY "Ready"

/* Borrows from the json it was parsed from. */
struct dataload {
    const char *ns, *name, *dataset;
    const json_t *targets; /* array of {path}; NULL: everything */
    int64_t ttl_s;         /* -1: never */
    int pin;               /* of what is loaded: 1 it is pinned, 0 unpinned, -1 as it is */
    int64_t bandwidth;     /* bytes a second; 0: no bound */
    const char *schedule;  /* NULL: it runs once */
    bool suspend;          /* no run begins by the schedule */
    struct cron cron;
};

/* -1: INVALID, e says which field and what to do; out is filled as far as it could be. */
int dataload_parse(const json_t *cr, struct dataload *out, struct err *e);
/* array of strings, our own copies; caller owns it */
json_t *dataload_paths(const struct dataload *l);
const char *dataload_phase(const json_t *cr); /* "" if none */
bool dataload_finished(const json_t *cr);
/* When a finished one is to be deleted, ns since the epoch; -1: never. */
int64_t dataload_expiry(const json_t *cr, const struct dataload *l);

/* The share of part in all in tenths of a percent, rounded down: 1000 only where it is all of it. 0
 * of 0 is 0. */
int dataload_tenths(double part, double all);

struct dataload_progress {
    bool known, complete;
    int64_t files, bytes, done_files, done_bytes, failed;
};
/* as a loader reports it; NULL: not known */
struct dataload_progress dataload_progress_of(const json_t *load);
/* The files that a loader reports as failed, as status.failures: bounded, whatever it says. Caller
 * owns it; NULL: there are none. */
json_t *dataload_failures_of(const json_t *report);
/* 0 … 99, of the bytes; 100 only when it is complete */
int dataload_percent(const struct dataload_progress *p);

struct dataload_status {
    const char *phase;
    const json_t *conditions;          /* array; copied */
    struct dataload_progress progress; /* not known: the recorded one stays */
    const json_t *failures;            /* goes with the progress; NULL: none */
    const char *started;               /* startTime, unless one is recorded; NULL: not yet */
    bool finished; /* sets completionTime and duration, unless they are recorded */
    int64_t now_ns;
};
/* -- of one with a schedule */

/* which run the status is about: when it was due, as RFC 3339; "": none, or it runs once */
const char *dataload_run(const json_t *cr);
/* The time of that; before the first one: when it was created. */
int64_t dataload_last_due(const json_t *cr);
/* The status of a run that begins: what the one before left goes into the history. */
json_t *dataload_status_begin(
    const json_t *cr, int64_t due_ns, int64_t next_ns, const json_t *conditions);
/* The status between runs. next_ns: -1: none is due; phase: NULL: as it is. */
json_t *dataload_status_wait(
    const json_t *cr, int64_t next_ns, const char *phase, const json_t *conditions);

json_t *dataload_status_json(const json_t *cr, const struct dataload_status *s);

#endif
