/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/progress.h"

#include "fuse/cli/cli.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define QUIET_NS NS_PER_S
#define EVERY_NS (200 * NS_PER_MS)

void progress_start(struct progress *p, const char *doing)
{
    *p = (struct progress){
        .doing = doing, .began_ns = clock_mono_ns(), .terminal = isatty(STDERR_FILENO) != 0};
    pthread_mutex_init(&p->mu, NULL);
}

char *progress_line(const struct progress *p, int64_t now_ns)
{
    struct buf b = BUF_INIT(256);
    char done[HUMAN_BYTES_LEN], all[HUMAN_BYTES_LEN], speed[HUMAN_BYTES_LEN];
    double seconds = (double)(now_ns - p->began_ns) / 1e9;
    double rate = seconds > 0 ? (double)p->bytes / seconds : 0;
    buf_addf(&b, "%s %" PRIu64, p->doing, p->files);
    if (p->all_files > 1)
        buf_addf(&b, " of %s%" PRIu64, p->found_all ? "" : "at least ", p->all_files);
    buf_addf(&b, " files, %s", human_bytes(p->bytes, done));
    if (p->all_bytes)
        buf_addf(&b, " of %s", human_bytes(p->all_bytes, all));
    if (p->all_bytes && p->found_all)
        buf_addf(&b, " (%.0f %%)", 100 * (double)p->bytes / (double)p->all_bytes);
    if (rate >= 1)
        buf_addf(&b, ", %s/s", human_bytes((uint64_t)rate, speed));
    if (rate >= 1 && p->found_all && p->all_bytes > p->bytes)
        buf_addf(&b, ", %.0f s left", (double)(p->all_bytes - p->bytes) / rate);
    return buf_take(&b);
}

/* mu is held. */
static void progress_show(struct progress *p)
{
    int64_t now = clock_mono_ns();
    if (!p->terminal || now - p->began_ns < QUIET_NS || now - p->shown_ns < EVERY_NS)
        return;
    cleanup_free char *line = progress_line(p, now);
    fprintf(stderr, "\r\033[K%s", line);
    p->shown_ns = now;
}

/* mu is held. */
static void progress_clear(struct progress *p)
{
    if (p->shown_ns)
        fputs("\r\033[K", stderr);
    p->shown_ns = 0;
}

void progress_found(struct progress *p, uint64_t files, uint64_t bytes)
{
    pthread_mutex_lock(&p->mu);
    p->all_files += files;
    p->all_bytes += bytes;
    progress_show(p);
    pthread_mutex_unlock(&p->mu);
}

void progress_found_all(struct progress *p)
{
    pthread_mutex_lock(&p->mu);
    p->found_all = true;
    pthread_mutex_unlock(&p->mu);
}

void progress_add(struct progress *p, uint64_t files, uint64_t bytes)
{
    pthread_mutex_lock(&p->mu);
    p->files += files;
    p->bytes += bytes;
    progress_show(p);
    pthread_mutex_unlock(&p->mu);
}

void progress_failed(struct progress *p, const struct err *e)
{
    pthread_mutex_lock(&p->mu);
    progress_clear(p);
    if (p->failed++ < PROGRESS_NAMED)
        cli_failed(e);
    pthread_mutex_unlock(&p->mu);
}

void progress_hide(struct progress *p)
{
    pthread_mutex_lock(&p->mu);
    progress_clear(p);
    pthread_mutex_unlock(&p->mu);
}

uint64_t progress_end(struct progress *p)
{
    progress_hide(p);
    if (p->failed > PROGRESS_NAMED)
        fprintf(stderr, "millrace: and %" PRIu64 " more\n", p->failed - PROGRESS_NAMED);
    pthread_mutex_destroy(&p->mu);
    return p->failed;
}
