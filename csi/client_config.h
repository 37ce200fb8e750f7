/* SPDX-License-Identifier: Apache-2.0 */
/* client_config — the configuration document (lib/conf/conf.h) of a client process, from a volume's
 * parameters. Pure. Parameters: url (file:///dir, s3://bucket/prefix, …), cache-memory and
 * cache-disk (quantities), write-type, immutable; every other key is an option of the store. Keys
 * of csi.storage.k8s.io/ are for others and left out. */
#ifndef MILLRACE_CSI_CLIENT_CONFIG_H
#define MILLRACE_CSI_CLIENT_CONFIG_H

#include "csi/volume_context.h"
#include "lib/base/err.h"

#include <stdbool.h>

#define CLIENT_URL "url"

/* INVALID names the parameter. read_only: the volume is, or it is not known yet. */
int client_config_check(const struct volume_pair *params, size_t n, bool read_only, struct err *e);
char *client_config(const char *id, bool read_only, const struct volume_pair *params, size_t n,
    bool has_secrets); /* of checked parameters; caller frees */

#endif
