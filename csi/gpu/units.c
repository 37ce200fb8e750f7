/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/gpu/units.h"

#include "lib/base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct free_units {
    char *ids[GPU_MINORS][GPU_UNITS]; /* as kubelet named them */
    size_t n[GPU_MINORS];
};

void unit_print(unsigned minor, unsigned unit, char out[UNIT_ID_MAX])
{
    snprintf(out, UNIT_ID_MAX, "gpu%u-%02u", minor % GPU_MINORS, unit % GPU_UNITS);
}

int unit_parse(const char *id, unsigned *minor, unsigned *unit, struct err *e)
{
    char canonical[UNIT_ID_MAX];
    *minor = *unit = 0;
    if (strncmp(id, "gpu", 3) == 0 && strlen(id) < UNIT_ID_MAX) {
        char *end;
        unsigned long a = strtoul(id + 3, &end, 10),
                      b = *end == '-' ? strtoul(end + 1, &end, 10) : GPU_UNITS;
        if (a < GPU_MINORS && b < GPU_UNITS) {
            *minor = (unsigned)a;
            *unit = (unsigned)b;
            unit_print(*minor, *unit, canonical);
            if (strcmp(id, canonical) == 0)
                return 0;
        }
    }
    return err_set(e, ERR_INVALID, "'%.40s' is no hundredth of a GPU of this plugin (gpu0-00)", id);
}

static int add_free(struct free_units *f, char *const *ids, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        unsigned minor, unit;
        if (unit_parse(ids[i], &minor, &unit, e))
            return -1;
        if (!f->ids[minor][unit])
            f->n[minor]++;
        f->ids[minor][unit] = ids[i];
    }
    return 0;
}

/* The GPU with the fewest free units that are enough: what is left whole stays for who asks for
 * more. */
static int best_fit(const struct free_units *f, size_t n, unsigned *minor, struct err *e)
{
    size_t best = 0, most = 0;
    for (unsigned i = 0; i < GPU_MINORS; i++) {
        most = MAX(most, f->n[i]);
        if (f->n[i] < n || (best && f->n[i] >= best))
            continue;
        best = f->n[i];
        *minor = i;
    }
    if (best)
        return 0;
    return err_set(e, ERR_EXHAUSTED,
        "the container asks for %zu %% of one GPU, and none on this node has more than %zu %% free: it is free in pieces on several GPUs; ask for less, or wait until others end",
        n, most);
}

static int choose_on(struct free_units *f, unsigned minor, char *const *must, size_t nmust,
    size_t n, char **chosen, struct err *e)
{
    size_t k = 0;
    for (size_t i = 0; i < nmust; i++) {
        unsigned m, unit;
        if (unit_parse(must[i], &m, &unit, e))
            return -1;
        if (!f->ids[minor][unit])
            continue; /* twice in the list */
        f->ids[minor][unit] = NULL;
        chosen[k++] = must[i];
    }
    for (unsigned unit = 0; unit < GPU_UNITS && k < n; unit++)
        if (f->ids[minor][unit])
            chosen[k++] = f->ids[minor][unit];
    return 0;
}

int units_choose(char *const *available, size_t navailable, char *const *must, size_t nmust,
    size_t n, char **chosen, struct err *e)
{
    if (n == 0 || n > GPU_UNITS)
        return err_set(e, ERR_INVALID,
            "a container may have 1 to %d %% of one GPU, not %zu: for more, ask for whole GPUs (nvidia.com/gpu)",
            GPU_UNITS, n);
    if (nmust > n)
        return err_set(e, ERR_INVALID, "%zu units must be among %zu", nmust, n);
    cleanup_free struct free_units *f = xcalloc(1, sizeof *f);
    unsigned minor = 0;
    if (add_free(f, available, navailable, e) || add_free(f, must, nmust, e))
        return -1;
    if (nmust == 0 && best_fit(f, n, &minor, e))
        return -1;
    if (nmust && units_gpu(must, nmust, &minor, e))
        return -1;
    if (f->n[minor] < n)
        return err_set(e, ERR_EXHAUSTED,
            "the container's units must be of gpu%u, which has %zu of %zu left", minor, f->n[minor],
            n);
    return choose_on(f, minor, must, nmust, n, chosen, e);
}

int units_gpu(char *const *ids, size_t n, unsigned *minor, struct err *e)
{
    bool seen[GPU_UNITS] = {false};
    if (n == 0)
        return err_set(e, ERR_INVALID, "no units are named");
    for (size_t i = 0; i < n; i++) {
        unsigned m, unit;
        if (unit_parse(ids[i], &m, &unit, e))
            return -1;
        if (i == 0)
            *minor = m;
        if (m != *minor)
            return err_set(e, ERR_INVALID,
                "a container's share must be of one GPU, and this one's %zu %% are pieces of gpu%u and gpu%u: no GPU of the node had as much free; ask for less, or wait until others end",
                n, *minor, m);
        if (seen[unit])
            return err_set(e, ERR_INVALID, "unit %s is named twice", ids[i]);
        seen[unit] = true;
    }
    return 0;
}
