/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_status — how an RPC ended: the gRPC status of an error, log and metrics. Threads: any. */
#ifndef MILLRACE_CSI_RPC_STATUS_H
#define MILLRACE_CSI_RPC_STATUS_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

int rpc_status_of(const struct err *e); /* a grpc_status_code */
/* code: a grpc_status_code; e: what was said where it is not 0; quiet: debug, unless it failed */
void rpc_account(const char *path, int64_t started_ns, bool quiet, int code, const struct err *e);

#endif
