/* SPDX-License-Identifier: Apache-2.0 */
/* node_dirs — the directories of datasets on this node, and when they go. Below the root of caches,
 * volumes/<ns>/<uid>/ is a client's: its cache and the socket of the handoff;
 * workers/<ns>/<uid>/<pod>/ is a cache worker's: by pod, as two workers of a dataset may meet on
 * one node. Each is owned by root and open to the group of our containers, so that a client cannot
 * replace the socket, with VOLUME_CACHE in it that belongs to the client. A directory is in use
 * while a volume of it is published or staged. Unused, it is kept for a while, since a cache costs
 * time to fill, then removed: also when the plugin ends in good order (so uninstalling leaves
 * nothing). A volume's directory with written files that are not in the store is never removed.
 * Threads: any. */
#ifndef MILLRACE_CSI_NODE_DIRS_H
#define MILLRACE_CSI_NODE_DIRS_H

#include "csi/volume_context.h"
#include "lib/base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct node_dirs; /* opaque */
/* Finds what is there: unused until a volume of it is mounted. earlier: where the root was before,
 * or the root: what is there stays there as long as it is used, new directories are below root. */
struct node_dirs *node_dirs_new(
    const char *root, const char *earlier, int64_t keep_ns, struct err *e);
void node_dirs_free(struct node_dirs *p);

/* makes it; counts a user; caller frees the path */
char *node_dirs_get(struct node_dirs *p, const struct volume_context *s, struct err *e);
/* Counts a user of what is there, whatever that is: of a mount that was found, though its user has
 * made something else of the directory meanwhile. */
void node_dirs_hold(struct node_dirs *p, const struct volume_context *s);
/* A directory of node_dirs_get() is the group's, whatever user it runs as: where namespaces have
 * ranges of users (OpenShift), a pod's user is not known here, its fsGroup is. */
int node_dirs_give(const char *path, gid_t group, struct err *e);
void node_dirs_put(struct node_dirs *p, const struct volume_context *s); /* one user less */
/* Removes what has been unused for keep_ns; all: what is unused at all, and the empty directories
 * above. Slow: for its own thread. */
void node_dirs_collect(struct node_dirs *p, bool all);

#endif
