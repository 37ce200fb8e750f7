/* SPDX-License-Identifier: Apache-2.0 */
/* check: a store, step by step. */
#include "fuse/cli/cli.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count_one(void *count, const struct store_entry *entry)
{
    (void)entry;
    ++*(unsigned *)count;
    return 0;
}

static int check_listing(struct store *s, unsigned *count, bool *more, struct err *e)
{
    char *cursor = NULL;
    int rc = store_list(s, "", &cursor, count_one, count, e);
    *more = cursor != NULL;
    free(cursor);
    return rc;
}

static int check_writing(struct store *s, struct err *e)
{
    cleanup_free char *name = xasprintf(
        ".millrace-check-%d-%" PRIx64, (int)getpid(), (uint64_t)clock_real_ns());
    cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct store_stat st;
    if (fd < 0)
        return err_sys(e, errno, "open /dev/null");
    return store_put(s, name, &(struct store_put){.fd = fd}, &st, e) || store_remove(s, name, e)
        ? -1
        : 0;
}

static void step(bool good, const char *what)
{
    printf("%s  %s\n", good ? "ok    " : "FAILED", what);
}

/* What `millrace mount` needs of this machine. */
static bool check_fuse(void)
{
    cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        char text[128];
        printf(
            "FAILED  /dev/fuse: %s: mounting needs it (modprobe fuse; in a container: --device /dev/fuse)\n",
            strerror_r(errno, text, sizeof text));
        return false;
    }
    if (geteuid() != 0 && access("/usr/bin/fusermount3", X_OK) != 0
        && access("/bin/fusermount3", X_OK) != 0) {
        puts(
            "FAILED  fusermount3 is missing: users other than root need it to mount (Debian: apt install fuse3)");
        return false;
    }
    step(true, "this machine can mount FUSE file systems");
    return true;
}

int verb_check(const struct verb *v, int argc, char **argv)
{
    bool write = false, fuse = true;
    const struct opt table[] = {
        {"write", OPT_BOOL, &write, NULL,
            "try to write, too: an empty object that is removed at once"},
        {"fuse", OPT_BOOL, &fuse, NULL, "check whether this machine can mount"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    cleanup_target struct target t = {0};
    unsigned entries = 0;
    bool more = false;
    log_init("millrace", LOG_ERROR); /* the steps say it */
    if (target_open(&t, &a, a.pos[0], true, !write, &e))
        return cli_failed(&e);
    step(true, "the URL and the options make sense");
    if (store_check(t.store, &e) || check_listing(t.store, &entries, &more, &e)) {
        step(false, "the store");
        printf("        reason: %s\n", store_reason(&e));
        return cli_failed(&e);
    }
    printf("ok      the store is there and can be read: %u%s entries at the top\n", entries,
        more ? " and more" : "");
    if (write && check_writing(t.store, &e)) {
        step(false, "writing");
        return cli_failed(&e);
    }
    if (write)
        step(true, "it can be written to");
    return !fuse || check_fuse() ? CLI_DONE : CLI_FAILED;
}
