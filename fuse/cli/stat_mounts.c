/* SPDX-License-Identifier: Apache-2.0 */
/* stat without an argument: every mount of this machine, a line each. One whose client does not
 * answer holds up nobody for long. */
#include "fuse/cli/shown.h"
#include "fuse/cli/stat.h"

#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ANSWER_NS (5 * NS_PER_S)

/* Asks on a thread of its own, which may never come back: whoever is last frees it. */
struct mount_ask {
    char *point;
    pthread_mutex_t mu;
    pthread_cond_t answered;
    bool done, given_up; /* mu */
    int errnum;          /* mu; why there is no status */
    char *status;        /* mu; owned */
};

static void mount_ask_free(struct mount_ask *a)
{
    pthread_mutex_destroy(&a->mu);
    pthread_cond_destroy(&a->answered);
    free(a->point);
    free(a->status);
    free(a);
}

static void *mount_ask_thread(void *arg)
{
    struct mount_ask *a = arg;
    struct stat st;
    int errnum = stat(a->point, &st) ? errno : 0;
    char *status = errnum ? NULL : read_xattr(a->point, XATTR_STATUS);
    pthread_mutex_lock(&a->mu);
    a->errnum = errnum;
    a->status = status;
    a->done = true;
    bool given_up = a->given_up;
    pthread_cond_signal(&a->answered);
    pthread_mutex_unlock(&a->mu);
    if (given_up)
        mount_ask_free(a);
    return NULL;
}

/* 0, or the errno: ENOTCONN nobody serves it, ETIMEDOUT no answer, ENODATA no status. */
static int mount_ask(const char *point, char **status)
{
    struct mount_ask *a = xcalloc(1, sizeof *a);
    pthread_t thread;
    *status = NULL;
    a->point = xstrdup(point);
    pthread_mutex_init(&a->mu, NULL);
    clock_cond_init(&a->answered);
    int rc = pthread_create(&thread, NULL, mount_ask_thread, a);
    if (rc) {
        mount_ask_free(a);
        return rc;
    }
    pthread_detach(thread);
    int64_t until = clock_mono_ns() + ANSWER_NS;
    pthread_mutex_lock(&a->mu);
    while (!a->done && clock_cond_wait(&a->answered, &a->mu, until) == 0) {
    }
    bool done = a->done;
    a->given_up = !done;
    rc = done ? a->errnum : ETIMEDOUT;
    if (done)
        *status = steal(&a->status);
    pthread_mutex_unlock(&a->mu);
    if (done)
        mount_ask_free(a);
    return rc || *status ? rc : ENODATA;
}

static const char *mount_state(int errnum, const json_t *j)
{
    return errnum == ENOTCONN               ? "nobody serves it: millrace umount"
        : errnum == ETIMEDOUT               ? "does not answer"
        : errnum == ENODATA                 ? "tells no status to you: try as who mounted it"
        : errnum                            ? strerrordesc_np(errnum)
        : jget_bool(j, REPORT_READY, false) ? "ready"
                                            : jget_str(j, REPORT_MESSAGE, "not ready");
}

static void print_mount(const char *point, int errnum, const json_t *j)
{
    char used[HUMAN_BYTES_LEN], most[HUMAN_BYTES_LEN];
    cli_put_name(point);
    printf("  ");
    for (size_t i = 0; i < jget_len(j, REPORT_MOUNTS); i++) {
        const json_t *m = json_array_get(jget_arr(j, REPORT_MOUNTS), i);
        const char *path = jget_str(m, REPORT_MOUNT_PATH, "/");
        printf("%s%s%s%s  ", jget_str(m, REPORT_MOUNT_POINT, "?"), strcmp(path, "/") ? " at " : "",
            strcmp(path, "/") ? path : "", jget_bool(m, REPORT_READY, false) ? "" : " (not ready)");
    }
    cleanup_free char *state = cli_words(mount_state(errnum, j));
    cli_put(stdout, state);
    if (j)
        printf("  cache %s of %s", human_bytes((uint64_t)jget_int(j, REPORT_CACHE_USED, 0), used),
            human_bytes((uint64_t)jget_int(j, REPORT_CACHE_CAPACITY, 0), most));
    if (jget_int(j, REPORT_WRITES_PENDING, 0))
        printf("  %" PRId64 " files not yet in the store", jget_int(j, REPORT_WRITES_PENDING, 0));
    puts("");
}

static json_t *mount_json(const char *point, int errnum, const json_t *j)
{
    return json_pack("{s:o, s:b, s:s, s:O?}", "mount", shown_text(point), "ready",
        !errnum && jget_bool(j, REPORT_READY, false), "state", mount_state(errnum, j), "status", j);
}

/* Is another mounted on top of it, or at the same place? Then it cannot be reached there. */
static bool is_shadowed(const struct mountinfo *all, size_t at)
{
    for (size_t i = at + 1; i < all->n; i++)
        if (strcmp(all->entries[i].point, all->entries[at].point) == 0)
            return true;
    return false;
}

int stat_mounts(bool json, struct err *e)
{
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    struct shown out;
    size_t n = 0;
    if (mountinfo_read(&all, e))
        return -1;
    shown_begin(&out, json, "mounts");
    for (size_t i = 0; i < all.n; i++) {
        struct err none = ERR_INIT;
        const char *point = all.entries[i].point;
        if (strcmp(all.entries[i].type, CLI_MOUNT_TYPE) != 0 || is_shadowed(&all, i))
            continue;
        cleanup_free char *text = NULL;
        int errnum = mount_ask(point, &text);
        cleanup_json json_t *j = text ? json_parse(text, strlen(text), &none) : NULL;
        n++;
        if (json)
            shown_add(&out, mount_json(point, errnum, j));
        else
            print_mount(point, errnum, j);
    }
    shown_end(&out);
    if (!n && !json)
        puts("nothing of millrace is mounted on this machine");
    return 0;
}
