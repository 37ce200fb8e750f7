/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/conf/report.h"

#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void report_problem_set(struct report_problem *p, const char *reason, const char *message)
{
    snprintf(p->reason, sizeof p->reason, "%s", reason);
    snprintf(p->message, sizeof p->message, "%s", message);
    log_redact_text(p->message);
}

uint64_t report_starts(uint64_t before, uint64_t started_ms)
{
    return hash64_mix(before, started_ms);
}

void report_starts_text(uint64_t starts, char out[REPORT_STARTS_LEN])
{
    snprintf(out, REPORT_STARTS_LEN, "%016" PRIx64, starts);
}

static void add_comma(struct buf *out)
{
    char last = out->len ? out->data[out->len - 1] : '{';
    if (last != '{' && last != '[')
        buf_addc(out, ',');
}

static void report_add_value(struct buf *out, const struct report_member *m)
{
    switch (m->kind) {
    case REPORT_COUNT:
        buf_addf(out, "%" PRIu64, m->count);
        break;
    case REPORT_BOOL:
        buf_adds(out, m->count ? "true" : "false");
        break;
    case REPORT_TEXT:
        buf_add_json_string(out, m->text);
        break;
    }
}

void report_add(struct buf *out, const struct report_member *members, size_t n)
{
    const char *group = "";
    int group_len = 0;
    for (const struct report_member *m = members; m < members + n; m++) {
        const char *dot = strchr(m->path, '.'), *key = dot ? dot + 1 : m->path;
        int len = dot ? (int)(dot - m->path) : 0;
        if (len != group_len || strncmp(m->path, group, (size_t)len) != 0) {
            if (group_len)
                buf_addc(out, '}');
            add_comma(out);
            if (len)
                buf_addf(out, "\"%.*s\":{", len, m->path);
            group = m->path;
            group_len = len;
        } else {
            add_comma(out);
        }
        buf_addf(out, "\"%s\":", key);
        report_add_value(out, m);
    }
    if (group_len)
        buf_addc(out, '}');
}

static void add_mount_reports(struct buf *out, const struct report_common *c)
{
    buf_adds(out, ",\"" REPORT_MOUNTS "\":[");
    for (size_t i = 0; c->conf && i < c->conf->nmounts; i++) {
        const struct conf_mount *m = &c->conf->mounts[i];
        const struct report_problem *p = &c->mounts[i];
        const struct report_member members[] = {
            {REPORT_MOUNT_POINT, REPORT_TEXT, 0, c->to_stranger ? "" : m->mount_point},
            {REPORT_MOUNT_PATH, REPORT_TEXT, 0, c->to_stranger ? "" : m->path},
            {REPORT_READY, REPORT_BOOL, c->checked && !*p->reason, NULL},
            {REPORT_REASON, REPORT_TEXT, 0, p->reason},
            {REPORT_MESSAGE, REPORT_TEXT, 0, c->to_stranger ? "" : p->message},
        };
        add_comma(out);
        buf_addc(out, '{');
        report_add(out, members, ARRAY_LEN(members));
        buf_addc(out, '}');
    }
    buf_addc(out, ']');
}

void report_begin(struct buf *out, const struct report_common *c)
{
    const struct report_member whole[] = {
        {REPORT_COMPONENT, REPORT_TEXT, 0, c->component},
        {REPORT_READY, REPORT_BOOL, c->ready, NULL},
        {REPORT_REASON, REPORT_TEXT, 0, c->problem->reason},
        {REPORT_MESSAGE, REPORT_TEXT, 0, c->to_stranger ? "" : c->problem->message},
        {REPORT_SERVING, REPORT_BOOL, c->serving, NULL},
    };
    const struct report_member counts[] = {
        {REPORT_CACHE_USED, REPORT_COUNT, c->cache.used, NULL},
        {REPORT_CACHE_CAPACITY, REPORT_COUNT, c->cache.capacity, NULL},
        {REPORT_CACHE_FILES, REPORT_COUNT, c->cache.files, NULL},
        {REPORT_CACHE_COMPLETE, REPORT_COUNT, c->cache.complete, NULL},
        {REPORT_CACHE_PINNED, REPORT_COUNT, c->cache.pinned, NULL},
        {REPORT_CACHE_PINNED_MOST, REPORT_COUNT, c->cache.pinned_most, NULL},
        {REPORT_CACHE_PINNED_FILES, REPORT_COUNT, c->cache.pinned_files, NULL},
        {REPORT_CACHE_EVICTED, REPORT_COUNT, c->cache.evicted, NULL},
        {REPORT_READS_CACHE, REPORT_COUNT, c->reads.cache, NULL},
        {REPORT_READS_WORKER, REPORT_COUNT, c->reads.worker, NULL},
        {REPORT_READS_STORE, REPORT_COUNT, c->reads.store, NULL},
        {REPORT_WRITES_BYTES, REPORT_COUNT, c->writes.bytes, NULL},
        {REPORT_WRITES_PENDING, REPORT_COUNT, c->writes.pending, NULL},
    };
    buf_addc(out, '{');
    report_add(out, whole, ARRAY_LEN(whole));
    add_mount_reports(out, c);
    report_add(out, counts, ARRAY_LEN(counts));
}
