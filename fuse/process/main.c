/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-fuse — serves a dataset as a file system. */
#include "fuse/process/supervise.h"
#include "fuse/session/requests.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "lib/http/metric.h"
#include "lib/http/scrape.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct program program = {
    .name = "millrace-fuse",
    .component = "millrace-fuse",
    .usage =
        "millrace-fuse --socket PATH --cache-dir DIR [flags]\n       millrace-fuse --mountpoint DIR [flags]",
    .about =
        "Serves a dataset as a file system: to the owner of the mount, who listens on a socket, or at a mountpoint.\n"
        "Its configuration is JSON in the environment variable " ENV_CONFIG " or a file.",
};

/* Where a mount without --cache-dir keeps its things: one directory for each mountpoint, where
 * nobody else can have made it before. NULL: there is no such place. */
static char *default_cache_dir(const char *mountpoint)
{
    cleanup_free char *real = realpath(mountpoint, NULL);
    const char *where = real ? real : mountpoint, *base = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    cleanup_free char *fallback = geteuid() == 0 ? xstrdup("/var/cache")
        : home && *home == '/'                   ? xasprintf("%s/.cache", home)
                                                 : NULL;
    if (geteuid() == 0 || !base || *base != '/')
        base = fallback;
    return base ? xasprintf(
               "%s/millrace/mounts/%016llx", base, (unsigned long long)hash64(where, strlen(where)))
                : NULL;
}

int main(int argc, char **argv)
{
    struct client_options o = {.uid = -1,
        .gid = -1,
        .hung_ns = HEARTBEAT_HUNG_S * NS_PER_S,
        .stuck_ns = REQUESTS_STUCK_S * NS_PER_S};
    bool foreground = false, daemonize = false, list_metrics = false;
    const char *log_format = NULL;
    const struct opt table[] = {
        {"socket", OPT_STRING, &o.socket, "PATH",
            "serve the mount of the node plugin that listens here"},
        {"mountpoint", OPT_STRING, &o.mountpoint, "DIR",
            "mount here, and serve it until it is unmounted"},
        {"cache-dir", OPT_STRING, &o.cache_dir, "DIR",
            "directory of the cache, the index and staged files"},
        {"secrets-dir", OPT_STRING, &o.secrets_dir, "DIR",
            "directory of the secrets that the configuration names"},
        {"cache-key-file", OPT_STRING, &o.key_file, "FILE",
            "the dataset's key, for cache workers that ask for it; 64 hexadecimal characters"},
        {"config", OPT_STRING, &o.config, "FILE",
            "configuration, instead of the environment variable"},
        {"http", OPT_STRING, &o.http, "ADDRESS", "serve health and status there; empty: nowhere"},
        {"metrics", OPT_STRING, &o.metrics, "ADDRESS", SCRAPE_HELP},
        {"list-metrics", OPT_BOOL, &list_metrics, NULL, SCRAPE_LIST_HELP},
        {"metadata-sync", OPT_SECONDS, &o.sync_ns, "DURATION",
            "how old what is known of files may be"},
        {"store-deadline", OPT_SECONDS, &o.deadline_ns, "DURATION",
            "how long a store is tried before a request fails; 0s: 30 s"},
        {"hung-after", OPT_SECONDS, &o.hung_ns, "DURATION",
            "replace a serving process that has not answered for so long; 0s: never, for debuggers"},
        {"stuck-after", OPT_SECONDS, &o.stuck_ns, "DURATION",
            "answer a request that does not end with an I/O error after it; 0s: never"},
        {"uid", OPT_INT, &o.uid, "N", "owner of files that come from the store"},
        {"gid", OPT_INT, &o.gid, "N", "group of files that come from the store"},
        {"allow-other", OPT_BOOL, &o.allow_other, NULL, "other users may read the mount"},
        {"foreground", OPT_BOOL, &foreground, NULL, "stay in the foreground (the default)"},
        {"daemonize", OPT_BOOL, &daemonize, NULL,
            "go to the background once the mount is served; the log is in the cache directory then"},
        {"log-format", OPT_STRING, &log_format, "FORMAT", "json or text"},
    };
    int rc = program_flags(&program, table, ARRAY_LEN(table), argc, argv, NULL);
    if (rc >= 0)
        return rc;
    if (list_metrics)
        return metric_list();
    if (!o.socket == !o.mountpoint)
        return program_misuse(&program, "needs --socket PATH or --mountpoint DIR; see --help");
    if (foreground && daemonize)
        return program_misuse(&program, "--foreground and --daemonize exclude each other");
    if (log_format && strcmp(log_format, "text") == 0)
        log_plain();
    else if (log_format && strcmp(log_format, "json") != 0)
        return program_misuse(&program, "--log-format is json or text");

    cleanup_free char *dir = NULL;
    if (!o.cache_dir && o.socket)
        return program_misuse(&program, "--socket needs --cache-dir");
    if (!o.cache_dir)
        o.cache_dir = dir = default_cache_dir(o.mountpoint);
    if (!o.cache_dir)
        return program_misuse(&program,
            "there is no home directory to keep the cache in: name a directory with --cache-dir");
    cleanup_free char *log_file = daemonize ? path_join(o.cache_dir, "log") : NULL;
    o.log_file = log_file;
    /* In our pods health and metrics are asked for over the network; elsewhere only where the flags
     * say so. */
    bool in_pod = o.socket && strncmp(o.socket, POD_RUN_DIR "/", strlen(POD_RUN_DIR "/")) == 0;
    if (!o.http && !in_pod)
        o.http = "";
    if (!o.metrics && !in_pod)
        o.metrics = "";
    if (!o.secrets_dir && in_pod)
        o.secrets_dir = POD_SECRETS_DIR;
    program_limits();
    return supervise_run(&o, daemonize);
}
