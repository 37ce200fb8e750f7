/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/handoff.h"

#include "csi/handoff_priv.h"
#include "csi/mount.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAIT_SLICE_NS   (200 * NS_PER_MS) /* how soon a cancelled RPC is noticed */
#define FLUSH_MARGIN_NS NS_PER_S
#define PUT_NS          (5 * NS_PER_S) /* for a thread to end */

METRIC_GAUGE(csi_mounts, "millrace_csi_mounts", "", "FUSE mounts of datasets on this node.");
METRIC_GAUGE(csi_clients, "millrace_csi_clients", "", "Clients that are connected.");
METRIC_GAUGE(csi_backing, "millrace_csi_backing_files", "",
    "Cache files that the kernel reads without the client.");
METRIC_COUNTER(csi_handovers, "millrace_csi_handovers_total", "",
    "Times that a mount went on with another client process.");
METRIC_COUNTER(csi_abandoned, "millrace_csi_abandoned_total", "",
    "Mounts aborted because nobody served them.");
METRIC_COUNTER(
    csi_remounts, "millrace_csi_remounts_total", "", "Mounts that were lost and made again.");

struct handoff *handoff_new(const struct handoff_conf *conf)
{
    struct handoff *h = xcalloc(1, sizeof *h);
    h->conf = *conf;
    h->conf.state_dir = xstrdup(conf->state_dir);
    h->conf.node = xstrdup(conf->node);
    pthread_mutex_init(&h->mu, NULL);
    h->mounts = metric_of(&csi_mounts);
    h->clients = metric_of(&csi_clients);
    h->backing = metric_of(&csi_backing);
    h->handovers = metric_of(&csi_handovers);
    h->abandoned = metric_of(&csi_abandoned);
    h->remounts = metric_of(&csi_remounts);
    return h;
}

void handoff_free(struct handoff *h)
{
    if (!h)
        return;
    if (h->all)
        log_error("a volume is still kept: %s/%s", h->all->ns, h->all->uid);
    free((char *)h->conf.state_dir);
    free((char *)h->conf.node);
    pthread_mutex_destroy(&h->mu);
    free(h);
}

static void load_init(struct handoff_mount *v)
{
    size_t len = 0;
    struct err e = ERR_INIT;
    cleanup_free char *data = file_read(v->init_path, HANDOFF_INIT_MAX, &len, &e);
    if (!data)
        return;
    memcpy(v->init, data, len);
    v->init_len = (unsigned)len;
}

static void handoff_mount_free(struct handoff_mount *v)
{
    closer_take(v->closer, v->listen_fd); /* with those that wait in its queue */
    closer_take(v->closer, v->early_fd);
    closer_take(v->closer, v->conn);
    closer_leave(v->closer);
    for (int *fd[] = {&v->wake_fd, &v->fuse_fd}, i = 0; i < 2; i++)
        if (*fd[i] >= 0)
            close(*fd[i]);
    backing_free(v->files);
    pthread_mutex_destroy(&v->mu);
    pthread_cond_destroy(&v->changed);
    free(v->ns);
    free(v->uid);
    free(v->dir);
    free(v->init_path);
    free(v->staging);
    free(v);
}

static struct handoff_mount *handoff_mount_new(
    struct handoff *h, const char *ns, const char *uid, const char *dir, struct err *e)
{
    cleanup_free char *cache = path_join(dir, VOLUME_CACHE), *sock = path_join(dir, VOLUME_SOCKET);
    struct stat st;
    if (lstat(cache, &st)) {
        err_sys(e, errno, "stat %s", cache);
        return NULL;
    }
    struct handoff_mount *v = xcalloc(1, sizeof *v);
    *v = (struct handoff_mount){.handoff = h,
        .refs = 1,
        .ns = xstrdup(ns),
        .uid = xstrdup(uid),
        .dir = xstrdup(dir),
        .cache_dev = st.st_dev,
        .cache_owner = st.st_uid,
        .listen_fd = -1,
        .wake_fd = -1,
        .fuse_fd = -1,
        .early_fd = -1,
        .conn = -1};
    v->init_path = xasprintf("%s/%s.%s.init", h->conf.state_dir, ns, uid);
    cleanup_free char *ids = xasprintf("%s/%s.%s.ids", h->conf.state_dir, ns, uid);
    v->files = backing_new(ids, h->conf.backing_max);
    pthread_mutex_init(&v->mu, NULL);
    clock_cond_init(&v->changed);
    v->closer = closer_new();
    v->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    v->listen_fd = v->wake_fd < 0 ? -1 : handoff_listen(sock, e);
    if (v->wake_fd < 0)
        err_sys(e, errno, "make an eventfd");
    if (v->listen_fd < 0 || task_start(&v->task, "handoff", handoff_thread, v, e)) {
        handoff_mount_free(v);
        return NULL;
    }
    return v;
}

struct handoff_mount *handoff_get(
    struct handoff *h, const char *ns, const char *uid, const char *dir, struct err *e)
{
    pthread_mutex_lock(&h->mu);
    struct handoff_mount *v = h->all;
    while (v && (strcmp(v->ns, ns) != 0 || strcmp(v->uid, uid) != 0))
        v = v->next;
    if (v)
        v->refs++;
    else if ((v = handoff_mount_new(h, ns, uid, dir, e))) {
        v->next = h->all;
        h->all = v;
    }
    pthread_mutex_unlock(&h->mu);
    return v;
}

/* Takes mu. Its thread holds it for moments only, unless the node's disk does not answer. */
static int lock_mount(struct handoff_mount *v, int64_t deadline_ns, struct err *e)
{
    if (clock_mutex_lock(&v->mu, deadline_ns) == 0)
        return 0;
    return err_set(e, ERR_CONFLICT,
        "the mount of dataset %s of namespace %s is busy: does the node's disk answer?", v->uid,
        v->ns);
}

static bool thread_ended(struct handoff_mount *v, int64_t deadline_ns)
{
    struct err e = ERR_INIT;
    if (lock_mount(v, deadline_ns, &e))
        return false;
    while (!v->ended && clock_cond_wait(&v->changed, &v->mu, deadline_ns) == 0)
        continue;
    bool ended = v->ended;
    pthread_mutex_unlock(&v->mu);
    return ended;
}

void handoff_put(struct handoff_mount *v)
{
    struct handoff *h = v->handoff;
    pthread_mutex_lock(&h->mu);
    if (--v->refs) {
        pthread_mutex_unlock(&h->mu);
        return;
    }
    struct handoff_mount **at = &h->all;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    cleanup_free char *sock = path_join(v->dir, VOLUME_SOCKET);
    unlink(sock); /* under the lock: the next handoff_get() makes its own */
    pthread_mutex_unlock(&h->mu);
    task_cancel(&v->task);
    handoff_wake(v);
    if (!thread_ended(v, clock_mono_ns() + PUT_NS)) {
        log_kv(LOG_ERROR, "the thread of a volume hangs: leaving it behind", "namespace", v->ns,
            "dataset", v->uid, NULL);
        return;
    }
    task_stop(&v->task);
    handoff_mount_free(v);
}

void handoff_adopt(struct handoff_mount *v, const char *staging, dev_t dev, bool read_only)
{
    struct err e = ERR_INIT;
    pthread_mutex_lock(&v->mu);
    v->staging = xstrdup(staging);
    v->dev = dev;
    v->read_only = read_only;
    v->served = true;
    v->attended_ns = clock_mono_ns();
    load_init(v);
    if (backing_load(v->files, &e))
        log_kv(LOG_WARN, "backing files of an adopted mount are not known", "error", e.msg, NULL);
    metric_add(v->handoff->mounts, 1);
    metric_add(v->handoff->backing, (int64_t)backing_count(v->files));
    handoff_wake(v);
    pthread_mutex_unlock(&v->mu);
}

/* Is that the name of a note about a mount that there is? */
static bool is_note(struct handoff *h, const char *name)
{
    mutex_assert_held(&h->mu);
    for (struct handoff_mount *v = h->all; v; v = v->next) {
        pthread_mutex_lock(&v->mu);
        bool mounted = v->staging;
        pthread_mutex_unlock(&v->mu);
        if (!mounted) /* its client's volume alone */
            continue;
        cleanup_free char *init = xasprintf("%s.%s.init", v->ns, v->uid),
                          *ids = xasprintf("%s.%s.ids", v->ns, v->uid);
        if (strcmp(name, init) == 0 || strcmp(name, ids) == 0)
            return true;
    }
    return false;
}

void handoff_remove_orphans(struct handoff *h)
{
    DIR *d = opendir(h->conf.state_dir);
    pthread_mutex_lock(&h->mu);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] != '.' && !is_note(h, entry->d_name))
            unlinkat(dirfd(d), entry->d_name, 0);
    pthread_mutex_unlock(&h->mu);
    if (d)
        closedir(d);
}

/* Lets the thread close what it owns. */
static void forget_mount(struct handoff_mount *v)
{
    mutex_assert_held(&v->mu);
    v->end_mount = true;
    handoff_wake(v);
    while (v->end_mount)
        pthread_cond_wait(&v->changed, &v->mu);
    v->ending = false;
}

static int missing(const struct handoff_mount *v, const struct handoff_want *w, struct err *e)
{
    mutex_assert_held(&v->mu);
    char title[400];
    volume_context_title(w->context, title, sizeof title);
    const char *node = v->handoff->conf.node;
    bool is_process = w->context->kind == VOLUME_KIND_PROCESS;
    if (v->conn >= 0 && v->failed[0])
        return err_set(e, ERR_RETRY, "%s cannot be served on node %s: %s", title, node, v->failed);
    if (v->conn >= 0)
        return err_set(e, ERR_RETRY,
            "the client of %s on node %s is connected but does not serve yet; its log says why",
            title, node);
    if (is_process)
        return err_set(e, ERR_RETRY,
            "the client process of %s has not connected; its log is that of this plugin", title);
    return err_set(e, ERR_RETRY,
        "the client pod of %s has not connected on node %s yet: kubectl -n %s get pod -l %s=%s -o wide",
        title, node, w->context->ns, LABEL_DATASET, w->context->name);
}

/* Waits until ready() or until there is no point in waiting. */
static int wait_mount(struct handoff_mount *v, const struct handoff_want *w,
    bool (*ready)(const struct handoff_mount *), struct err *e)
{
    mutex_assert_held(&v->mu);
    for (;;) {
        if (ready(v))
            return 0;
        if (v->failed_stage)
            return missing(v, w, e);
        int64_t now = clock_mono_ns();
        if (now >= w->deadline_ns)
            return missing(v, w, e);
        if (w->cancelled && w->cancelled(w->arg)) {
            err_set(e, ERR_RETRY, "the request was cancelled");
            if (e)
                e->sys = ECANCELED;
            return -1;
        }
        int64_t until = MIN(now + WAIT_SLICE_NS, w->deadline_ns);
        clock_cond_wait(&v->changed, &v->mu, until);
    }
}

static bool has_client(const struct handoff_mount *v) { return v->hello; }

static bool usable(const struct handoff_mount *v)
{
    return v->staging && v->fuse_fd >= 0 && v->served;
}

static int stage_locked(struct handoff_mount *v, const struct handoff_want *w, struct err *e)
{
    mutex_assert_held(&v->mu);
    if (v->staging && strcmp(v->staging, w->staging) != 0) {
        err_set(e, ERR_CONFLICT, "this dataset is already mounted on this node, at %s", v->staging);
        e->sys = EBUSY;
        return -1;
    }
    /* this also waits until a restarted plugin has the fd back, or a lost mount has been made again
     */
    if (v->staging)
        return wait_mount(v, w, usable, e);
    /* A mount that nobody serves makes everyone hang who looks at it: first a client, then the
     * mount. */
    if (wait_mount(v, w, has_client, e) || handoff_make_mount(v, w->staging, w->read_only, e))
        return -1;
    if (wait_mount(v, w, usable, e) == 0)
        return 0;
    struct err why = ERR_INIT;
    v->ending = true;
    if (mount_end_fuse(w->staging, false, 0, &why))
        log_kv(LOG_ERROR, "a mount that failed cannot be taken away", "error", why.msg, NULL);
    forget_mount(v);
    return -1;
}

int handoff_stage(struct handoff_mount *v, const struct handoff_want *w, struct err *e)
{
    if (lock_mount(v, w->deadline_ns, e))
        return -1;
    v->failed_stage = false;
    int rc = stage_locked(v, w, e);
    pthread_mutex_unlock(&v->mu);
    return rc;
}

/* Is there a client that can write back what is dirty? Waits a moment for one that has just gone:
 * without one there is nobody to write anything back to. */
static bool can_flush(struct handoff_mount *v, int64_t deadline_ns)
{
    mutex_assert_held(&v->mu);
    int64_t until = MIN(v->attended_ns + HANDOFF_BACK_NS, deadline_ns);
    while (!v->read_only && v->served && !v->given_up && !v->serving
        && clock_cond_wait(&v->changed, &v->mu, until) == 0)
        continue;
    return !v->read_only && usable(v) && v->serving && !v->silent;
}

int handoff_unstage(struct handoff_mount *v, int64_t deadline_ns, struct err *e)
{
    if (lock_mount(v, deadline_ns, e))
        return -1;
    bool flush = v->staging && can_flush(v, deadline_ns - FLUSH_MARGIN_NS);
    if (!v->staging) {
        pthread_mutex_unlock(&v->mu);
        return 0;
    }
    v->ending = true;
    v->flushing = flush;
    handoff_wake(v);
    cleanup_free char *staging = xstrdup(v->staging);
    pthread_mutex_unlock(&v->mu);
    /* the client goes on serving meanwhile */
    int rc = mount_end_fuse(staging, flush, deadline_ns - FLUSH_MARGIN_NS, e);
    pthread_mutex_lock(&v->mu);
    if (rc == 0)
        forget_mount(v);
    v->ending = v->flushing = false;
    pthread_mutex_unlock(&v->mu);
    return rc;
}

int handoff_published(struct handoff_mount *v, bool published, int64_t deadline_ns, struct err *e)
{
    if (lock_mount(v, deadline_ns, e))
        return -1;
    v->published = published;
    handoff_wake(v);
    pthread_mutex_unlock(&v->mu);
    return 0;
}

bool handoff_survives(struct handoff_mount *v)
{
    pthread_mutex_lock(&v->mu);
    bool needs = v->staging && v->fuse_fd >= 0 && !v->ending;
    bool survives = !needs || (v->conn >= 0 && v->welcomed);
    pthread_mutex_unlock(&v->mu);
    return survives;
}

int handoff_state(
    struct handoff_mount *v, int64_t deadline_ns, struct handoff_state *out, struct err *e)
{
    *out = (struct handoff_state){0};
    if (lock_mount(v, deadline_ns, e))
        return -1;
    *out = (struct handoff_state){.mounted = v->staging != NULL,
        .connected = v->hello,
        .silent = v->silent,
        .usable = usable(v),
        .backing_files = backing_count(v->files),
        .pid = v->conn >= 0 ? v->pid : 0};
    memcpy(out->failed, v->failed, sizeof out->failed);
    memcpy(out->lost, v->lost.why, sizeof out->lost);
    pthread_mutex_unlock(&v->mu);
    return 0;
}
