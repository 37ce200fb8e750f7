/* SPDX-License-Identifier: Apache-2.0 */
/* circle — notices that a store leads a listing in a circle: the same cursor again, however many
 * others are between. What it takes stands in front of the cursor (Brent's algorithm: one earlier
 * cursor is remembered, by its hash, and another one after twice as many pages), so that nothing is
 * kept between calls. Pure. */
#ifndef MILLRACE_FUSE_STORE_CIRCLE_H
#define MILLRACE_FUSE_STORE_CIRCLE_H

#include <stdbool.h>
#include <stdint.h>

struct circle {
    uint64_t mark;         /* hash of the cursor that must not come again */
    unsigned steps, until; /* pages since it was remembered; at so many another one is */
};

/* The store's own part of a cursor that circle_wrap() made, within it; c is what it says besides.
 * NULL, and c as at the beginning, of NULL. */
const char *circle_unwrap(const char *cursor, struct circle *c);
/* next: the store's cursor of the page that follows. False: it has been here before. */
bool circle_step(struct circle *c, const char *next);
char *circle_wrap(const struct circle *c, const char *next); /* caller frees */

#endif
