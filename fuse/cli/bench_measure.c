/* SPDX-License-Identifier: Apache-2.0 */
/* One measurement: pieces of work on several threads, by the clock. */
#include "fuse/cli/bench.h"
#include "fuse/cli/copy.h"

#include "lib/base/clock.h"
#include "lib/base/each.h"
#include "lib/base/mem.h"

#include <stdatomic.h>

struct bench_run {
    const struct bench_work *work;
    struct progress progress;
    int64_t until_ns; /* INT64_MAX: none */
    atomic_uint_fast64_t files, bytes;
};

static int bench_run_one(void *user, size_t i, struct err *e)
{
    struct bench_run *r = user;
    uint64_t bytes = 0;
    if (copy_interrupted())
        return err_set(e, ERR_RETRY, "interrupted");
    if (i && clock_mono_ns() >= r->until_ns)
        return 0;
    if (r->work->fn(r->work->user, i, &bytes, e))
        return -1;
    atomic_fetch_add(&r->files, r->work->files);
    atomic_fetch_add(&r->bytes, bytes);
    progress_add(&r->progress, r->work->files, bytes);
    return 0;
}

int bench_measure(
    struct bench *b, const struct bench_work *w, const struct bench_result *as, struct err *e)
{
    cleanup_free char *doing = xasprintf("%s, %s%s%s: %s", as->what, as->how, as->cache ? ", " : "",
        as->cache ? as->cache : "", as->op);
    int64_t began = clock_mono_ns();
    struct bench_run r = {.work = w, .until_ns = w->limit_ns ? began + w->limit_ns : INT64_MAX};
    progress_start(&r.progress, doing);
    progress_found(&r.progress, w->files ? w->n : 1, w->bytes);
    progress_found_all(&r.progress);
    int rc = each("bench", w->n, w->parallel, bench_run_one, &r, NULL, e);
    struct bench_result out = *as;
    out.seconds = (double)(clock_mono_ns() - began) / (double)NS_PER_S;
    progress_end(&r.progress);
    if (rc || b->nresults == BENCH_RESULTS_MAX)
        return rc;
    out.parallel = w->parallel;
    out.files = atomic_load(&r.files);
    out.bytes = atomic_load(&r.bytes);
    b->results[b->nresults++] = out;
    return 0;
}
