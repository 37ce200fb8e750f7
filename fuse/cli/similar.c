/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a person may have meant. */
#include "fuse/cli/cli.h"
#include "fuse/cli/why.h"

#include "lib/base/mem.h"
#include "lib/kube/kube.h"

#include <string.h>

#define NAME_BYTES 64 /* longer names are compared up to here */

unsigned name_edits(const char *a, const char *b)
{
    size_t na = MIN(strlen(a), NAME_BYTES), nb = MIN(strlen(b), NAME_BYTES);
    unsigned row[NAME_BYTES + 1];
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = MIN(MIN(row[j], row[j - 1]) + 1, replace);
        }
    }
    return row[nb];
}

const char *similar_name(const json_t *objects, const char *name)
{
    const json_t *o;
    const char *best = NULL;
    unsigned least = 1 + (unsigned)strlen(name) / 3;
    size_t i;
    json_array_foreach (objects, i, o) {
        const char *other = kube_name(o);
        if (!*other)
            continue;
        bool begins = strncmp(other, name, strlen(name)) == 0
            || strncmp(other, name, strlen(other)) == 0;
        unsigned n = begins ? 1 : name_edits(name, other);
        if (n < least || (!best && n == least)) {
            least = n;
            best = other;
        }
    }
    return best;
}

const json_t *named(const json_t *objects, const char *name)
{
    const json_t *o;
    size_t i;
    json_array_foreach (objects, i, o)
        if (strcmp(kube_name(o), name) == 0)
            return o;
    return NULL;
}
