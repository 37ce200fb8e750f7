/* SPDX-License-Identifier: Apache-2.0 */
/* conf — what a client or worker is told about its dataset: one JSON document in the environment
 * variable ENV_CONFIG (or a file), written by the operator (operator/render), by the CSI plugin for
 * child processes, or by the CLI. It holds no secret: values of `secrets` are read from files
 * <secrets dir>/<path> each time they are needed, so that rotation works.
 *
 * {"namespace": "default", "name": "mnist", "uid": "…",   // identity; "" on a laptop
 *  "readOnly": true,
 *  "mounts": [{
 *    "mountPoint": "s3://bucket/prefix",     // or file:///dir
 *    "path": "/",                            // where in the dataset's tree; "/" if absent
 *    "readOnly": false,
 *    "immutable": true,                      // absent: the client decides
 *    "options": {"endpoint": "http://…:7070", "region": "us-east-1"},
 *    "defaultOptions": {"region": "…"},      // of the cluster: where nothing else gives the option
 *    "secrets": {"access-key-id": "0/access-key-id"},       // option → file of its value
 *    "secretNames": {"access-key-id": "s3-creds:accessKey"}, // Secret:key, for messages only
 *    "secretDir": "0/secret",                // a whole Secret: one file a key
 *    "secretDirName": "s3-keys",             // its name, for messages only
 *    "caBundle": "0/ca-bundle",              // file of certificates to trust
 *    "caBundleName": "corporate-ca:ca.crt"}],               // ConfigMap:key, for messages only
 *  "cache": {"tiers": [{"medium": "MEM", "quota": 1073741824}, {"medium": "SSD", "quota":
 * 1073741824}], "rules": [{"path": "/ckpt", "writeType": "Through"}], "keepFree": 10},
 * "endpoints": ["aws", "https://minio.example"], // the only servers that Secrets may name;
 * optional "metadataSync": 60, // seconds; optional "workers": {"service":
 * "mnist-cache.default.svc", "name": "mnist-cache", "port": 9400, "count": 2}}  // absent: none
 * or, instead of "count", "countFile": "/etc/millrace/pod/workers" // may change at any time
 *
 * An unknown field is an error. Files are below the secrets directory. A mount that is immutable
 * must be readOnly. Of the rules, the longest path that holds a file counts; without one a file is
 * written CacheThrough. Worker i is http://<name>-<i>.<service>:<port>. */
#ifndef MILLRACE_LIB_CONF_CONF_H
#define MILLRACE_LIB_CONF_CONF_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How old what is known of names may be, where nothing is said: of what nobody can write here, and
 * of the rest. */
#define CONF_SYNC_READ_ONLY_S 600
#define CONF_SYNC_WRITABLE_S  60

enum conf_medium { CONF_MEM, CONF_SSD, CONF_HDD };
/* CONF_ASYNC_THROUGH: as CONF_CACHE_THROUGH, and nobody waits for the store. */
enum conf_write { CONF_THROUGH, CONF_CACHE_THROUGH, CONF_ASYNC_THROUGH };
/* May the source change while it is mounted? Unset: the client decides. */
enum conf_immutable { CONF_IMMUTABLE_UNSET, CONF_IMMUTABLE_FALSE, CONF_IMMUTABLE_TRUE };

struct conf_pair {
    char *key, *value;
};

struct conf_mount {
    /* path begins with "/" and has no trailing one (but "/" itself) */
    char *mount_point, *path;
    bool read_only; /* itself, or the whole dataset */
    enum conf_immutable immutable;
    struct conf_pair *options; /* noptions */
    size_t noptions;
    struct conf_pair *default_options; /* the last to be asked for an option */
    size_t ndefault_options;
    struct conf_pair *secrets; /* option name → path below the secrets directory */
    size_t nsecrets;
    struct conf_pair *secret_names; /* option name → "secret:key" */
    size_t nsecret_names;
    char *secret_dir, *secret_dir_name; /* below the secrets directory, its Secret; NULL: none */
    char *ca_bundle, *ca_bundle_name;   /* the same of the ConfigMap's key */
    char **endpoints;                   /* nendpoints, those of conf: borrowed */
    size_t nendpoints;
};

/* What holds for path and all below it. */
struct conf_rule {
    char *path;
    enum conf_write write;
};

struct conf_tier {
    enum conf_medium medium;
    int64_t quota; /* bytes */
};

#define CONF_WORKERS_MAX   1000

#define CONF_KEEP_FREE     10
#define CONF_KEEP_FREE_MAX 90

struct conf {
    char *namespace_, *name, *uid;
    bool read_only;
    struct conf_mount *mounts;
    size_t nmounts;
    /* at least one after conf_parse: default MEM a quarter of the memory limit */
    struct conf_tier *tiers;
    size_t ntiers;
    struct conf_rule *rules; /* nrules */
    size_t nrules;
    char **endpoints; /* nendpoints: where Secrets may say that servers are; none: anywhere */
    size_t nendpoints;
    unsigned keep_free; /* percent of the disk of the cache that it leaves to others */
    /* how old what we know about files may be; 0: CONF_SYNC_…_S */
    int64_t metadata_sync_ns;
    char *worker_service, *worker_name; /* NULL: no workers */
    int worker_count, worker_port;
    char *worker_count_file; /* absolute; NULL: worker_count holds */
};

/* INVALID names the field and the remedy */
struct conf *conf_parse(const char *json, size_t len, struct err *e);
void conf_free(struct conf *c);
/* How a file of the dataset's tree is written; path begins with "/". */
enum conf_write conf_write_of(const struct conf *c, const char *path);
/* How many workers there are now. last: what is returned while the file says nothing that can be
 * read. */
int conf_workers(const struct conf *c, int last);
/* Does the secrets directory have secrets of mount i? The first of what a person mounts has those
 * in the directory itself; one beside it that has none there takes them from the environment. */
bool conf_mount_has_secrets(const struct conf *c, size_t i);
/* Which server has it: its option "endpoint" by any of its names, or what is usual; "": the URL
 * says it, or a Secret, which is no part of what a mount is known by. */
const char *conf_mount_endpoint(const struct conf_mount *m);
/* Its URL and its endpoint, as two servers may have stores of one name. The caller frees it. */
char *conf_mount_id(const struct conf_mount *m);
void cleanup_confp(struct conf **c);
#define cleanup_conf __attribute__((cleanup(cleanup_confp)))

#endif
