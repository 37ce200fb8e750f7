/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/load.h"

#include "fuse/worker/load_pass.h"
#include "lib/base/human.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3 /* of looking whether everything is there */

/* One load, as its /status and its report tell of it. */
struct load_once {
    struct load l;
    struct load_path *paths;
    size_t npaths;
    enum request_pin pin;
    bool verifying, complete; /* l.mu */
    const char *reason;       /* l.mu: why trying again does not help; "": it may, or not told */
};

static void add_once_status(void *user, bool known, struct buf *out)
{
    struct load_once *o = user;
    pthread_mutex_lock(&o->l.mu);
    const struct load_counts *n = &o->l.n;
    const struct report_member members[] = {
        {REPORT_LOAD_FILES, REPORT_COUNT, n->files, NULL},
        {REPORT_LOAD_BYTES, REPORT_COUNT, n->bytes, NULL},
        {REPORT_LOAD_DONE_FILES, REPORT_COUNT, n->done_files, NULL},
        {REPORT_LOAD_DONE_BYTES, REPORT_COUNT, n->done_bytes, NULL},
        {REPORT_LOAD_FAILED, REPORT_COUNT, n->failed_files, NULL},
        {REPORT_LOAD_VERIFYING, REPORT_BOOL, o->verifying, NULL},
        {REPORT_LOAD_COMPLETE, REPORT_BOOL, o->complete, NULL},
        {REPORT_LOAD_REASON, REPORT_TEXT, 0, o->reason},
    };
    report_add(out, members, ARRAY_LEN(members));
    if (known)
        load_failed_report(&o->l.failed, out);
    pthread_mutex_unlock(&o->l.mu);
}

static void set_once(struct load_once *o, bool *flag)
{
    pthread_mutex_lock(&o->l.mu);
    *flag = true;
    pthread_mutex_unlock(&o->l.mu);
}

/* Files that are gone from the store are in no listing: the workers know them alone. */
static bool is_everything(const struct load_once *o)
{
    bool all = false;
    for (size_t i = 0; i < o->npaths; i++)
        all |= strcmp(o->paths[i].path, "/") == 0;
    return all;
}

static int load_all(struct load_once *o, int64_t wait_ns, struct err *e)
{
    struct load *l = &o->l;
    if (load_wait_ready(l, wait_ns, e))
        return -1;
    load_look(l);
    if (o->pin == REQUEST_UNPIN && is_everything(o) && load_unpin_all(l, NULL, e))
        return -1;
    if (load_pass(l, o->paths, o->npaths, e))
        return -1;
    set_once(o, &o->verifying);
    for (int round = 0; round < ROUNDS; round++) { /* files that failed are tried again here */
        if (load_pass(l, o->paths, o->npaths, e))
            return -1;
        if (!load_look(l) && l->n.failed_files == 0 && l->n.missing == 0)
            return 0;
    }
    if (l->n.failed_files)
        return err_set(e, ERR_RETRY,
            "%" PRIu64 " of %" PRIu64 " files are not in the cache; first: %s", l->n.failed_files,
            l->n.files, l->first_error);
    return err_set(e, ERR_EXHAUSTED,
        "the cache loses files while others are loaded: raise the quota of its tiers");
}

/* First line: the final counters as {"load":{…}}, since /status may be gone before it is asked
 * again. Last line: the sentence. */
static void write_report(struct load_once *o, const struct load_conf *lc, const char *text)
{
    int fd = lc->report ? open(lc->report, O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    cleanup_buf struct buf out = BUF_INIT(4096);
    buf_adds(&out, "{");
    add_once_status(o, true, &out);
    buf_addf(&out, "}\n%s", text);
    if (write(fd, out.data, out.len) < 0)
        log_debug("no report: %s", strerror(errno));
    close(fd);
}

static void set_paths(struct load_once *o, const struct load_conf *lc)
{
    o->pin = lc->pin;
    o->npaths = lc->npaths ? (size_t)lc->npaths : 1;
    o->paths = xcalloc(o->npaths, sizeof *o->paths);
    for (size_t i = 0; i < o->npaths; i++)
        o->paths[i] = (struct load_path){lc->npaths ? lc->paths[i] : "/", lc->pin};
}

/* Pins or files that do not fit, a path that is not there, a configuration that is not valid. */
static bool is_final(const struct err *e)
{
    return e->cls == ERR_EXHAUSTED || e->cls == ERR_NOTFOUND || e->cls == ERR_INVALID;
}

static void set_reason_once(struct load_once *o, const struct err *e)
{
    pthread_mutex_lock(&o->l.mu);
    o->reason = e->cls == ERR_NOTFOUND ? "PathNotFound" : "";
    pthread_mutex_unlock(&o->l.mu);
}

int load_run(struct server *s, const struct load_conf *lc)
{
    struct err e = ERR_INIT;
    struct load_once o = {.reason = ""};
    int rc = load_open(&o.l, s, lc->urls, lc->nurls, &e);
    o.l.threads = (unsigned)lc->threads;
    o.l.rate.rate = lc->bandwidth;
    o.l.unpin_how = "unpin something (a DataLoad with pin: false)";
    set_paths(&o, lc);
    server_tell_more(s, add_once_status, &o);
    if (rc == 0)
        rc = load_all(&o, lc->wait_ns, &e);
    char bytes[HUMAN_BYTES_LEN];
    cleanup_free char *text = rc
        ? xasprintf("load failed: %s", e.msg)
        : xasprintf("loaded %" PRIu64 " files, %s, into %d cache worker%s", o.l.n.files,
            human_bytes(o.l.n.bytes, bytes), o.l.nurls, o.l.nurls == 1 ? "" : "s");
    log_redact_text(text);
    log_kv(rc ? LOG_ERROR : LOG_INFO, text, NULL);
    if (rc)
        set_reason_once(&o, &e);
    write_report(&o, lc, text);
    if (rc == 0)
        set_once(&o, &o.complete);
    server_tell_more(s, NULL, NULL);
    load_close(&o.l);
    free(o.paths);
    return rc == 0 ? 0 : is_final(&e) ? LOADER_EXIT_FINAL : 1;
}
