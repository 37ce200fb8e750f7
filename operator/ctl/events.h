/* SPDX-License-Identifier: Apache-2.0 */
/* events — core/v1 Events, written in the background by one thread, never in a reconcile's way.
 * Equal ones (object, reason, message) within 10 minutes become one Event whose count grows (at
 * most one write per 10 s for each); more than EVENT_BURST different ones about one object in that
 * time are folded into one "(combined from similar events)"; while EVENT_FLOOD wait to be written,
 * so are all of one object and reason. Warnings are written at once; of the others no more than
 * EVENT_FLOOD at once and EVENT_PACE a second: an API server that is busy with 1,000 new jobs has
 * better to do. Messages pass log_redact_text and are cut to 1024 bytes. When the server refuses,
 * events are dropped and counted: nothing depends on them. Threads: any. Locks: events.mu, a leaf.
 */
#ifndef MILLRACE_OPERATOR_CTL_EVENTS_H
#define MILLRACE_OPERATOR_CTL_EVENTS_H

#include "lib/kube/kube.h"

#include <stdbool.h>

#define EVENT_BURST 25
#define EVENT_FLOOD 100
#define EVENT_PACE  20

struct events; /* opaque */

struct event_about {
    const struct kube_res *res;
    const char *ns, *name, *uid; /* ns "" or NULL: the Event goes to "default" */
};

/* "millrace-operator", pod name */
struct events *events_new(struct kube *k, const char *component, const char *instance);
void events_free(struct events *ev); /* writes what waits (for 2 s at most), joins, frees */
void events_post(struct events *ev, const struct event_about *about, bool warning,
    const char *reason, const char *message);

#endif
