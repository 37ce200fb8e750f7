/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the files and bytes in the stores of a dataset, again and again. */
#include "fuse/worker/server.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"

#include <stdlib.h>

#define PAGE_PAUSE_NS (20 * NS_PER_MS) /* listing must not keep a store busy */
#define AGAIN_MIN_NS  (60 * NS_PER_S)
#define AGAIN_FACTOR  20 /* at most a twentieth of the time goes into counting */
#define RETRY_NS      (5 * NS_PER_S)

struct lister {
    struct task task;
    struct server *s;
    uint64_t bytes, files;
};
static struct lister lister; /* one a process */

static int count_entry(void *user, const struct store_entry *entry)
{
    struct lister *l = user;
    if (!entry->st.is_dir && !entry->st.is_link) {
        l->bytes += entry->st.size;
        l->files++;
    }
    return atomic_load(&l->task.stop) ? 1 : 0;
}

/* false: it shall end */
static bool inventory_pause(struct lister *l, int64_t ns)
{
    return !task_wait(&l->task, clock_mono_ns() + ns);
}

/* The first count is shown as it grows; later ones replace the last complete one when they are
 * complete. */
static void inventory_publish(struct lister *l, bool complete)
{
    struct server *s = l->s;
    pthread_mutex_lock(&s->mu);
    if (complete || !s->inventory.complete) {
        s->inventory.bytes = l->bytes;
        s->inventory.files = l->files;
        s->inventory.complete = complete;
    }
    pthread_mutex_unlock(&s->mu);
}

static bool list_mount(struct lister *l, size_t mount)
{
    char *cursor = NULL;
    uint64_t bytes = l->bytes, files = l->files;
    for (;;) {
        struct store *st = server_store(l->s, mount);
        struct err e = ERR_INIT;
        if (!st || store_list_tree(st, "", &cursor, count_entry, l, &e)) {
            if (st)
                log_debug("counting files: %s", e.msg);
            free(cursor); /* from the beginning: a page may have been counted in part */
            cursor = NULL;
            l->bytes = bytes;
            l->files = files;
            if (!inventory_pause(l, RETRY_NS))
                return false;
            continue;
        }
        inventory_publish(l, false);
        if (!cursor)
            return true;
        if (!inventory_pause(l, PAGE_PAUSE_NS)) {
            free(cursor);
            return false;
        }
    }
}

static void inventory_thread(void *arg)
{
    struct lister *l = arg;
    for (;;) {
        int64_t begin = clock_mono_ns();
        l->bytes = l->files = 0;
        for (size_t i = 0; i < l->s->conf->nmounts; i++)
            if (!list_mount(l, i))
                return;
        inventory_publish(l, true);
        if (!inventory_pause(l, MAX(AGAIN_MIN_NS, (clock_mono_ns() - begin) * AGAIN_FACTOR)))
            return;
    }
}

void inventory_start(struct server *s)
{
    if (!s->conf)
        return;
    struct err e = ERR_INIT;
    lister = (struct lister){.s = s};
    s->has_inventory = true;
    if (task_start(&lister.task, "inventory", inventory_thread, &lister, &e))
        log_kv(LOG_WARN, "the files of the dataset are not counted", "error", e.msg, NULL);
}

void inventory_stop(void) { task_stop(&lister.task); }
