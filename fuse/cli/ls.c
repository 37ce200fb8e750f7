/* SPDX-License-Identifier: Apache-2.0 */
/* ls, stat and check: verbs that only look. */
#include "fuse/cli/cli.h"

#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define STATUS_MAX (64u << 10)

/* -- ls -------------------------------------------------------------------------------------- */

static void print_entry(const char *name, const struct store_stat *st, bool details)
{
    char when[CLOCK_RFC3339_LEN] = "-";
    if (st->mtime_ns)
        clock_rfc3339(st->mtime_ns, when);
    if (details && st->is_dir)
        printf("%14s  %-20s  ", "-", when);
    else if (details)
        printf("%14" PRIu64 "  %-20s  ", st->size, when);
    cli_put_name(name);
    puts(st->is_dir ? "/" : "");
}

static int print_one(void *details, const struct store_entry *entry)
{
    print_entry(entry->name, &entry->st, *(bool *)details);
    return 0;
}

static int list_all(struct store *s, bool tree, bool details, struct err *e)
{
    char *cursor = NULL;
    int rc;
    do {
        rc = (tree ? store_list_tree : store_list)(s, "", &cursor, print_one, &details, e);
    } while (rc == 0 && cursor);
    free(cursor);
    return rc;
}

/* Does the URL name something, and is it a directory? The root of a store always is one; that costs
 * a look as well. */
static int stat_target(struct target *t, struct store_stat *st, struct err *e)
{
    if (*t->path)
        return store_stat_path(t->store, t->path, st, e);
    *st = (struct store_stat){.is_dir = true};
    return store_check(t->store, e);
}

int verb_ls(const struct verb *v, int argc, char **argv)
{
    bool details = false, recursive = false;
    const struct opt table[] = {
        {"long", OPT_BOOL, &details, NULL, "print sizes and times, too (-l)"},
        {"recursive", OPT_BOOL, &recursive, NULL,
            "list all files below, not only the direct entries (-r)"},
    };
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    cleanup_target struct target one = {0}, all = {0};
    struct store_stat st;
    if (target_open(&one, &a, a.pos[0], false, false, &e) || stat_target(&one, &st, &e))
        return cli_failed(&e);
    if (!st.is_dir) {
        print_entry(one.path, &st, details);
        return CLI_DONE;
    }
    if (target_open(&all, &a, a.pos[0], true, false, &e)
        || list_all(all.store, recursive, details, &e))
        return cli_failed(&e);
    return CLI_DONE;
}

/* -- stat ------------------------------------------------------------------------------------ */

static int stat_url(const struct args *a, struct err *e)
{
    cleanup_target struct target t = {0};
    struct store_stat st;
    if (target_open(&t, a, a->pos[0], false, false, e) || stat_target(&t, &st, e))
        return -1;
    char when[CLOCK_RFC3339_LEN] = "unknown", size[HUMAN_BYTES_LEN];
    if (st.mtime_ns)
        clock_rfc3339(st.mtime_ns, when);
    printf("%-10s %s\n", "url:", a->pos[0]);
    printf("%-10s %s\n", "type:", st.is_dir ? "directory" : "file");
    if (st.is_dir)
        return 0;
    printf("%-10s %" PRIu64 " (%s)\n%-10s %s\n%-10s %s\n", "size:", st.size,
        human_bytes(st.size, size), "modified:", when, "version:", st.version);
    return 0;
}

/* The attribute of path, or of the closest directory above that has it (the mount's root); caller
 * frees. */
char *read_xattr(const char *path, const char *name)
{
    char *value = xcalloc(1, STATUS_MAX + 1);
    if (getxattr(path, name, value, STATUS_MAX) > 0)
        return value;
    free(value);
    return NULL;
}

/* The file system that path is on: its type and where it is mounted; caller frees *point. NULL if
 * unknown. */
static char *mount_of(const char *path, char **point)
{
    cleanup_free char *real = realpath(path, NULL);
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    struct err e = ERR_INIT;
    const struct mount_entry *m = real && mountinfo_read(&all, &e) == 0
        ? mountinfo_above(&all, real)
        : NULL;
    *point = m ? xstrdup(m->point) : NULL;
    return m ? xstrdup(m->type) : NULL;
}

static void print_bytes(const char *label, const json_t *j, const char *path)
{
    char text[HUMAN_BYTES_LEN];
    printf("  %-22s %s\n", label, human_bytes((uint64_t)jget_int(j, path, 0), text));
}

static void print_count(const char *label, const json_t *j, const char *path)
{
    printf("  %-22s %" PRId64 "\n", label, jget_int(j, path, 0));
}

/* "your job waited 7 % of the time for data" */
static void print_stalls(const json_t *j)
{
    double up = (double)jget_int(j, REPORT_UP_MS, 0);
    if (jget_len(j, REPORT_STALLS))
        puts("waiting for data:       (what the kernel read by itself is not in here)");
    for (size_t i = 0; i < jget_len(j, REPORT_STALLS); i++) {
        const json_t *c = json_array_get(jget_arr(j, REPORT_STALLS), i);
        double waiting = (double)jget_int(c, REPORT_STALL_WAITING_MS, 0);
        printf("  %s: %.1f s, %.1f %% of the time; %" PRId64
               " reads waited %.1f s for the store, %.1f s for workers, %.1f s for the disk\n",
            jget_str(c, REPORT_STALL_CALLER, "?"), waiting / 1000, up > 0 ? 100 * waiting / up : 0,
            jget_int(c, REPORT_STALL_READS, 0),
            (double)jget_int(c, REPORT_STALL_STORE_MS, 0) / 1000,
            (double)jget_int(c, REPORT_STALL_WORKER_MS, 0) / 1000,
            (double)jget_int(c, REPORT_STALL_DISK_MS, 0) / 1000);
    }
}

static void print_hints(const json_t *j)
{
    if (!jget_int(j, REPORT_HINTS_ENTRIES, 0) && !jget_int(j, REPORT_HINTS_REFUSED, 0))
        return;
    puts("hints:");
    print_count("lists being followed", j, REPORT_HINTS_LISTS);
    print_count("paths given", j, REPORT_HINTS_ENTRIES);
    print_count("looked after", j, REPORT_HINTS_DONE);
    print_bytes("made ready", j, REPORT_HINTS_BYTES);
    print_count("read as announced", j, REPORT_HINTS_FOLLOWED);
    printf("  %-22s %" PRId64 "%s", "not there", jget_int(j, REPORT_HINTS_MISSING, 0),
        jget_int(j, REPORT_HINTS_MISSING, 0) ? ", the first: " : "");
    cli_put_name(jget_str(j, REPORT_HINTS_FIRST_MISSING, ""));
    puts("");
    print_count("no paths at all", j, REPORT_HINTS_REFUSED);
    print_count("failed", j, REPORT_HINTS_FAILED);
}

/* What a person has to decide about. */
static void print_kept(const json_t *j)
{
    int64_t files = jget_int(j, REPORT_KEPT_FILES, 0);
    const char *there = jget_str(j, REPORT_KEPT_NODE_DIR, "");
    char bytes[HUMAN_BYTES_LEN];
    if (!files)
        return;
    printf("kept on this node, in no store: %" PRId64 " files, %s\n", files,
        human_bytes((uint64_t)jget_int(j, REPORT_KEPT_BYTES, 0), bytes));
    for (size_t i = 0; i < jget_len(j, REPORT_KEPT_PATHS); i++) {
        const json_t *k = json_array_get(jget_arr(j, REPORT_KEPT_PATHS), i);
        const char *why = jget_str(k, REPORT_KEPT_WHY, "");
        printf("  ");
        cli_put_name(jget_str(k, REPORT_KEPT_PATH, "?"));
        printf(": %s\n    ",
            strcmp(why, "conflict") == 0         ? "somebody else changed it in the store"
                : strcmp(why, "unfinished") == 0 ? "not closed when the machine went down"
                : strcmp(why, "homeless") == 0
                ? "the dataset has no such mount any more, or not for writing"
                : "the note beside it is damaged");
        cli_put_name(*there ? there : jget_str(j, REPORT_KEPT_DIR, ""));
        putchar('/');
        cli_put_name(jget_str(k, REPORT_KEPT_FILE, "?"));
        puts("");
    }
    if (*there)
        puts(
            "  that is on the node, below csi.cacheDir of the chart, or /var/lib/kubelet/plugins without one; to\n"
            "  look there: kubectl -n millrace-system debug node/NODE -it --image=busybox (which has it in /host)");
    puts("  to have one back, copy that file; to drop it, remove it and the .path file beside it");
}

static void print_status(const json_t *j)
{
    bool ready = jget_bool(j, REPORT_READY, false);
    printf("%-10s %s\n", "ready:", ready ? "yes" : "no");
    if (!ready)
        printf("%-10s %s\n%-10s %s\n", "reason:", jget_str(j, REPORT_REASON, ""),
            "message:", jget_str(j, REPORT_MESSAGE, ""));
    if (*jget_str(j, REPORT_PROFILE, ""))
        printf("%-10s %s\n", "profile:", jget_str(j, REPORT_PROFILE, ""));
    for (size_t i = 0; i < jget_len(j, REPORT_MOUNTS); i++) {
        const json_t *m = json_array_get(jget_arr(j, REPORT_MOUNTS), i);
        printf("%-10s %s at %s%s%s\n", "store:", jget_str(m, REPORT_MOUNT_POINT, "?"),
            jget_str(m, REPORT_MOUNT_PATH, "/"), jget_bool(m, REPORT_READY, false) ? "" : ": ",
            jget_bool(m, REPORT_READY, false) ? "" : jget_str(m, REPORT_MESSAGE, "not ready"));
    }
    puts("cache:");
    print_bytes("used", j, REPORT_CACHE_USED);
    print_bytes("capacity", j, REPORT_CACHE_CAPACITY);
    printf("  %-22s %" PRId64 " of %" PRId64 "\n", "complete files",
        jget_int(j, REPORT_CACHE_COMPLETE, 0), jget_int(j, REPORT_CACHE_FILES, 0));
    if (jget_int(j, REPORT_CACHE_PINNED_FILES, 0)) {
        char pinned[HUMAN_BYTES_LEN], most[HUMAN_BYTES_LEN];
        printf("  %-22s %s in %" PRId64 " files, of at most %s\n", "pinned",
            human_bytes((uint64_t)jget_int(j, REPORT_CACHE_PINNED, 0), pinned),
            jget_int(j, REPORT_CACHE_PINNED_FILES, 0),
            human_bytes((uint64_t)jget_int(j, REPORT_CACHE_PINNED_MOST, 0), most));
    }
    puts("reads:");
    print_bytes("from the cache", j, REPORT_READS_CACHE);
    print_bytes("from workers", j, REPORT_READS_WORKER);
    print_bytes("from the store", j, REPORT_READS_STORE);
    print_stalls(j);
    print_hints(j);
    puts("writes:");
    print_bytes("to the store", j, REPORT_WRITES_BYTES);
    printf("  %-22s %" PRId64 "\n", "files not yet there", jget_int(j, REPORT_WRITES_PENDING, 0));
    print_kept(j);
}

int mount_point_of(const char *path, char **point, struct err *e)
{
    struct stat st;
    if (stat(path, &st))
        return errno == ENOTCONN
            ? err_set(e, ERR_NOTFOUND,
                "%s: the file system there is not served any more; millrace umount %s", path, path)
            : err_sys(e, errno, "%s", path);
    *point = NULL;
    cleanup_free char *type = mount_of(path, point);
    if (!type || strcmp(type, "fuse.millrace") != 0)
        return err_set(e, ERR_INVALID, "%s is not on a mount of millrace (it is on %s)", path,
            type ? type : "an unknown file system");
    return 0;
}

static int stat_mount(const char *path, bool json, struct err *e)
{
    cleanup_free char *point = NULL;
    if (mount_point_of(path, &point, e))
        return -1;
    cleanup_free char *text = read_xattr(point, XATTR_STATUS),
                      *error = read_xattr(path, XATTR_ERROR);
    if (json && text) {
        fputs(text, stdout);
        return 0;
    }
    printf("%-10s %s\n", "mount:", point);
    if (error)
        printf("%-10s ", "error:"), cli_put_name(error), puts("");
    if (!text)
        return err_set(e, ERR_NOTFOUND, "%s: the client that serves it tells no status", point);
    struct err inner = ERR_INIT;
    cleanup_json json_t *j = json_parse(text, strlen(text), &inner);
    if (!j)
        return err_set(e, ERR_FATAL, "%s: its status does not parse: %s", point, inner.msg);
    print_status(j);
    return 0;
}

int verb_stat(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const struct opt table[] = {
        {"json", OPT_BOOL, &json, NULL, "print the status of a mount as JSON"}};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    if (is_url(a.pos[0]) ? stat_url(&a, &e) : stat_mount(a.pos[0], json, &e))
        return cli_failed(&e);
    return CLI_DONE;
}

/* -- check ----------------------------------------------------------------------------------- */

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
