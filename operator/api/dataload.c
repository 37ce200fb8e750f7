/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/api/dataload.h"

#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BANDWIDTH_LEAST   (64 << 10)
#define FAILURE_PATH_MOST 512
#define FAILURE_TEXT_MOST 200

static int check_target(const json_t *target, size_t i, struct err *e)
{
    const char *path;
    if (jget_str_req(target, "path", &path, e))
        return err_wrap(e, "spec.target[%zu]", i);
    bool ok = *path == '/';
    for (const char *s = path; *s && ok; s++)
        ok = (unsigned char)*s >= ' ' && *s != 0x7f;
    for (const char *s = path + ok; *s && ok; s += strcspn(s, "/"), s += *s == '/') {
        size_t n = strcspn(s, "/");
        ok = n && !(n == 1 && s[0] == '.') && !(n == 2 && s[0] == '.' && s[1] == '.');
    }
    if (!ok)
        return err_set(e, ERR_INVALID,
            "spec.target[%zu].path must be a path in the dataset, like /train: no empty names, no '.', no '..'",
            i);
    return 0;
}

/* Fields of earlier versions: the CRD refuses them, but an object may be older. What only said what
 * holds anyway is passed over. */
static int refuse_gone_fields(const json_t *cr, const struct dataload *l, struct err *e)
{
    if (strcmp(jget_str(cr, "spec.dataset.namespace", l->ns), l->ns) != 0)
        return err_set(e, ERR_INVALID,
            "spec.dataset.namespace is gone: a DataLoad loads a Dataset of its own namespace, %s: leave it out, and create the DataLoad there",
            l->ns);
    if (jget_bool(cr, "spec.loadMetadata", false))
        return err_set(e, ERR_INVALID,
            "spec.loadMetadata is gone: a load always lists the store afresh: leave it out");
    return 0;
}

static int read_bandwidth(const json_t *cr, int64_t *out, struct err *e)
{
    const json_t *given = jget(cr, "spec.bandwidth");
    cleanup_free char *text = json_is_integer(given)
        ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(given))
        : xstrdup(jget_str(cr, "spec.bandwidth", ""));
    *out = 0;
    if (given && (quantity_parse(text, out) || *out < BANDWIDTH_LEAST))
        return err_set(e, ERR_INVALID,
            "spec.bandwidth is '%.60s': write bytes a second as a quantity, at least 64Ki, like 100Mi",
            text);
    return 0;
}

static int read_schedule(const json_t *cr, struct dataload *out, struct err *e)
{
    const char *policy = jget_str(cr, "spec.policy", "Once"),
               *schedule = jget_str(cr, "spec.schedule", NULL);
    bool cron = strcmp(policy, "Cron") == 0;
    if (!cron && strcmp(policy, "Once") != 0)
        return err_set(e, ERR_INVALID,
            "spec.policy is '%.40s': write Once, or Cron with spec.schedule; what is to stay loaded belongs into spec.cache.preload of the Dataset",
            policy);
    if (cron != (schedule != NULL))
        return err_set(e, ERR_INVALID,
            "spec.schedule and policy: Cron belong together: write both, or neither for a load that runs once");
    if (cron && out->ttl_s >= 0)
        return err_set(e, ERR_INVALID,
            "spec.ttlSecondsAfterFinished is for a load that runs once: leave it out, or spec.schedule");
    if (cron && cron_parse(schedule, &out->cron, e))
        return err_wrap(e, "spec.schedule");
    out->schedule = schedule;
    out->suspend = jget_bool(cr, "spec.suspend", false);
    return 0;
}

int dataload_parse(const json_t *cr, struct dataload *out, struct err *e)
{
    *out = (struct dataload){kube_namespace(cr), kube_name(cr),
        jget_str(cr, "spec.dataset.name", ""), jget_arr(cr, "spec.target"),
        jget_int(cr, "spec.ttlSecondsAfterFinished", -1),
        jget(cr, "spec.pin") ? jget_bool(cr, "spec.pin", false) : -1, 0, NULL, false,
        {.minutes = 0}};
    if (strlen(out->name) > DATALOAD_NAME_MAX || strchr(out->name, '.'))
        return err_set(e, ERR_INVALID,
            "metadata.name: at most %d characters and no '.', because the loader's pod is named after it",
            DATALOAD_NAME_MAX);
    if (!*out->dataset)
        return err_set(e, ERR_INVALID,
            "spec.dataset.name is missing: name a Dataset of namespace %s", out->ns);
    if (refuse_gone_fields(cr, out, e) || read_bandwidth(cr, &out->bandwidth, e)
        || read_schedule(cr, out, e))
        return -1;
    for (size_t i = 0; i < json_array_size(out->targets); i++)
        if (check_target(json_array_get(out->targets, i), i, e))
            return -1;
    return 0;
}

json_t *dataload_paths(const struct dataload *l)
{
    json_t *paths = json_array();
    for (size_t i = 0; i < json_array_size(l->targets); i++)
        json_array_append_new(
            paths, json_string(jget_str(json_array_get(l->targets, i), "path", "/")));
    return paths;
}

const char *dataload_phase(const json_t *cr) { return jget_str(cr, "status.phase", ""); }

bool dataload_finished(const json_t *cr)
{
    const char *phase = dataload_phase(cr);
    return strcmp(phase, DATALOAD_COMPLETE) == 0 || strcmp(phase, DATALOAD_FAILED) == 0;
}

int64_t dataload_expiry(const json_t *cr, const struct dataload *l)
{
    int64_t end;
    if (l->ttl_s < 0 || l->ttl_s > INT32_MAX
        || clock_parse_rfc3339(jget_str(cr, "status.completionTime", ""), &end))
        return -1;
    return end + l->ttl_s * NS_PER_S;
}

/* "1h2m3s", as Go prints a duration. */
static void set_duration(json_t *status, int64_t ns)
{
    int64_t s = ns > 0 ? ns / NS_PER_S : 0;
    char text[48];
    if (s >= 3600)
        snprintf(text, sizeof text, "%" PRId64 "h%" PRId64 "m%" PRId64 "s", s / 3600, s / 60 % 60,
            s % 60);
    else if (s >= 60)
        snprintf(text, sizeof text, "%" PRId64 "m%" PRId64 "s", s / 60, s % 60);
    else
        snprintf(text, sizeof text, "%" PRId64 "s", s);
    json_object_set_new(status, "duration", json_string(text));
}

static int64_t count_in(const json_t *load, const char *key)
{
    int64_t n = jget_int(load, key, 0); /* reports are not trusted */
    return n > 0 ? n : 0;
}

struct dataload_progress dataload_progress_of(const json_t *load)
{
    return (struct dataload_progress){.known = load != NULL,
        .complete = jget_bool(load, "complete", false),
        .files = count_in(load, "files"),
        .bytes = count_in(load, "bytes"),
        .done_files = count_in(load, "loadedFiles"),
        .done_bytes = count_in(load, "loadedBytes"),
        .failed = count_in(load, "failedFiles")};
}

static json_t *bounded(const json_t *o, const char *key, size_t most)
{
    const char *text = jget_str(o, key, "");
    cleanup_free char *cut = text_legible(text, strlen(text), most);
    return json_string(cut);
}

json_t *dataload_failures_of(const json_t *report)
{
    const json_t *given = jget_arr(report, REPORT_FAILURES);
    json_t *out = json_array_size(given) ? json_array() : NULL;
    for (size_t i = 0; i < json_array_size(given) && i < DATALOAD_FAILURES_MAX; i++) {
        const json_t *one = json_array_get(given, i);
        json_array_append_new(out,
            json_pack("{s:o, s:o}", "path", bounded(one, REPORT_FAILURE_PATH, FAILURE_PATH_MOST),
                "message", bounded(one, REPORT_FAILURE_MESSAGE, FAILURE_TEXT_MOST)));
    }
    return out;
}

int dataload_percent(const struct dataload_progress *p)
{
    double share = p->bytes > 0 ? (double)p->done_bytes / (double)p->bytes
        : p->files > 0          ? (double)p->done_files / (double)p->files
                                : 0;
    return p->complete ? 100 : share >= 0.99 ? 99 : (int)(100 * share);
}

int dataload_tenths(double part, double all)
{
    if (all <= 0 || part <= 0)
        return 0;
    return part >= all ? 1000 : MIN((int)(1000 * part / all), 999);
}

static json_t *progress_json(const struct dataload_progress *p)
{
    char share[16];
    int tenths = p->bytes > 0 ? dataload_tenths((double)p->done_bytes, (double)p->bytes)
                              : dataload_tenths((double)p->done_files, (double)p->files);
    snprintf(share, sizeof share, "%d.%d%%", tenths / 10, tenths % 10);
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I}", "percentage", share, "percent",
        tenths / 10, "files", (json_int_t)p->files, "bytes", (json_int_t)p->bytes, "doneFiles",
        (json_int_t)p->done_files, "doneBytes", (json_int_t)p->done_bytes, "failedFiles",
        (json_int_t)p->failed);
}

json_t *dataload_status_json(const json_t *cr, const struct dataload_status *s)
{
    json_t *o = jget_obj(cr, "status") ? json_deep_copy(jget_obj(cr, "status")) : json_object();
    char now[CLOCK_RFC3339_LEN];
    clock_rfc3339(s->now_ns, now);
    json_object_set_new(o, "phase", json_string(s->phase));
    json_object_set_new(
        o, "observedGeneration", json_integer(jget_int(cr, "metadata.generation", 0)));
    json_object_set_new(o, "conditions", json_deep_copy(s->conditions));
    if (s->progress.known) {
        json_object_set_new(o, "progress", progress_json(&s->progress));
        json_object_del(o, "failures");
        if (s->failures)
            json_object_set(o, "failures", (json_t *)s->failures);
    }
    if (strcmp(s->phase, DATALOAD_COMPLETE) == 0) { /* whatever was asked for last */
        if (!json_object_get(o, "progress"))
            json_object_set_new(o, "progress", json_object());
        json_object_set_new(json_object_get(o, "progress"), "percentage", json_string("100.0%"));
        json_object_set_new(json_object_get(o, "progress"), "percent", json_integer(100));
    }
    if ((s->started || s->finished) && !json_object_get(o, "startTime"))
        json_object_set_new(o, "startTime", json_string(s->started ? s->started : now));
    if (s->finished && !json_object_get(o, "completionTime")) {
        int64_t start = s->now_ns;
        clock_parse_rfc3339(jget_str(o, "startTime", ""), &start);
        json_object_set_new(o, "completionTime", json_string(now));
        set_duration(o, s->now_ns - start);
    }
    return o;
}
