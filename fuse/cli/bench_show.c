/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, for people and as JSON. */
#include "fuse/cli/bench.h"
#include "fuse/cli/shown.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* What is too short for the clock has no speed. */
static double by_seconds(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static void print_result(const struct bench_result *r)
{
    char bytes[HUMAN_BYTES_LEN], speed[HUMAN_BYTES_LEN];
    cleanup_free char *name = xasprintf(
        "%s %s, %s%s%s", r->op, r->what, r->how, r->cache ? ", " : "", r->cache ? r->cache : "");
    cleanup_free char *files = r->files ? xasprintf("%" PRIu64, r->files) : xstrdup("-"),
                      *rate = r->files ? xasprintf("%.1f", by_seconds(r->files, r->seconds))
                                       : xstrdup("-");
    printf("%-26s %6s %11s %9.3f %9s/s %9s %9u\n", name, files, human_bytes(r->bytes, bytes),
        r->seconds, human_bytes((uint64_t)by_seconds(r->bytes, r->seconds), speed), rate,
        r->parallel);
}

void bench_print(const struct bench *b)
{
    char size[HUMAN_BYTES_LEN];
    if (b->large.name) {
        printf("%-14s", "large file:");
        cli_put_name(b->large.name);
        printf(", %s\n", human_bytes(b->large.st.size, size));
    } else {
        printf("%-14sthere is none of more than %s\n",
            "large file:", human_bytes(BENCH_SMALL_MAX, size));
    }
    printf("%-14s", "small files:");
    if (b->nsmall)
        printf("%zu\n\n", b->nsmall);
    else
        printf("there are none of at most %s\n\n", human_bytes(BENCH_SMALL_MAX, size));
    printf("%-26s %6s %11s %9s %11s %9s %9s\n", "", "files", "bytes", "seconds", "speed", "files/s",
        "at a time");
    for (size_t i = 0; i < b->nresults; i++)
        print_result(&b->results[i]);
}

static json_t *result_json(const struct bench_result *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s?, s:I, s:I, s:f, s:f}", "op", r->op, "what", r->what,
        "how", r->how, "cache", r->cache, "parallel", (json_int_t)r->parallel, "bytes",
        (json_int_t)r->bytes, "seconds", r->seconds, "bytesPerSecond",
        by_seconds(r->bytes, r->seconds));
    if (r->files) {
        json_object_set_new(o, "files", json_integer((json_int_t)r->files));
        json_object_set_new(o, "filesPerSecond", json_real(by_seconds(r->files, r->seconds)));
    }
    return o;
}

void bench_print_json(const struct bench *b)
{
    json_t *results = json_array(), *large = json_null();
    if (b->large.name)
        large = json_pack(
            "{s:o, s:I}", "name", shown_text(b->large.name), "size", (json_int_t)b->large.st.size);
    for (size_t i = 0; i < b->nresults; i++)
        json_array_append_new(results, result_json(&b->results[i]));
    shown_object(json_pack("{s:o, s:o, s:I, s:o}", "url", shown_text(b->url), "largeFile", large,
        "smallFiles", (json_int_t)b->nsmall, "results", results));
}
