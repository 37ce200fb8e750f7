/* SPDX-License-Identifier: Apache-2.0 */
/* volume — the volumes that this node knows: what they are, where they are staged and published.
 * Each has a small fsynced file in the state directory, so that a restarted plugin knows what it
 * knew. One RPC at a time works on a volume: volume_hold() waits for its turn. A held volume is its
 * holder's: fields need no lock. */
#ifndef MILLRACE_CSI_VOLUME_H
#define MILLRACE_CSI_VOLUME_H

#include "csi/volume_record.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
