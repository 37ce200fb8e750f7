/* SPDX-License-Identifier: Apache-2.0 */
/* volume_record — what is known of one volume. Not locked: a volume is its holder's (volume.h). */
#ifndef MILLRACE_CSI_VOLUME_RECORD_H
#define MILLRACE_CSI_VOLUME_RECORD_H

#include "csi/volume_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct handoff_mount;
struct client_proc;

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
    struct volume_context context;
    char *staging;  /* NULL: not staged */
    bool read_only; /* the mount at staging */
    int mode;       /* CSI access mode it was staged with */
    struct volume_target *targets;
    size_t ntargets;
    /* volumes of CreateVolume (standalone) */
    bool created;
    char *name; /* the name that CreateVolume was asked for; NULL otherwise */
    int64_t capacity;
    struct volume_param *params; /* its parameters; no secrets */
    size_t nparams;

    /* not in the file */
    bool has_dir;                  /* counts as a user of its directory */
    struct handoff_mount *handoff; /* NULL: none */
    struct client_proc *proc;
    bool busy; /* volumes.mu: a caller holds it */
};

void volume_free(void *volume);
struct volume_target *volume_target_find(struct volume *v, const char *path);
void volume_target_add(struct volume *v, const char *path, bool read_only, int mode);
void volume_target_del(struct volume *v, const char *path);
void volume_param_add(struct volume *v, const char *key, const char *value);

#endif
