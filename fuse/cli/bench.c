/* SPDX-License-Identifier: Apache-2.0 */
/* bench: what this machine gets from a store, raw and mounted. */
#include "fuse/cli/bench.h"
#include "fuse/cli/copy.h"
#include "fuse/cli/shown.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <stdlib.h>

#define FILES_MAX    10000
#define PARALLEL_MAX 64 /* connections of a store */
#define SIZE_MIN     (INT64_C(2) << 20)

static int bench_check_flags(const struct bench *b, const struct args *a)
{
    if (b->size < SIZE_MIN)
        return cli_misuse("--size: it is 2MiB at least");
    if (b->files < 1 || b->files > FILES_MAX)
        return cli_misuse("--files: it is a number from 1 to %d", FILES_MAX);
    if (b->parallel < 1 || b->parallel > PARALLEL_MAX)
        return cli_misuse("--parallel: it is a number from 1 to %d", PARALLEL_MAX);
    if (b->limit_ns < NS_PER_S)
        return cli_misuse("--limit: it is 1s at least");
    if (args_given(a, "write") && !*b->own)
        return cli_misuse("--write: name a directory below the URL that is not there yet");
    return -1;
}

/* What was measured is told also if something failed later. */
static int bench_all(struct bench *b, struct err *e)
{
    if (target_open(&b->at, b->args, b->url, false, !b->own, e)
        || (b->own ? bench_make(b, e) : bench_find(b, e)) || bench_raw(b, e))
        return -1;
    return b->mounted ? bench_mounted(b, e) : 0;
}

int verb_bench(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const char *tmp = getenv("TMPDIR");
    struct bench b = {.size = INT64_C(256) << 20,
        .files = 100,
        .parallel = 16,
        .limit_ns = 10 * NS_PER_S,
        .mounted = true};
    const struct opt table[] = {
        {"size", OPT_BYTES, &b.size, "SIZE", "how much of the large file is read"},
        {"files", OPT_INT, &b.files, "N", "how many small files are read"},
        {"parallel", OPT_INT, &b.parallel, "N",
            "how many reads at a time; through the mount, of small files alone"},
        {"limit", OPT_SECONDS, &b.limit_ns, "DURATION",
            "how long each measurement takes at most: what was read by then counts"},
        {"mounted", OPT_BOOL, &b.mounted, NULL,
            "mount it for a moment and measure that, too; --mounted=false: raw alone"},
        {"cache-dir", OPT_STRING, &b.cache_base, "DIR",
            "where that mount has its cache, in a directory of its own that is removed; default: TMPDIR, or /var/tmp"},
        {"write", OPT_STRING, &b.own, "DIR",
            "measure writing as well, with files of its own in this directory below the URL, which must not be there and is removed"},
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0 || (rc = bench_check_flags(&b, &a)) >= 0)
        return rc;
    struct err e = ERR_INIT, left = ERR_INIT;
    if (!b.cache_base) /* help tells no default that is this machine's */
        b.cache_base = tmp && *tmp == '/' ? tmp : "/var/tmp";
    b.args = &a;
    b.url = a.pos[0];
    b.small = xcalloc((size_t)b.files, sizeof *b.small);
    copy_catch_signals();
    rc = bench_all(&b, &e) ? cli_failed(&e) : CLI_DONE;
    if (bench_remove(&b, &left))
        rc = cli_failed(&left);
    if (b.nresults && json)
        bench_print_json(&b);
    else if (b.nresults)
        bench_print(&b);
    bench_files_free(&b);
    target_close(&b.at);
    copy_end_by_signal();
    return rc;
}
