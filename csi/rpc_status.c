/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/rpc_status.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/http/metric.h"

#include <errno.h>
#include <grpc/status.h>
#include <stdio.h>
#include <string.h>

/* The one place where an error becomes a gRPC status. The first row that fits; sys 0 fits every
 * errno. CSI gives some statuses a meaning of its own: ABORTED is "another operation on this volume
 * is under way". */
static const struct {
    enum err_class cls;
    int sys;
    grpc_status_code status;
} statuses[] = {
    {ERR_RETRY, ETIMEDOUT, GRPC_STATUS_DEADLINE_EXCEEDED},
    {ERR_RETRY, ECANCELED, GRPC_STATUS_CANCELLED},
    {ERR_RETRY, 0, GRPC_STATUS_UNAVAILABLE},
    {ERR_CONFLICT, EBUSY, GRPC_STATUS_FAILED_PRECONDITION},
    {ERR_CONFLICT, 0, GRPC_STATUS_ABORTED},
    {ERR_NOTFOUND, 0, GRPC_STATUS_NOT_FOUND},
    {ERR_EXISTS, 0, GRPC_STATUS_ALREADY_EXISTS},
    {ERR_INVALID, 0, GRPC_STATUS_INVALID_ARGUMENT},
    {ERR_DENIED, 0, GRPC_STATUS_PERMISSION_DENIED},
    {ERR_EXHAUSTED, 0, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {ERR_FATAL, 0, GRPC_STATUS_INTERNAL},
};

int rpc_status_of(const struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (statuses[i].cls == e->cls && (statuses[i].sys == 0 || statuses[i].sys == e->sys))
            return statuses[i].status;
    return GRPC_STATUS_UNKNOWN;
}

METRIC_COUNTER(
    csi_rpcs, "millrace_csi_rpcs_total", "method,code", "RPCs answered, by gRPC status.");
METRIC_SECONDS(csi_rpc_seconds, "millrace_csi_rpc_seconds", "method",
    "Time from a request of kubelet to its answer.");

void rpc_account(const char *path, int64_t started_ns, bool quiet, int code, const struct err *e)
{
    const char *name = strrchr(path, '/') + 1;
    int64_t took = clock_mono_ns() - started_ns;
    char status[16];
    snprintf(status, sizeof status, "%d", code);
    metric_add(metric_of(&csi_rpcs, name, status), 1);
    metric_add(metric_of(&csi_rpc_seconds, name), took);
    cleanup_free char *ms = xasprintf("%.1f", (double)took / 1e6);
    if (code == GRPC_STATUS_OK)
        log_kv(quiet ? LOG_DEBUG : LOG_INFO, "answered", "method", name, "ms", ms, NULL);
    else
        log_kv(LOG_WARN, "refused", "method", name, "class", err_class_name(e->cls), "error",
            e->msg, "ms", ms, NULL);
}
