/* SPDX-License-Identifier: Apache-2.0 */
/* recent — of folded objects, those that were read last, whole: a key that is worked on again and
 * again does not parse its objects each time. Threads: any. Locks: recent.mu, a leaf. */
#ifndef MILLRACE_OPERATOR_CTL_RECENT_H
#define MILLRACE_OPERATOR_CTL_RECENT_H

#include "lib/json/obj.h"

#include <stddef.h>

struct recent; /* opaque */

struct recent *recent_new(size_t n); /* holds about n; 0: none, which is NULL */
void recent_free(struct recent *r);
/* The whole one of o_take, which may be whole already, or NULL. r: NULL is fine. */
struct obj *recent_whole(struct recent *r, struct obj *o_take);

#endif
