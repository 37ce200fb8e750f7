/* SPDX-License-Identifier: Apache-2.0 */
/* volume — the PersistentVolume and claim of a dataset, the Service of its workers, and what its
 * pods mount and are told. Pure. */
#ifndef MILLRACE_OPERATOR_RENDER_VOLUME_H
#define MILLRACE_OPERATOR_RENDER_VOLUME_H

#include "lib/base/names.h"
#include "lib/sign/sign.h"
#include "operator/api/dataset.h"

#include <jansson.h>

/* where pods see the claims of pvc:// mounts: <dir>/<mount index> */
#define RENDER_CLAIMS_DIR "/mnt/claims"
/* of PV and PVC: a dataset has no size that Kubernetes could enforce, and what a claim asks for
 * counts against the namespace's quota of storage. */
#define RENDER_CAPACITY "1Gi"

/* Each gives an object that the caller owns. */
json_t *render_pv(const struct dataset *d);
json_t *render_pvc(const struct dataset *d);
json_t *render_service(const struct dataset *d);
/* Lets the Dataset's own pods reach one another, and whom `ingress`, rules of a NetworkPolicy,
 * names.
 */
json_t *render_network_policy(const struct dataset *d, const json_t *ingress);

/* The document of lib/conf/conf.h as text, for a pod with these tiers. Caller frees. */
char *render_config(const struct dataset *d, const struct dataset_tiers *tiers,
    const json_t *keep_free, const json_t *endpoints);

/* Appends what the container reads to spec.volumes and to volumeMounts: Secrets, ConfigMaps, and
 * the claims of pvc:// mounts. */
void render_sources(const struct dataset *d, json_t *volumes, json_t *volume_mounts);
/* The Secret of a Dataset's key: who has it may ask its cache workers. It is not changed: its name
 * has the uid, so that it is never that of the Dataset before, and the key's own, so that pods with
 * that of another master are outdated. */
json_t *render_key(const struct dataset *d, const struct sign_key *master);
/* Its name. Caller frees. */
char *render_key_name(const struct dataset *d, const struct sign_key *master);
#define RENDER_KEY_VOLUME "cache-key"
/* A token of the Dataset's service account, renewed by kubelet. */
void render_identity_volume(const struct dataset *d, json_t *volumes, json_t *volume_mounts);
#define RENDER_TOKEN_FILE POD_IDENTITY_DIR "/token"
void render_key_volume(
    const struct dataset *d, const struct sign_key *master, json_t *volumes, json_t *volume_mounts);
#define RENDER_KEY_FILE POD_KEY_DIR "/key"
/* What may change while the pod runs: how many workers there are. */
void render_info_volume(json_t *volumes, json_t *volume_mounts);
/* The inline volume of our driver with socket and cache directory. kind: VOL_KIND_*. */
void render_inline_volume(
    const struct dataset *d, const char *kind, json_t *volumes, json_t *volume_mounts);

#endif
