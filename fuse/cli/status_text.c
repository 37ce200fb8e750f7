/* SPDX-License-Identifier: Apache-2.0 */
/* The document of a Dataset as lines: a word for what it is, and the text under itself. */
#include "fuse/cli/status.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"

#include <string.h>

#define COLUMNS 100
#define INDENT  11 /* "  workers  " */
#define ROW_MAX (16u << 10)

/* "  HEAD     text", wrapped under itself. */
static void put_row(struct buf *out, const char *head, const char *text)
{
    size_t column = INDENT;
    buf_addf(out, "  %-*s", INDENT - 2, head);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " \t\r\n");
        bool first = column == INDENT;
        if (!first && column + 1 + n > COLUMNS) {
            buf_addf(out, "\n%*s", INDENT, "");
            column = INDENT;
            first = true;
        }
        buf_addf(out, "%s%.*s", first ? "" : " ", (int)n, p);
        column += n + !first;
        p += n;
        p += strspn(p, " \t\r\n");
    }
    buf_addc(out, '\n');
}

static int64_t number(const json_t *d, const char *key) { return jget_int(d, key, -1); }

static const char *bytes_of(const json_t *d, const char *key, char text[HUMAN_BYTES_LEN])
{
    return human_bytes((uint64_t)MAX(number(d, key), 0), text);
}

static void put_title(struct buf *out, const json_t *d)
{
    char size[HUMAN_BYTES_LEN];
    const char *reason = jget_str(d, "reason", ""), *only = jget_str(d, "watchedOnly", "");
    buf_addf(out, "%s/%s  ", jget_str(d, "namespace", ""), jget_str(d, "name", ""));
    if (jget_bool(d, "deleting", false))
        buf_adds(out, "is being deleted");
    else if (jget_bool(d, "ready", false))
        buf_adds(out, "Ready");
    else if (*only)
        buf_addf(out, "not Ready (Millrace watches namespace %s only: value watchNamespace)", only);
    else
        buf_addf(out, "not Ready (%s)", *reason ? reason : "the operator has not looked at it yet");
    bool empty = jget_bool(d, "counted", false) && number(d, "files") == 0;
    if (empty)
        buf_adds(out, "  0 files: if there should be some, look at bucket and prefix");
    else if (number(d, "bytes") > 0 || jget_bool(d, "counted", false))
        buf_addf(out, "  %s%s in %lld files", bytes_of(d, "bytes", size),
            jget_bool(d, "counted", false) ? "" : "+", (long long)number(d, "files"));
    if (!empty && number(d, "cachedPercent") >= 0)
        buf_addf(out, ", %lld%% cached", (long long)number(d, "cachedPercent"));
    buf_addc(out, '\n');
}

static void put_mounts(struct buf *out, const json_t *d)
{
    const json_t *s;
    size_t i;
    json_array_foreach (jget_arr(d, "stores"), i, s) {
        cleanup_free char *text = xasprintf("%s at %s%s", jget_str(s, "mountPoint", ""),
            jget_str(s, "path", ""), jget_bool(s, "readOnly", false) ? ", read-only" : "");
        put_row(out, "store", text);
    }
}

static void put_numbers(struct buf *out, const json_t *d)
{
    char a[HUMAN_BYTES_LEN], b[HUMAN_BYTES_LEN], c[HUMAN_BYTES_LEN];
    if (number(d, "capacityBytes") > 0) {
        cleanup_free char *text = xasprintf("%s of %s; on the nodes that read: %s",
            bytes_of(d, "cachedBytes", a), bytes_of(d, "capacityBytes", b),
            bytes_of(d, "clientCachedBytes", c));
        put_row(out, "cache", text);
    }
    const json_t *p = jget_obj(d, "preload");
    if (p && number(p, "percent") >= 0) {
        cleanup_free char *text = xasprintf("%lld%%: %s of %s, %lld of %lld files",
            (long long)number(p, "percent"), bytes_of(p, "doneBytes", a), bytes_of(p, "bytes", b),
            (long long)number(p, "doneFiles"), (long long)number(p, "files"));
        put_row(out, "preload", text);
    } else if (p) {
        put_row(out, "preload", "not counted yet");
    }
    if (number(d, "hitPercent") >= 0) {
        cleanup_free char *text = xasprintf(
            "%lld%% from caches (%lld%% of the reader's node, %lld%% of workers), %lld%% from the store",
            (long long)number(d, "hitPercent"), (long long)MAX(number(d, "localHitPercent"), 0),
            (long long)MAX(number(d, "remoteHitPercent"), 0),
            100 - (long long)number(d, "hitPercent"));
        put_row(out, "reads", text);
    }
    if (number(d, "pendingFiles") > 0) {
        cleanup_free char *text = xasprintf(
            "%lld files are not in the store yet", (long long)number(d, "pendingFiles"));
        put_row(out, "writes", text);
    }
}

/* "2 of 3: a on node-x, b on node-y (not ready)"; clients by their nodes alone. */
static void put_pods(
    struct buf *out, const json_t *d, const char *head, const char *wanted, const char *counted)
{
    cleanup_buf struct buf text = BUF_INIT(ROW_MAX);
    const json_t *pods = jget_arr(d, head), *p;
    bool clients = strcmp(head, "clients") == 0;
    size_t i, ready = 0, shown = 20;
    json_array_foreach (pods, i, p)
        ready += jget_bool(p, "ready", false);
    if (number(d, "runningPods") < 0) /* some nodes are told, not all */
        ready = (size_t)MAX(number(d, counted), 0);
    buf_addf(&text, "%zu of %lld", ready, (long long)MAX(number(d, wanted), 0));
    json_array_foreach (pods, i, p) {
        if (i == shown) {
            buf_addf(&text, " and %zu more", json_array_size(pods) - shown);
            break;
        }
        const char *node = jget_str(p, "node", ""), *name = clients ? "" : jget_str(p, "pod", "");
        buf_addf(&text, "%s%s%s%s%s", i ? ", " : ": ", name, *name ? " on " : "",
            *node ? node : "no node yet", jget_bool(p, "ready", false) ? "" : " (not ready)");
    }
    if (json_array_size(pods) || number(d, wanted) > 0)
        put_row(out, head, buf_str(&text));
}

static void put_problems(struct buf *out, const json_t *d)
{
    const json_t *p;
    size_t i;
    json_array_foreach (jget_arr(d, "problems"), i, p) {
        cleanup_free char *text = xasprintf("%s=%s %s: %s", jget_str(p, "type", ""),
            strcmp(jget_str(p, "type", ""), "WritesKept") == 0 ? "True" : "False",
            jget_str(p, "reason", ""), jget_str(p, "message", ""));
        put_row(out, "problem", text);
    }
}

static void put_waiting(struct buf *out, const json_t *d)
{
    const json_t *waiting = jget_arr(d, "waiting"), *p;
    size_t i;
    if (number(d, "runningPods") > 0) {
        cleanup_free char *text = xasprintf("running: %lld", (long long)number(d, "runningPods"));
        put_row(out, "readers", text);
    }
    if (number(d, "runningPods") < 0)
        put_row(out, "readers", "not known: you may not list pods");
    json_array_foreach (waiting, i, p)
        put_row(out, jget_bool(p, "fails", false) ? "failing" : "waiting", jget_str(p, "why", ""));
    int64_t more = number(d, "waitingPods") - (int64_t)json_array_size(waiting);
    if (more > 0) {
        cleanup_free char *text = xasprintf("and %lld more pods", (long long)more);
        put_row(out, "waiting", text);
    }
}

void status_print(const json_t *document, struct buf *out)
{
    put_title(out, document);
    put_mounts(out, document);
    put_numbers(out, document);
    put_pods(out, document, "workers", "workersWanted", "workersReady");
    put_pods(out, document, "clients", "clientsWanted", "clientsReady");
    put_problems(out, document);
    put_waiting(out, document);
}
