/* SPDX-License-Identifier: Apache-2.0 */
/* report — what a client, worker or loader says of itself at /status, and a client in the attribute
 * XATTR_STATUS: the JSON document that the operator and the CLI read. Its keys are spelled here,
 * once, as paths for jget.h; the writers give the same paths. Pure. */
#ifndef MILLRACE_LIB_CONF_REPORT_H
#define MILLRACE_LIB_CONF_REPORT_H

#include "lib/base/buf.h"
#include "lib/conf/conf.h"

/* -- of everybody ---------------------------------------------------------------------------- */

#define REPORT_COMPONENT "component" /* COMPONENT_CLIENT, …_WORKER or …_LOADER */
/* ready; why not, or what is wrong all the same: a CamelCase word ("": nothing) and a text. Of the
 * whole and of each mount. */
#define REPORT_READY              "ready"
#define REPORT_REASON             "reason"
#define REPORT_MESSAGE            "message"
#define REPORT_SERVING            "serving" /* a mount, or a cache */
#define REPORT_MOUNTS             "mounts"  /* array; as they are in the configuration */
#define REPORT_MOUNT_POINT        "mountPoint"
#define REPORT_MOUNT_PATH         "path"

#define REPORT_CACHE_USED         "cache.usedBytes"
#define REPORT_CACHE_CAPACITY     "cache.capacityBytes"
#define REPORT_CACHE_FILES        "cache.files"
#define REPORT_CACHE_COMPLETE     "cache.completeFiles"
#define REPORT_CACHE_PINNED       "cache.pinnedBytes"
#define REPORT_CACHE_PINNED_MOST  "cache.pinnedMost"
#define REPORT_CACHE_PINNED_FILES "cache.pinnedFiles"
/* bytes that were read, by where they came from */
#define REPORT_READS_CACHE    "reads.cacheBytes"
#define REPORT_READS_WORKER   "reads.workerBytes"
#define REPORT_READS_STORE    "reads.storeBytes"
#define REPORT_WRITES_BYTES   "writes.bytes"
#define REPORT_WRITES_PENDING "writes.pendingFiles"

/* -- of a worker: what all files of the stores have; absent until it is known -------------------
 */

#define REPORT_INVENTORY          "ufs"
#define REPORT_INVENTORY_BYTES    "ufs.bytes"
#define REPORT_INVENTORY_FILES    "ufs.files"
#define REPORT_INVENTORY_COMPLETE "ufs.complete"

/* when its process began, ms since the epoch: another number is another process, perhaps with
 * another cache */
#define REPORT_STARTED "startedMs"
/* bytes evicted since then */
#define REPORT_CACHE_EVICTED "cache.evictedBytes"
/* and how many of those are of files that a preload had asked for */
#define REPORT_EVICTED_LOADED "evictedLoadedBytes"

/* -- of a loader ----------------------------------------------------------------------------- */

#define REPORT_LOAD            "load"
#define REPORT_LOAD_FILES      "load.files" /* to be loaded, as far as they are listed */
#define REPORT_LOAD_BYTES      "load.bytes"
#define REPORT_LOAD_DONE_FILES "load.loadedFiles"
#define REPORT_LOAD_DONE_BYTES "load.loadedBytes"
#define REPORT_LOAD_FAILED     "load.failedFiles"
#define REPORT_LOAD_VERIFYING  "load.verifying"
#define REPORT_LOAD_COMPLETE   "load.complete"
/* the first files that it could not load, and why: array of objects */
#define REPORT_FAILURES        "failures"
#define REPORT_FAILURE_PATH    "path"
#define REPORT_FAILURE_MESSAGE "message"
/* of one that keeps files loaded: files and bytes are all there are; chunks that it did not find in
 * the cache in this pass; why it cannot be complete ("": it can), as above */
#define REPORT_LOAD_COUNTED "load.counted"
#define REPORT_LOAD_MISSING "load.missing"
#define REPORT_LOAD_REASON  "load.reason"
#define REPORT_LOAD_MESSAGE "load.message"
/* which workers it found everything in: report_starts() of all, in order, in hexadecimal; "": it
 * has not yet */
#define REPORT_LOAD_WORKERS "load.workers"
/* REPORT_EVICTED_LOADED of all workers, before it looked and found everything in them; before it
 * has once: when it began */
#define REPORT_LOAD_EVICTED "load.evictedBytes"

/* -- of a client ----------------------------------------------------------------------------- */

#define REPORT_PROFILE       "profile" /* "sealed", "open", "": not chosen yet */
#define REPORT_BACKING_FILES "backingFiles"
#define REPORT_UP_MS         "upMs"
#define REPORT_PID           "pid" /* of the process that ends last, among the client's own */
/* what the node's kernel is and can; absent until it has said so */
#define REPORT_KERNEL_RELEASE     "kernel.release"
#define REPORT_KERNEL_PASSTHROUGH "kernel.passthrough" /* it reads cached files by itself */
/* it hands requests that a killed client had to the next one */
#define REPORT_KERNEL_RESEND "kernel.resend"
/* why it has taken no cached file to read by itself; "": it takes them, or was given none */
#define REPORT_KERNEL_REFUSED "kernel.refused"
/* array: for how long readers waited, see stall.h */
#define REPORT_STALLS           "stalls"
#define REPORT_STALL_CALLER     "caller"
#define REPORT_STALL_READS      "reads"
#define REPORT_STALL_WAITING_MS "waitingMs"
#define REPORT_STALL_STORE_MS   "storeMs"
#define REPORT_STALL_WORKER_MS  "workerMs"
#define REPORT_STALL_DISK_MS    "diskMs"
/* written content that went to no store and is kept on the node, see kept.h; of the first few:
 * where it belongs, why it is kept and in which file */
#define REPORT_KEPT       "kept"
#define REPORT_KEPT_FILES "kept.files"
#define REPORT_KEPT_BYTES "kept.bytes"
#define REPORT_KEPT_DIR   "kept.dir"
/* the same on the node, from the node plugin's own directory on: "csi.millrace.dev/volumes/…"; "":
 * the client is in no pod */
#define REPORT_KEPT_NODE_DIR "kept.nodeDir"
#define REPORT_KEPT_PATHS    "kept.paths" /* array */
#define REPORT_KEPT_PATH     "path"
#define REPORT_KEPT_WHY      "why"
#define REPORT_KEPT_FILE     "file"
/* a mount of this node that died and was made again; absent: none */
#define REPORT_LOST_AT             "mountLost.at" /* seconds since the epoch */
#define REPORT_LOST_WHY            "mountLost.why"
#define REPORT_HINTS_LISTS         "hints.lists"
#define REPORT_HINTS_ENTRIES       "hints.entries"
#define REPORT_HINTS_DONE          "hints.done"
#define REPORT_HINTS_BYTES         "hints.bytes"
#define REPORT_HINTS_FOLLOWED      "hints.followed"
#define REPORT_HINTS_MISSING       "hints.missing"
#define REPORT_HINTS_REFUSED       "hints.refused"
#define REPORT_HINTS_FAILED        "hints.failed"
#define REPORT_HINTS_FIRST_MISSING "hints.firstMissing"
#define REPORT_INDEX_INODES        "index.inodes"
#define REPORT_INDEX_NAME_BYTES    "index.nameBytes"

/* -- of a file, in its attribute XATTR_LOCATION ---------------------------------------------- */

#define REPORT_LOCATION_SIZE      "size"
#define REPORT_LOCATION_CACHED    "cachedBytes" /* of it, by this node */
#define REPORT_LOCATION_PERSISTED "persisted"
/* the store that it is in, and its path there */
#define REPORT_LOCATION_STORE "mountPoint"
#define REPORT_LOCATION_PATH  "path"
/* array: workers that own a part of it, in chunks of 64 MiB; cachedBytes as above, or error: why
 * the worker does not tell */
#define REPORT_LOCATION_WORKERS "workers"
#define REPORT_LOCATION_WORKER  "worker"
#define REPORT_LOCATION_OWNED   "ownedBytes"
#define REPORT_LOCATION_ERROR   "error"

/* -- writing --------------------------------------------------------------------------------- */

#define REPORT_STARTS_LEN 17
/* Of processes before one that began at started_ms, and that: begin with 0. */
uint64_t report_starts(uint64_t before, uint64_t started_ms);
void report_starts_text(uint64_t starts, char out[REPORT_STARTS_LEN]);

struct report_problem {
    char reason[32], message[512]; /* reason "": none */
};
void report_problem_set(struct report_problem *p, const char *reason, const char *message);

struct report_member {
    const char *path; /* of above: "key", or "group.key"; members of a group follow each other */
    enum { REPORT_COUNT, REPORT_BOOL, REPORT_TEXT } kind;
    uint64_t count;   /* or bool */
    const char *text; /* of REPORT_TEXT */
};
/* Adds members to the object that is open at the end of out. */
void report_add(struct buf *out, const struct report_member *members, size_t n);

struct report_common {
    const char *component;
    bool ready, serving;
    const struct report_problem *problem;
    const struct conf *conf;             /* NULL: no mounts are known */
    const struct report_problem *mounts; /* conf->nmounts */
    bool to_stranger;                    /* no names, paths and messages */
    bool checked;                        /* a mount without a problem is ready */
    struct {
        uint64_t used, capacity, files, complete, pinned, pinned_most, pinned_files, evicted;
    } cache;
    struct {
        uint64_t cache, worker, store;
    } reads;
    struct {
        uint64_t bytes, pending;
    } writes;
};
/* Begins the document with what everybody says; the caller adds its own, and "}\n". */
void report_begin(struct buf *out, const struct report_common *c);

#endif
