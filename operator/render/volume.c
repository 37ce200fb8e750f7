/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/render/volume.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"
#include "operator/render/meta.h"

#include <stdio.h>
#include <string.h>

/* Below POD_SECRETS_DIR. Volumes beside each other, none in another: the outer one is read-only. */
#define KEYS_DIR       "keys" /* <mount index>/<option name>, <mount index>/CA_BUNDLE */
#define CA_BUNDLE      "ca-bundle"
#define SECRET_DIR_FMT "secret-%zu" /* mount index: a whole Secret, one file a key */

static json_t *access_modes(const struct dataset *d)
{
    return d->access_modes ? json_deep_copy(d->access_modes) : json_pack("[s]", "ReadOnlyMany");
}

/* The claim is named in claimRef, so that no other claim can bind the volume. Its uid is filled
 * in by the volume binder. */
json_t *render_pv(const struct dataset *d)
{
    cleanup_free char *name = render_pv_name(d->uid);
    json_t *pv = render_object(&kube_pvs, NULL, name, d->name, d->uid, NULL);
    json_object_set_new(pv, "spec",
        json_pack(
            "{s:{s:s}, s:o, s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:b, s:{s:s, s:s, s:s, s:s}}}",
            "capacity", "storage", RENDER_CAPACITY, "accessModes", access_modes(d),
            "persistentVolumeReclaimPolicy", "Retain", "storageClassName", "", "volumeMode",
            "Filesystem", "claimRef", "apiVersion", "v1", "kind", "PersistentVolumeClaim",
            "namespace", d->ns, "name", d->name, "csi", "driver", NAME_DRIVER, "volumeHandle",
            d->uid, "readOnly", d->read_only, "volumeAttributes", VOL_DATASET_UID, d->uid,
            VOL_DATASET_NAME, d->name, VOL_DATASET_NAMESPACE, d->ns, VOL_READ_ONLY,
            d->read_only ? "true" : "false"));
    return pv;
}

json_t *render_pvc(const struct dataset *d)
{
    cleanup_free char *pv = render_pv_name(d->uid);
    json_t *pvc = render_object(&kube_pvcs, d->ns, d->name, d->name, d->uid, NULL);
    render_owner(pvc, &kube_datasets, d->cr);
    json_object_set_new(pvc, "spec",
        json_pack("{s:o, s:s, s:s, s:s, s:{s:{s:s}}}", "accessModes", access_modes(d),
            "storageClassName", "", "volumeMode", "Filesystem", "volumeName", pv, "resources",
            "requests", "storage", RENDER_CAPACITY));
    return pvc;
}

json_t *render_service(const struct dataset *d)
{
    cleanup_free char *name = render_service_name(d->name);
    json_t *svc = render_object(&kube_services, d->ns, name, d->name, d->uid, NULL);
    render_owner(svc, &kube_datasets, d->cr);
    json_object_set_new(svc, "spec",
        json_pack("{s:s, s:{s:s, s:s}, s:[{s:s, s:i, s:s, s:s}]}", "clusterIP", "None", "selector",
            LABEL_DATASET_UID, d->uid, LABEL_COMPONENT, COMPONENT_WORKER, "ports", "name", "http",
            "port", PORT_HTTP, "protocol", "TCP", "targetPort", "http"));
    return svc;
}

json_t *render_network_policy(const struct dataset *d, const json_t *ingress)
{
    cleanup_free char *name = render_service_name(d->name);
    json_t *policy = render_object(&kube_networkpolicies, d->ns, name, d->name, d->uid, NULL);
    render_owner(policy, &kube_datasets, d->cr);
    cleanup_json json_t *own = json_pack(
        "{s:{s:{s:s}}}", "podSelector", "matchLabels", LABEL_DATASET_UID, d->uid);
    json_t *rules = json_pack(
        "[{s:[{s:s, s:i}], s:[O]}]", "ports", "protocol", "TCP", "port", PORT_HTTP, "from", own);
    json_array_extend(rules, (json_t *)ingress);
    json_object_set_new(policy, "spec",
        json_pack("{s:O, s:[s], s:o}", "podSelector", json_object_get(own, "podSelector"),
            "policyTypes", "Ingress", "ingress", rules));
    return policy;
}

/* Where the values of options are, below POD_SECRETS_DIR, and their names for messages. */
static void mount_secrets(json_t *j, const struct dataset_mount *m, size_t i)
{
    json_t *files = json_object(), *names = json_object();
    for (size_t k = 0; k < m->nsecrets; k++) {
        cleanup_free char *file = xasprintf(KEYS_DIR "/%zu/%s", i, m->secrets[k].option);
        cleanup_free char *from = xasprintf("%s:%s", m->secrets[k].secret, m->secrets[k].key);
        json_object_set_new(files, m->secrets[k].option, json_string(file));
        json_object_set_new(names, m->secrets[k].option, json_string(from));
    }
    if (m->nsecrets) {
        json_object_set(j, "secrets", files);
        json_object_set(j, "secretNames", names);
    }
    json_decref(files);
    json_decref(names);
    if (m->secret_ref) {
        cleanup_free char *dir = xasprintf(SECRET_DIR_FMT, i);
        json_object_set_new(j, "secretDir", json_string(dir));
        json_object_set_new(j, "secretDirName", json_string(m->secret_ref));
    }
    if (m->ca_configmap) {
        cleanup_free char *file = xasprintf(KEYS_DIR "/%zu/" CA_BUNDLE, i);
        cleanup_free char *from = xasprintf("%s:%s", m->ca_configmap, m->ca_key);
        json_object_set_new(j, "caBundle", json_string(file));
        json_object_set_new(j, "caBundleName", json_string(from));
    }
}

static json_t *mount_config(const struct dataset *d, size_t i)
{
    const struct dataset_mount *m = &d->mounts[i];
    json_t *j = json_pack("{s:s, s:b}", "path", m->path, "readOnly", d->read_only || m->read_only);
    if (m->claim) {
        cleanup_free char *url = xasprintf("file://" RENDER_CLAIMS_DIR "/%zu%s", i, m->claim_path);
        json_object_set_new(j, "mountPoint", json_string(url));
    } else {
        json_object_set_new(j, "mountPoint", json_string(m->mount_point));
    }
    if (m->immutable >= 0)
        json_object_set_new(j, "immutable", json_boolean(m->immutable));
    if (json_object_size(m->options))
        json_object_set_new(j, "options", json_deep_copy(m->options));
    if (json_object_size(m->default_options))
        json_object_set_new(j, "defaultOptions", json_deep_copy(m->default_options));
    mount_secrets(j, m, i);
    return j;
}

static json_t *tiers_config(const struct dataset_tiers *t)
{
    static const char *const media[] = {[CONF_MEM] = "MEM", [CONF_SSD] = "SSD", [CONF_HDD] = "HDD"};
    json_t *tiers = json_array();
    for (size_t i = 0; i < t->n; i++)
        json_array_append_new(tiers,
            json_pack("{s:s, s:I}", "medium", media[t->tier[i].medium], "quota",
                (json_int_t)t->tier[i].quota));
    return tiers;
}

static json_t *rules_config(const struct dataset *d)
{
    json_t *rules = json_array();
    for (size_t i = 0; i < d->nrules; i++)
        json_array_append_new(rules,
            json_pack("{s:s, s:s}", "path", d->rules[i].path, "writeType", d->rules[i].write_type));
    return rules;
}

_Static_assert(DATASET_REPLICAS_MAX <= CONF_WORKERS_MAX, "pods can be told of all workers");

char *render_config(const struct dataset *d, const struct dataset_tiers *tiers,
    const json_t *keep_free, const json_t *endpoints)
{
    json_t *mounts = json_array();
    for (size_t i = 0; i < d->nmounts; i++)
        json_array_append_new(mounts, mount_config(d, i));
    cleanup_json json_t *conf = json_pack("{s:s, s:s, s:s, s:b, s:o, s:{s:o}}", "namespace", d->ns,
        "name", d->name, "uid", d->uid, "readOnly", d->read_only, "mounts", mounts, "cache",
        "tiers", tiers_config(tiers));
    if (d->nrules)
        json_object_set_new(json_object_get(conf, "cache"), "rules", rules_config(d));
    if (keep_free)
        json_object_set(json_object_get(conf, "cache"), "keepFree", (json_t *)keep_free);
    if (json_array_size(endpoints))
        json_object_set(conf, "endpoints", (json_t *)endpoints);
    if (d->metadata_sync)
        json_object_set_new(conf, "metadataSync", json_integer(d->metadata_sync));
    cleanup_free char *name = render_service_name(d->name);
    cleanup_free char *service = xasprintf("%s.%s.svc", name, d->ns);
    json_object_set_new(conf, "workers",
        json_pack("{s:s, s:s, s:s, s:i}", "service", service, "name", name, "countFile",
            POD_INFO_DIR "/" POD_INFO_WORKERS, "port", PORT_HTTP));
    return json_text(conf);
}

static json_t *key_source(const char *kind, const char *name, const char *key, const char *path)
{
    return json_pack("{s:{s:s, s:b, s:[{s:s, s:s}]}}", kind, "name", name, "optional", 1, "items",
        "key", key, "path", path);
}

/* A whole Secret is a volume of its own: what its keys are called is not known, and a projected
 * volume would put them beside those of others. */
static void add_whole_secret(
    const struct dataset_mount *m, size_t i, json_t *volumes, json_t *volume_mounts)
{
    if (!m->secret_ref)
        return;
    cleanup_free char *name = xasprintf(SECRET_DIR_FMT, i),
                      *path = xasprintf(POD_SECRETS_DIR "/" SECRET_DIR_FMT, i);
    json_array_append_new(volumes,
        json_pack("{s:s, s:{s:s, s:b, s:i}}", "name", name, "secret", "secretName", m->secret_ref,
            "optional", 1, "defaultMode", 0444));
    json_array_append_new(volume_mounts,
        json_pack("{s:s, s:s, s:b}", "name", name, "mountPath", path, "readOnly", 1));
}

/* One projected volume for single keys of Secrets and ConfigMaps. Each is optional: a missing one
 * must not keep the pod from starting, because it is the pod that tells the user what is missing.
 */
static json_t *key_sources(const struct dataset *d)
{
    json_t *sources = json_array();
    for (size_t i = 0; i < d->nmounts; i++) {
        const struct dataset_mount *m = &d->mounts[i];
        for (size_t k = 0; k < m->nsecrets; k++) {
            const struct dataset_secret *s = &m->secrets[k];
            cleanup_free char *path = xasprintf("%zu/%s", i, s->option);
            json_array_append_new(sources, key_source("secret", s->secret, s->key, path));
        }
        if (m->ca_configmap) {
            cleanup_free char *path = xasprintf("%zu/" CA_BUNDLE, i);
            json_array_append_new(
                sources, key_source("configMap", m->ca_configmap, m->ca_key, path));
        }
    }
    return sources;
}

void render_sources(const struct dataset *d, json_t *volumes, json_t *volume_mounts)
{
    json_t *sources = key_sources(d);
    if (json_array_size(sources)) {
        json_array_append_new(volumes,
            json_pack("{s:s, s:{s:i, s:o}}", "name", "secrets", "projected", "defaultMode", 0444,
                "sources", sources));
        json_array_append_new(volume_mounts,
            json_pack("{s:s, s:s, s:b}", "name", "secrets", "mountPath",
                POD_SECRETS_DIR "/" KEYS_DIR, "readOnly", 1));
    } else {
        json_decref(sources);
    }
    for (size_t i = 0; i < d->nmounts; i++) {
        const struct dataset_mount *m = &d->mounts[i];
        add_whole_secret(m, i, volumes, volume_mounts);
        if (!m->claim)
            continue;
        bool ro = d->read_only || m->read_only;
        cleanup_free char *name = xasprintf("claim-%zu", i),
                          *path = xasprintf(RENDER_CLAIMS_DIR "/%zu", i);
        json_array_append_new(volumes,
            json_pack("{s:s, s:{s:s, s:b}}", "name", name, "persistentVolumeClaim", "claimName",
                m->claim, "readOnly", ro));
        json_array_append_new(volume_mounts,
            json_pack("{s:s, s:s, s:b}", "name", name, "mountPath", path, "readOnly", ro));
    }
}

static char *key_secret(const struct dataset *d, const struct sign_key *key)
{
    char name[SIGN_NAME_LEN];
    sign_key_name(key, name);
    return xasprintf(NAME_KEY_FMT, d->uid, name);
}

json_t *render_key(const struct dataset *d, const struct sign_key *master)
{
    struct sign_key key;
    char text[SIGN_HEX + 1];
    sign_key_derive(master, d->uid, &key);
    cleanup_free char *name = key_secret(d, &key);
    json_t *secret = render_object(&kube_secrets, d->ns, name, d->name, d->uid, NULL);
    sign_key_text(&key, text);
    render_owner(secret, &kube_datasets, d->cr);
    json_object_set_new(secret, "type", json_string("Opaque"));
    json_object_set_new(secret, "immutable", json_true());
    json_object_set_new(secret, "stringData", json_pack("{s:s}", "key", text));
    sign_key_wipe(&key);
    return secret;
}

char *render_key_name(const struct dataset *d, const struct sign_key *master)
{
    struct sign_key key;
    sign_key_derive(master, d->uid, &key);
    char *name = key_secret(d, &key);
    sign_key_wipe(&key);
    return name;
}

void render_identity_volume(const struct dataset *d, json_t *volumes, json_t *volume_mounts)
{
    json_array_append_new(volumes,
        json_pack("{s:s, s:{s:[{s:{s:s, s:i, s:s}}]}}", "name", "identity", "projected", "sources",
            "serviceAccountToken", "audience", d->token_audience, "expirationSeconds", 3600, "path",
            "token"));
    json_array_append_new(volume_mounts,
        json_pack(
            "{s:s, s:s, s:b}", "name", "identity", "mountPath", POD_IDENTITY_DIR, "readOnly", 1));
}

void render_key_volume(
    const struct dataset *d, const struct sign_key *master, json_t *volumes, json_t *volume_mounts)
{
    cleanup_free char *name = render_key_name(d, master);
    json_array_append_new(volumes,
        json_pack("{s:s, s:{s:s, s:i}}", "name", RENDER_KEY_VOLUME, "secret", "secretName", name,
            "defaultMode", 0444));
    json_array_append_new(volume_mounts,
        json_pack(
            "{s:s, s:s, s:b}", "name", RENDER_KEY_VOLUME, "mountPath", POD_KEY_DIR, "readOnly", 1));
}

void render_info_volume(json_t *volumes, json_t *volume_mounts)
{
    json_array_append_new(volumes,
        json_pack("{s:s, s:{s:i, s:[{s:s, s:{s:s}}]}}", "name", "pod", "downwardAPI", "defaultMode",
            0444, "items", "path", POD_INFO_WORKERS, "fieldRef", "fieldPath",
            "metadata.annotations['" ANNOTATION_WORKERS "']"));
    json_array_append_new(volume_mounts,
        json_pack("{s:s, s:s, s:b}", "name", "pod", "mountPath", POD_INFO_DIR, "readOnly", 1));
}

void render_inline_volume(
    const struct dataset *d, const char *kind, json_t *volumes, json_t *volume_mounts)
{
    json_array_append_new(volumes,
        json_pack("{s:s, s:{s:s, s:{s:s, s:s}}}", "name", "run", "csi", "driver", NAME_DRIVER,
            "volumeAttributes", VOL_KIND, kind, VOL_DATASET_UID, d->uid));
    json_array_append_new(
        volume_mounts, json_pack("{s:s, s:s}", "name", "run", "mountPath", POD_RUN_DIR));
}
