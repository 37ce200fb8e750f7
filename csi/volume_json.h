/* SPDX-License-Identifier: Apache-2.0 */
/* volume_json — a volume's record on disk. Pure. */
#ifndef MILLRACE_CSI_VOLUME_JSON_H
#define MILLRACE_CSI_VOLUME_JSON_H

#include "csi/volume_record.h"
#include "lib/base/err.h"

char *volume_to_json(const struct volume *v); /* caller frees */
/* Checks everything again that becomes a path: a record may have been tampered with, or be of
 * another release. */
struct volume *volume_from_json(const char *text, size_t len, struct err *e);

#endif
