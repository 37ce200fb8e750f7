/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/circle.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *circle_unwrap(const char *cursor, struct circle *c)
{
    int n = 0;
    *c = (struct circle){0};
    if (!cursor)
        return NULL;
    if (sscanf(cursor, "%16" SCNx64 ".%8x.%8x%n", &c->mark, &c->steps, &c->until, &n) == 3
        && cursor[n] == ' ')
        return cursor + n + 1;
    *c = (struct circle){0};
    return cursor;
}

bool circle_step(struct circle *c, const char *next)
{
    uint64_t now = hash64(next, strlen(next));
    if (c->until && now == c->mark)
        return false;
    if (c->until && ++c->steps < c->until)
        return true;
    c->mark = now;
    c->steps = 0;
    c->until = !c->until ? 1 : c->until < UINT_MAX / 2 ? 2 * c->until : UINT_MAX;
    return true;
}

char *circle_wrap(const struct circle *c, const char *next)
{
    return xasprintf("%016" PRIx64 ".%x.%x %s", c->mark, c->steps, c->until, next);
}
