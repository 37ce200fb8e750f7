/* SPDX-License-Identifier: Apache-2.0 */
/* mount. */
#include "fuse/cli/cli.h"
#include "fuse/cli/mounting.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static int check_directory(const char *dir, struct err *e)
{
    struct stat st;
    if (stat(dir, &st))
        return errno == ENOTCONN ? err_set(e, ERR_EXISTS,
                   "%s: a file system that is not served any more is mounted there; "
                   "millrace umount %s",
                   dir, dir)
                                 : err_sys(e, errno, "mount point %s", dir);
    return S_ISDIR(st.st_mode) ? 0
                               : err_set(e, ERR_INVALID, "mount point %s is not a directory", dir);
}

/* What would be taken for something else, or be said in words of a configuration. */
static int check_flags(const struct args *a, const struct mounting *w)
{
    if (w->conf.immutable == CONF_IMMUTABLE_TRUE && !w->conf.read_only)
        return cli_misuse(
            "--immutable needs --read-only: nothing is written to what does not change");
    if (args_given(a, "rule") > 1)
        return cli_misuse("--rule: write all of them in one: --rule /a=Through,/b=CacheThrough");
    if (args_given(a, "metadata-sync") && w->conf.metadata_sync_ns < NS_PER_S)
        return cli_misuse("--metadata-sync: it is 1s at least");
    if (w->conf.keep_free < 0 || w->conf.keep_free > CONF_KEEP_FREE_MAX)
        return cli_misuse("--keep-free: it is a percentage from 0 to %d", CONF_KEEP_FREE_MAX);
    return CLI_DONE;
}

int verb_mount(const struct verb *v, int argc, char **argv)
{
    struct mounting w = {
        .conf = {.memory = 256 << 20, .disk = INT64_C(10) << 30, .keep_free = CONF_KEEP_FREE},
        .log_level = "info",
        .check = true};
    bool immutable = false;
    const char *unused = NULL; /* args_parse() takes every --also out */
    const struct opt table[] = {
        {"also", OPT_STRING, &unused, "URL=/PATH",
            "another store, as a directory of the mount; may be given more than once"},
        {"read-only", OPT_BOOL, &w.conf.read_only, NULL, "refuse changes"},
        {"cache-dir", OPT_STRING, &w.cache_dir, "DIR",
            "where copies of files are kept; default: of the mount point, in the user's cache"},
        {"cache-size", OPT_BYTES, &w.conf.disk, "SIZE", "how much disk the cache may use"},
        {"keep-free", OPT_INT, &w.conf.keep_free, "PERCENT",
            "how much of that disk the cache leaves to others"},
        {"memory-size", OPT_BYTES, &w.conf.memory, "SIZE",
            "how much memory the cache may use beside it"},
        {"write-type", OPT_STRING, &w.conf.write_type, "Through|CacheThrough|AsyncThrough",
            "when close returns, and whether what was written stays in the cache: AsyncThrough does not wait for the store"},
        {"rule", OPT_STRING, &w.conf.rules, "PATH=TYPE,...",
            "the same for what is below a path; the longest path counts"},
        {"immutable", OPT_BOOL, &immutable, NULL,
            "nobody changes the store while it is mounted: nothing is asked twice (needs --read-only); --immutable=false: it may change; without either, a look at its files decides"},
        {"metadata-sync", OPT_SECONDS, &w.conf.metadata_sync_ns, "DURATION",
            "how old the known names, sizes and times of files may be"},
        {"http", OPT_STRING, &w.http, "ADDRESS",
            "serve health and status here, for example 127.0.0.1:9400"},
        {"metrics", OPT_STRING, &w.metrics, "ADDRESS",
            "serve metrics here, for example 127.0.0.1:9402"},
        {"allow-other", OPT_BOOL, &w.allow_other, NULL, "let other users read what is mounted"},
        {"check", OPT_BOOL, &w.check, NULL, "try the store before mounting it"},
        {"foreground", OPT_BOOL, &w.foreground, NULL, "stay in the foreground"},
        {"log-level", OPT_STRING, &w.log_level, "debug|info|warn|error", "what the client logs"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    w.conf.url = a.pos[0];
    w.dir = a.pos[1];
    if (args_given(&a, "immutable"))
        w.conf.immutable = immutable ? CONF_IMMUTABLE_TRUE : CONF_IMMUTABLE_FALSE;
    if ((rc = check_flags(&a, &w)))
        return rc;
    if (check_directory(a.pos[1], &e) || mounting_exec(&a, &w, &e))
        return cli_failed(&e);
    return CLI_DONE;
}
