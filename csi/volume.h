/* SPDX-License-Identifier: Apache-2.0 */
/* volume — the volumes that this node knows: what they are, where they are staged and published.
 * Each has a small fsynced file in the state directory, so that a restarted plugin knows what it
 * knew. One RPC at a time works on a volume: volume_hold() waits for its turn. A held volume is its
 * holder's: fields need no lock. */
#ifndef MILLRACE_CSI_VOLUME_H
#define MILLRACE_CSI_VOLUME_H

#include "csi/volume_context.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keep;
struct child;

struct volume_target {
    char *path;
    bool read_only;
    int mode; /* CSI access mode */
};

struct volume_param {
    char *key, *value;
};

struct volume {
    char *id;
    struct source source;
    char *staging;  /* NULL: not staged */
    bool read_only; /* the mount at staging */
    int mode;       /* CSI access mode it was staged with */
    struct volume_target *targets;
    size_t ntargets;
    /* volumes of CreateVolume (standalone) */
    bool created;
    char *name; /* what CreateVolume was asked for; NULL otherwise */
    int64_t capacity;
    struct volume_param *params; /* its parameters; no secrets */
    size_t nparams;

    /* not in the file */
    bool placed;       /* counts as a user of its place */
    struct keep *keep; /* NULL: none */
    struct child *child;
    bool busy; /* volumes.mu: somebody holds it */
};

struct volumes; /* opaque */
/* loads all; a file that makes no sense is moved aside and logged */
struct volumes *volumes_open(const char *dir, struct err *e);
void volumes_free(struct volumes *vs); /* nothing is held */
/* NOTFOUND if absent and !create (a created one is empty but for its id); CONFLICT when another RPC
 * holds it for too long. */
struct volume *volume_hold(
    struct volumes *vs, const char *id, bool create, int64_t deadline_ns, struct err *e);
/* a volume that is nowhere and was not created is forgotten */
void volume_release(struct volumes *vs, struct volume *v);
/* on disk when it returns */
int volume_save(struct volumes *vs, const struct volume *v, struct err *e);
/* Every volume in turn; only while no RPC runs. */
void volumes_each(struct volumes *vs, void (*fn)(struct volume *v, void *arg), void *arg);
size_t volumes_count(struct volumes *vs);

struct volume_target *volume_target_find(struct volume *v, const char *path);
void volume_target_add(struct volume *v, const char *path, bool read_only, int mode);
void volume_target_del(struct volume *v, const char *path);
const char *volume_param(const struct volume *v, const char *key); /* NULL if absent */
void volume_param_add(struct volume *v, const char *key, const char *value);

#endif
