/* SPDX-License-Identifier: Apache-2.0 */
/* persist: waits until the store has what was written. */
#include "fuse/cli/cached.h"
#include "fuse/cli/place.h"
#include "fuse/cli/progress.h"
#include "fuse/cli/shown.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_NS NS_PER_S

struct persist {
    struct cli_place *at;
    struct cached_ask ask;
    struct progress *progress;
    int64_t until_ns;
    uint64_t waited; /* files that the store did not have */
    bool said;       /* why it waits */
};

/* Asks the client to save it; the error is the store's. */
static int save_file(const char *path, struct err *e)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fsync(fd) == 0)
        return 0;
    int errnum = errno;
    cleanup_free char *why = read_xattr(path, XATTR_ERROR);
    const char *words = why ? strchr(why, ' ') : NULL;
    return words ? err_set(e, ERR_RETRY, "%s:%s", path, words) : err_sys(e, errnum, "%s", path);
}

/* A client that does not answer has said nothing of the store. named: by the user; else what is
 * gone since it was found has no need to be there. */
static void persist_unknown(struct persist *p, const char *path, int errnum, bool named)
{
    struct err e = ERR_INIT;
    if (!named && (errnum == ENOENT || errnum == ESTALE))
        return;
    local_failed(path, errnum, &e);
    progress_failed(p->progress, &e);
}

static void persist_file(
    struct persist *p, const struct place_entry *entry, const char *path, bool named)
{
    struct cached c;
    struct err e = ERR_INIT;
    cached_ask(&p->ask, path, &c);
    p->waited += c.known && !c.persisted;
    while (c.known && !c.persisted) {
        err_clear(&e);
        int rc = save_file(path, &e);
        cached_ask(&p->ask, path, &c);
        if (!c.known || c.persisted)
            break;
        if (rc == 0)
            err_set(&e, ERR_RETRY, "%s: it is being written still", path);
        if (clock_mono_ns() >= p->until_ns) {
            err_wrap(&e, "given up (--timeout)");
            progress_failed(p->progress, &e);
            return;
        }
        if (!p->said) {
            progress_hide(p->progress);
            fputs("waiting: ", stderr);
            cli_put(stderr, e.msg);
            fputs("\n", stderr);
        }
        p->said = true;
        clock_sleep_ns(AGAIN_NS);
    }
    if (!c.known) {
        persist_unknown(p, path, c.errnum, named);
        return;
    }
    progress_add(p->progress, 1, entry->st.size);
}

static int persist_found(void *user, const struct place_entry *entry)
{
    struct persist *p = user;
    if (entry->st.is_dir || entry->other)
        return 0;
    cleanup_free char *path = path_join(p->at->said, entry->name);
    persist_file(p, entry, path, false);
    return 0;
}

static void persist_unreadable(void *user, const struct err *e)
{
    struct persist *p = user;
    progress_failed(p->progress, e);
}

static int persist_place(struct persist *p, struct cli_place *at, struct err *e)
{
    struct place_entry entry;
    p->at = at;
    if (place_stat(at, &entry, e))
        return -1;
    if (at->url)
        return err_set(e, ERR_INVALID,
            "%s: give the path of a file or directory on a mount: what a URL shows, the store has",
            at->said);
    if (!at->point)
        return err_set(e, ERR_INVALID, "%s is not on a mount of millrace", at->said);
    if (entry.st.is_dir)
        return place_walk(at, persist_found, persist_unreadable, p, e);
    persist_file(p, &entry, at->said, true);
    return 0;
}

int verb_persist(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    int64_t timeout_ns = 0;
    const struct opt table[] = {
        {"timeout", OPT_SECONDS, &timeout_ns, "DURATION", "wait no longer; else for ever"},
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct progress progress;
    struct persist p = {.ask = CACHED_ASK_INIT,
        .progress = &progress,
        .until_ns = args_given(&a, "timeout") ? clock_mono_ns() + timeout_ns : INT64_MAX};
    progress_start(&progress, "persisted");
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        cleanup_place struct cli_place at = {0};
        if (place_open(&at, &a, a.pos[i], true, &e) || persist_place(&p, &at, &e))
            progress_failed(&progress, &e);
    }
    cached_ask_end(&p.ask);
    uint64_t failed = progress_end(&progress);
    if (json)
        shown_object(json_pack("{s:I, s:I, s:I}", "files", (json_int_t)progress.files, "saved",
            (json_int_t)p.waited, "failed", (json_int_t)failed));
    else if (progress.files)
        printf("%" PRIu64 " files are in the store, %" PRIu64 " of them since now\n",
            progress.files, p.waited - MIN(failed, p.waited));
    return failed ? CLI_FAILED : CLI_DONE;
}
