/* SPDX-License-Identifier: Apache-2.0 */
/* conf — what a client or worker is told about its dataset: one JSON document in the environment
 * variable ENV_CONFIG (or a file), written by the operator (operator/render), by the CSI plugin for
 * child processes, or by the CLI. It holds no secret: values of `secrets` are read from files
 * <secrets dir>/<path> each time they are needed, so that rotation works.
 *
 * {"namespace": "default", "name": "mnist", "uid": "…",        // identity; "" on a laptop
 *  "readOnly": true,
 *  "mounts": [{"mountPoint": "s3://bucket/prefix",             // s3:// hdfs:// webhdfs://
 * http(s):// file:///dir "path": "/",                                    // where in the dataset's
 * tree; default "/<name>" or "/" if alone "readOnly": false, "options": {"endpoint":
 * "http://…:7070", "region": "us-east-1", "path-style": "true"}, "secrets": {"access-key-id":
 * "0/access-key-id", "secret-access-key": "0/secret-access-key"}, "secretNames": {"access-key-id":
 * "s3-creds:accessKey", …}}],   // Secret:key, for error messages only "cache": {"tiers":
 * [{"medium": "MEM", "quota": 1073741824}, {"medium": "SSD", "quota": 10737418240}], "writeType":
 * "CacheThrough", "profile": "auto"}, "metadataSync": 60, // seconds; optional "workers":
 * {"service": "mnist-cache.default.svc", "name": "mnist-cache", "count": 2, "port": 9400}}  //
 * absent: none
 *
 * An unknown field is an error. A mount may have a "name" instead of a "path". writeType: Through
 * or CacheThrough (the others of the enum are not built yet and refused); profile sealed needs
 * readOnly. Worker i is http://<name>-<i>.<service>:<port>. */
#ifndef MILLRACE_LIB_CONF_CONF_H
#define MILLRACE_LIB_CONF_CONF_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum conf_medium { CONF_MEM, CONF_SSD, CONF_HDD };
enum conf_write { CONF_THROUGH, CONF_CACHE_THROUGH, CONF_ASYNC_THROUGH, CONF_MUST_CACHE };
enum conf_profile { CONF_PROFILE_AUTO, CONF_PROFILE_SEALED, CONF_PROFILE_OPEN };

struct conf_pair {
    char *key, *value;
};

struct conf_mount {
    /* path begins with "/" and has no trailing one (but "/" itself) */
    char *mount_point, *path;
    bool read_only;            /* itself, or the whole dataset */
    struct conf_pair *options; /* noptions */
    size_t noptions;
    struct conf_pair *secrets; /* option name → path below the secrets directory */
    size_t nsecrets;
    struct conf_pair *secret_names; /* option name → "secret:key" */
    size_t nsecret_names;
};

struct conf_tier {
    enum conf_medium medium;
    int64_t quota; /* bytes */
};

struct conf {
    char *namespace_, *name, *uid;
    bool read_only;
    struct conf_mount *mounts;
    size_t nmounts;
    /* at least one after conf_parse: default MEM a quarter of the memory limit */
    struct conf_tier *tiers;
    size_t ntiers;
    enum conf_write write;
    enum conf_profile profile;
    /* how old what we know about files may be; 0: the program's default */
    int64_t metadata_sync_ns;
    char *worker_service, *worker_name; /* NULL: no workers */
    int worker_count, worker_port;
};

/* INVALID names the field and the remedy */
struct conf *conf_parse(const char *json, size_t len, struct err *e);
void conf_free(struct conf *c);
void cleanup_confp(struct conf **c);
#define cleanup_conf __attribute__((cleanup(cleanup_confp)))

#endif
