/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/volume.h"

#include "csi/volume_json.h"
#include "csi/volume_record.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES ((size_t)4 << 20)
#define SUFFIX         ".json"

struct volumes {
    char *dir;
    pthread_mutex_t mu;     /* a leaf */
    pthread_cond_t changed; /* a volume has been released */
    struct map *by_id;      /* mu: id → struct volume */
};

static char *file_of(const struct volumes *vs, const char *id)
{
    return xasprintf("%s/%s%s", vs->dir, id, SUFFIX);
}

static void load_one(struct volumes *vs, const char *file)
{
    cleanup_free char *path = path_join(vs->dir, file);
    struct err e = ERR_INIT;
    size_t len = 0;
    cleanup_free char *text = file_read(path, FILE_MAX_BYTES, &len, &e);
    struct volume *v = text ? volume_from_json(text, len, &e) : NULL;
    if (v) {
        map_put(vs->by_id, v->id, v);
        return;
    }
    cleanup_free char *aside = xasprintf("%s.broken", path);
    log_kv(LOG_ERROR, "the record of a volume makes no sense: moved aside", "file", path, "error",
        e.msg, NULL);
    rename(path, aside);
}

struct volumes *volumes_open(const char *dir, struct err *e)
{
    if (file_mkdirs(dir, 0700, e))
        return NULL;
    DIR *d = opendir(dir);
    if (!d) {
        err_sys(e, errno, "read %s", dir);
        return NULL;
    }
    struct volumes *vs = xcalloc(1, sizeof *vs);
    vs->dir = xstrdup(dir);
    vs->by_id = map_new(volume_free);
    pthread_mutex_init(&vs->mu, NULL);
    clock_cond_init(&vs->changed);
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t len = strlen(entry->d_name), tail = strlen(SUFFIX);
        if (len > tail && strcmp(entry->d_name + len - tail, SUFFIX) == 0)
            load_one(vs, entry->d_name);
        else if (strstr(entry->d_name, SUFFIX ".") && !strstr(entry->d_name, ".broken"))
            unlinkat(dirfd(d), entry->d_name, 0); /* it was being written when we were killed */
    }
    closedir(d);
    return vs;
}

void volumes_free(struct volumes *vs)
{
    if (!vs)
        return;
    map_free(vs->by_id);
    pthread_mutex_destroy(&vs->mu);
    pthread_cond_destroy(&vs->changed);
    free(vs->dir);
    free(vs);
}

struct volume *volume_hold(
    struct volumes *vs, const char *id, bool create, int64_t deadline_ns, struct err *e)
{
    struct volume *v;
    pthread_mutex_lock(&vs->mu);
    /* looked up again after each wait: it may have been forgotten */
    while ((v = map_get(vs->by_id, id)) && v->busy)
        if (clock_cond_wait(&vs->changed, &vs->mu, deadline_ns) == ETIMEDOUT) {
            pthread_mutex_unlock(&vs->mu);
            err_set(e, ERR_CONFLICT, "another operation on volume %s is under way", id);
            return NULL;
        }
    if (!v && create) {
        v = xcalloc(1, sizeof *v);
        v->id = xstrdup(id);
        map_put(vs->by_id, id, v);
    }
    if (v)
        v->busy = true;
    pthread_mutex_unlock(&vs->mu);
    if (!v)
        err_set(e, ERR_NOTFOUND, "volume %s is not known on this node", id);
    return v;
}

void volume_release(struct volumes *vs, struct volume *v)
{
    bool empty = !v->staging && !v->ntargets && !v->created;
    if (empty) { /* before anybody else can get hold of it */
        cleanup_free char *path = file_of(vs, v->id);
        if (unlink(path) && errno != ENOENT)
            log_kv(LOG_WARN, "the record of a volume cannot be removed", "file", path, "error",
                strerror(errno), NULL);
    }
    pthread_mutex_lock(&vs->mu);
    v->busy = false;
    if (empty)
        map_del(vs->by_id, v->id);
    pthread_cond_broadcast(&vs->changed);
    pthread_mutex_unlock(&vs->mu);
}

int volume_save(struct volumes *vs, const struct volume *v, struct err *e)
{
    cleanup_free char *path = file_of(vs, v->id), *text = volume_to_json(v);
    if (file_write_atomic(path, text, strlen(text), 0600, e))
        return err_wrap(e, "note volume %s", v->id);
    return 0;
}

void volumes_each(struct volumes *vs, void (*fn)(struct volume *v, void *arg), void *arg)
{
    const char *id;
    void *v;
    for (size_t i = 0; map_next(vs->by_id, &i, &id, &v);)
        fn(v, arg);
}

size_t volumes_count(struct volumes *vs)
{
    pthread_mutex_lock(&vs->mu);
    size_t n = map_len(vs->by_id);
    pthread_mutex_unlock(&vs->mu);
    return n;
}
