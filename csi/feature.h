/* SPDX-License-Identifier: Apache-2.0 */
/* feature — what the FUSE of this node's kernel can do, as the kernel itself says it. */
#ifndef MILLRACE_CSI_FEATURE_H
#define MILLRACE_CSI_FEATURE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct features {
    char kernel[65];  /* release: "6.12.41" */
    bool passthrough; /* it reads cached files by itself */
    bool resend;      /* it hands requests that a killed client had to the next one */
};

/* Makes a FUSE file system that is mounted nowhere, and reads the kernel's INIT from it. */
int features_ask(struct features *f, struct err *e);
/* Asks, tells the metrics millrace_csi_feature, and logs what is missing. */
void features_tell(void);
/* The INIT request, with its header. Pure. false: it is none. */
bool features_parse(struct features *f, const void *request, size_t len);

#endif
