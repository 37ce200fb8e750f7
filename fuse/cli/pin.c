/* SPDX-License-Identifier: Apache-2.0 */
/* load, pin, unpin and free: what the cache of this node has of files of a mount. */
#include "fuse/cli/cli.h"
#include "fuse/cli/pin_run.h"
#include "fuse/cli/shown.h"

#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What is on no mount is named itself, not the first file that is found below it. */
static int require_mounts(const struct args *a)
{
    for (int i = 0; i < a->npos; i++) {
        struct err e = ERR_INIT;
        cleanup_free char *point = NULL;
        if (mount_point_of(a->pos[i], &point, &e) && e.cls == ERR_INVALID)
            return cli_failed(&e);
    }
    return CLI_DONE;
}

static int pin_start(const struct args *a, struct pin_run *r)
{
    for (int i = 0; i < a->npos; i++)
        if (is_url(a->pos[i]))
            return cli_misuse(
                "%s: give the path of a file or directory in a mount, not a URL", a->pos[i]);
    if (require_mounts(a)) {
        r->failed++;
        return CLI_FAILED;
    }
    r->progress = isatty(STDERR_FILENO) && (r->op == PIN_LOAD || r->op == PIN_SET);
    return pin_run_paths(r, a->pos, a->npos);
}

static void print_sum(const char *what, const struct pin_run *r, bool json)
{
    char bytes[HUMAN_BYTES_LEN];
    if (json) {
        shown_object(json_pack("{s:I, s:I, s:I, s:I}", "files", (json_int_t)r->files, "bytes",
            (json_int_t)r->bytes, "left", (json_int_t)r->left, "failed", (json_int_t)r->failed));
        return;
    }
    printf("%s %" PRIu64 " files, %s\n", what, r->files, human_bytes(r->bytes, bytes));
}

int verb_load(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct pin_run r = {.op = PIN_LOAD}, now = {.op = PIN_ASK};
    if ((rc = pin_start(&a, &r)) == CLI_MISUSE)
        return rc;
    if (!json)
        print_sum("loaded", &r, false);
    fflush(stdout);
    bool asked = rc == CLI_DONE && (rc = pin_start(&a, &now)) == CLI_DONE;
    r.left = now.left;
    if (json)
        print_sum("loaded", &r, true);
    if (asked && now.left) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_EXHAUSTED,
            "%" PRIu64
            " of these files are not in the cache any more: it has no room for all of them at once; pin them, or "
            "raise its quota",
            now.left);
        rc = cli_failed(&e);
    }
    return rc;
}

int verb_pin(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct pin_run r = {.op = PIN_SET};
    if ((rc = pin_start(&a, &r)) != CLI_MISUSE)
        print_sum("pinned", &r, json);
    return rc;
}

/* Adds to *files how many were pinned. */
static int unpin_mount(const char *path, uint64_t *files)
{
    struct err e = ERR_INIT;
    struct pin_msg m = {.op = PIN_CLEAR_ALL};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        err_sys(&e, errno, "%s", path);
    else if (ioctl(fd, PIN_IOCTL, &m) == 0)
        return *files += m.size, CLI_DONE;
    else if (errno == ENOTTY)
        err_set(&e, ERR_INVALID, PIN_NO_MOUNT, path);
    else
        err_sys(&e, errno, "%s", path);
    return cli_failed(&e);
}

int verb_unpin(const struct verb *v, int argc, char **argv)
{
    bool all = false, json = false;
    const struct opt table[] = {
        {"all", OPT_BOOL, &all, NULL,
            "all pinned files of the mount that PATH is on, also those that are gone from the store"},
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct pin_run r = {.op = PIN_CLEAR};
    for (int i = 0; i < a.npos && all; i++)
        if (unpin_mount(a.pos[i], &r.files))
            return CLI_FAILED;
    if (!all && (rc = pin_start(&a, &r)) == CLI_MISUSE)
        return rc;
    if (json)
        print_sum("unpinned", &r, true);
    else
        printf("unpinned %" PRIu64 " files\n", r.files);
    return all ? CLI_DONE : rc;
}

int verb_free(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct pin_run r = {.op = PIN_FREE};
    if ((rc = pin_start(&a, &r)) == CLI_MISUSE)
        return rc;
    print_sum("freed", &r, json);
    if (r.left && !json)
        printf("%" PRIu64 " pinned files were left: %s unpin lets them go\n", r.left, cli_name());
    return rc;
}
