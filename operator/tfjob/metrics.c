/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/tfjob/metrics.h"

#include "lib/base/mem.h"
#include "lib/http/metric.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"
#include "operator/api/cond.h"
#include "operator/api/tfjob.h"

#include <stdatomic.h>

static atomic_bool leading;

/* One counter, under the name of training-operator and the one before. */
#define JOB_COUNTER(what, help)                                                                  \
    METRIC_COUNTER(jobs_##what##_new, "training_operator_jobs_" #what "_total",                  \
        "job_namespace,framework", help);                                                        \
    METRIC_COUNTER(                                                                              \
        jobs_##what##_old, "tf_operator_jobs_" #what "_total", "job_namespace,framework", help); \
    static const struct metric_def *const jobs_##what[] = {&jobs_##what##_new, &jobs_##what##_old}

JOB_COUNTER(created, "TFJobs that came.");
JOB_COUNTER(deleted, "TFJobs that are gone.");
JOB_COUNTER(successful, "TFJobs that have succeeded.");
JOB_COUNTER(failed, "TFJobs that have failed.");
JOB_COUNTER(restarted, "Restarts of replicas of TFJobs.");

static void count_jobs(const json_t *job, const struct metric_def *const counters[2], int64_t n)
{
    for (int i = 0; i < 2; i++)
        metric_add(metric_of(counters[i], kube_namespace(job), "tensorflow"), n);
}

static int64_t sum_job_restarts(const json_t *job)
{
    cleanup_tfjob_status struct tfjob_status s;
    tfjob_status_read(job, &s);
    int64_t sum = 0;
    for (int t = 0; t < TFJOB_TYPES; t++)
        for (size_t i = 0; i < s.indexes[t].n; i++)
            sum += s.indexes[t].index[i].restarts;
    return sum;
}

static bool became_true(const json_t *was, const json_t *now, const char *type)
{
    return cond_is_true(jget_arr(now, "status.conditions"), type)
        && !cond_is_true(jget_arr(was, "status.conditions"), type);
}

static void on_job_change(void *user, const json_t *was, const json_t *now)
{
    (void)user;
    if (!atomic_load(&leading))
        return;
    if (!now) {
        count_jobs(was, jobs_deleted, 1);
        return;
    }
    if (!was) {
        count_jobs(now, jobs_created, 1);
        return;
    }
    if (became_true(was, now, TFJOB_SUCCEEDED))
        count_jobs(now, jobs_successful, 1);
    if (became_true(was, now, TFJOB_FAILED))
        count_jobs(now, jobs_failed, 1);
    if (jget(now, "status.indexes")
        && !json_equal(jget(was, "status.indexes"), jget(now, "status.indexes"))) {
        int64_t more = sum_job_restarts(now) - sum_job_restarts(was);
        if (more > 0)
            count_jobs(now, jobs_restarted, more);
    }
}

static int on_lead(void *user, struct err *e)
{
    (void)user;
    (void)e;
    atomic_store(&leading, true);
    return 0;
}

void tfjob_count(struct manager *mgr, struct informer *jobs)
{
    informer_on_change(jobs, on_job_change, NULL);
    manager_on_lead(mgr, on_lead, NULL, NULL);
}
