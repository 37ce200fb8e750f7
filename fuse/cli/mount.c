/* SPDX-License-Identifier: Apache-2.0 */
/* mount and umount. */
#include "fuse/cli/cli.h"

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define CLIENT           "millrace-fuse"
#define SAVE_MAX_NS      (600 * NS_PER_S) /* umount waits no longer */
#define ALSO_DEADLINE_NS (10 * NS_PER_S)  /* of the look at one store of several */

struct mount_flags {
    struct conf_request conf;
    const char *cache_dir, *http, *metrics, *log_level;
    bool foreground, allow_other, check;
};

/* The client lies beside this program, or is found on the PATH. */
static void exec_client(char **argv)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        cleanup_free char *path = xasprintf("%.*s/" CLIENT, (int)(slash - self), self);
        execv(path, argv);
    }
    execvp(CLIENT, argv);
}

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

/* Reports on the terminal all that can be known before, instead of in the log of a process in the
 * background. One of several stores that does not answer is no reason to do without the others. */
static int mount_check_stores(
    const struct args *a, const struct mount_flags *w, const struct conf *conf, struct err *e)
{
    size_t silent = 0;
    for (size_t i = 0; i < conf->nmounts; i++) {
        const struct conf_mount *m = &conf->mounts[i];
        const struct store_conf sc = {.mount = m,
            .secrets_dir = conf_mount_has_secrets(conf, i) ? a->secrets_dir : NULL,
            .deadline_ns = conf->nmounts > 1 ? ALSO_DEADLINE_NS : 0};
        struct store *s = store_new(&sc, e);
        bool known = s != NULL;
        int rc = !s ? -1 : w->check ? store_check(s, e) : 0;
        store_free(s);
        if (rc && (!known || e->cls != ERR_RETRY || ++silent == conf->nmounts))
            return -1;
        if (rc) {
            cli_failed(e);
            fprintf(stderr,
                "millrace: %s is mounted all the same, and can be read once it answers\n", m->path);
            *e = (struct err)ERR_INIT;
        }
    }
    return 0;
}

static int run_client(const struct args *a, const struct mount_flags *w, struct err *e)
{
    cleanup_free char *root = NULL, *path = NULL, *text = NULL;
    if (url_split(w->conf.url, true, &root, &path, e) || !(text = conf_text(a, &w->conf, e)))
        return -1;
    cleanup_conf struct conf *conf = conf_parse(text, strlen(text), e);
    if (!conf || mount_check_stores(a, w, conf, e))
        return -1;
    const char *argv[24] = {
        CLIENT, "--mountpoint", a->pos[1], "--log-format", "text", "--log-level", w->log_level};
    size_t n = 7;
    argv[n++] = w->foreground ? "--foreground" : "--daemonize";
    if (w->allow_other)
        argv[n++] = "--allow-other";
    if (w->cache_dir) {
        argv[n++] = "--cache-dir";
        argv[n++] = w->cache_dir;
    }
    if (w->http) {
        argv[n++] = "--http";
        argv[n++] = w->http;
    }
    if (w->metrics) {
        argv[n++] = "--metrics";
        argv[n++] = w->metrics;
    }
    if (a->secrets_dir) {
        argv[n++] = "--secrets-dir";
        argv[n++] = a->secrets_dir;
    }
    if (setenv(ENV_CONFIG, text, 1))
        return err_sys(e, errno, "set " ENV_CONFIG);
    exec_client((char **)argv);
    return err_sys(e, errno, "start " CLIENT " (it belongs beside this program, or on the PATH)");
}

/* What would be taken for something else, or be said in words of a configuration. */
static int check_flags(const struct args *a, const struct mount_flags *w)
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
    struct mount_flags w = {
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
        {"write-type", OPT_STRING, &w.conf.write_type, "Through|CacheThrough",
            "whether files are kept in the cache when they are written"},
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
    if (args_given(&a, "immutable"))
        w.conf.immutable = immutable ? CONF_IMMUTABLE_TRUE : CONF_IMMUTABLE_FALSE;
    if ((rc = check_flags(&a, &w)))
        return rc;
    if (check_directory(a.pos[1], &e) || run_client(&a, &w, &e))
        return cli_failed(&e);
    return CLI_DONE;
}

/* -- umount ---------------------------------------------------------------------------------- */

/* Users other than root may not call umount(2): libfuse has a helper for them. */
static int fusermount(const char *dir, bool lazy, struct err *e)
{
    char *argv[] = {(char *)"fusermount3", (char *)"-u", (char *)(lazy ? "-z" : "-q"), (char *)"--",
        (char *)dir, NULL};
    pid_t pid;
    int status = 0, rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (rc)
        return err_sys(e, rc, "start fusermount3 (Debian: apt install fuse3)");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(e, ERR_CONFLICT,
        "%s cannot be unmounted: it is in use (see fuser -vm %s), or it is not yours", dir, dir);
}

static int unmount(const char *point, const char *dir, bool lazy, struct err *e)
{
    if (geteuid() != 0)
        return fusermount(point, lazy, e);
    if (umount2(point, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
        return 0;
    if (errno == EBUSY)
        return err_set(e, ERR_CONFLICT,
            "%s is in use: close what uses it (see fuser -vm %s), or --lazy", dir, dir);
    return err_sys(e, errno, "unmount %s", dir);
}

/* Where what is mounted at dir is in the mount table: also if nobody serves it any more, so that
 * dir itself cannot be looked at. Caller frees. */
static char *absolute_point(const char *dir, struct err *e)
{
    char *real = realpath(dir, NULL);
    if (real || errno == ENOENT || errno == ENOTDIR) {
        if (!real)
            err_sys(e, errno, "%s", dir);
        return real;
    }
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    cleanup_free char *copy = xstrndup(dir, n);
    char *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
    if (slash)
        *slash = '\0';
    cleanup_free char *parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
    if (!parent)
        err_sys(e, errno, "%s", dir);
    return parent ? path_join(parent, name) : NULL;
}

/* The point of a mount of ours; caller frees. NULL: there is none, or it is another's. */
static char *mount_of_ours(const char *dir, struct err *e)
{
    cleanup_free char *point = absolute_point(dir, e);
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    if (!point || mountinfo_read(&all, e))
        return NULL;
    const struct mount_entry *m = mountinfo_find(&all, point);
    if (m && strcmp(m->type, CLI_MOUNT_TYPE) == 0)
        return steal(&point);
    if (m)
        err_set(e, ERR_INVALID,
            "%s is no mount of millrace, but of %s: it is left alone (umount(8) unmounts others)",
            dir, m->type);
    else
        err_set(e, ERR_NOTFOUND, "nothing is mounted at %s", dir);
    return NULL;
}

/* The process that serves the mount, to wait for its end: it saves what was written first. -1: it
 * cannot be told. */
static int open_server(const char *dir)
{
    struct err e = ERR_INIT;
    cleanup_free char *text = read_xattr(dir, XATTR_STATUS);
    cleanup_json json_t *j = text ? json_parse(text, strlen(text), &e) : NULL;
    int64_t pid = j ? jget_int(j, REPORT_PID, 0) : 0;
    if (pid <= 1 || pid > INT_MAX)
        return -1;
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    cleanup_free char *comm = xasprintf("/proc/%d/comm", (int)pid),
                      *name = fd >= 0 ? file_read(comm, 64, NULL, &e) : NULL;
    if (name && strcmp(name, CLIENT "\n") == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int wait_for_server(const char *dir, int fd, struct err *e)
{
    int64_t began = clock_mono_ns();
    for (bool said = false;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (fd < 0 || poll(&p, 1, 1000) > 0)
            return 0;
        if (clock_mono_ns() - began > SAVE_MAX_NS)
            return err_set(e, ERR_RETRY,
                "%s is unmounted, but what was written there is not all saved yet: its process goes on",
                dir);
        if (!said && clock_mono_ns() - began > 2 * NS_PER_S)
            fprintf(stderr, "saving what was written…\n");
        said |= clock_mono_ns() - began > 2 * NS_PER_S;
    }
}

int verb_umount(const struct verb *v, int argc, char **argv)
{
    bool lazy = false;
    const struct opt table[] = {{"lazy", OPT_BOOL, &lazy, NULL,
        "detach it at once; processes that use it keep it until they are done"}};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    cleanup_free char *point = mount_of_ours(a.pos[0], &e);
    if (!point)
        return cli_failed(&e);
    cleanup_fd int server = lazy ? -1 : open_server(point);
    return unmount(point, a.pos[0], lazy, &e) || wait_for_server(a.pos[0], server, &e)
        ? cli_failed(&e)
        : CLI_DONE;
}
