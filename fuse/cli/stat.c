/* SPDX-License-Identifier: Apache-2.0 */
/* stat: of a mount, how it is doing; of a URL, what is there. */
#include "fuse/cli/stat.h"
#include "fuse/cli/cached.h"
#include "fuse/cli/shown.h"

#include "lib/base/clock.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static json_t *stat_json(const char *url, const struct store_stat *st)
{
    json_t *o = json_pack("{s:o, s:s, s:o}", "url", shown_text(url), "type",
        st->is_dir ? "directory" : "file", "modified", shown_time(st->mtime_ns));
    if (!st->is_dir) {
        json_object_set_new(o, "size", json_integer((json_int_t)st->size));
        json_object_set_new(o, "version", shown_text(st->version));
    }
    return o;
}

static int stat_url(const struct args *a, bool json, struct err *e)
{
    cleanup_target struct target t = {0};
    struct store_stat st;
    if (target_open(&t, a, a->pos[0], false, true, e) || target_stat(&t, &st, e))
        return -1;
    if (json) {
        shown_object(stat_json(a->pos[0], &st));
        return 0;
    }
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
                : strcmp(why, "damaged") == 0
                ? "its bytes changed by themselves on this node's disk"
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

/* Of a file on a mount. */
static void print_file(const char *path)
{
    struct stat st;
    struct cached c;
    cleanup_cached_ask struct cached_ask ask = CACHED_ASK_INIT;
    char size[HUMAN_BYTES_LEN];
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return;
    cached_ask(&ask, path, &c);
    printf("%-10s %" PRIu64 " bytes (%s)", "file:", (uint64_t)st.st_size,
        human_bytes((uint64_t)st.st_size, size));
    if (c.known)
        printf(", %u %% in the cache of this node%s, %s", cached_percent(&c),
            c.pinned ? " and pinned" : "", c.persisted ? "PERSISTED" : "NOT_PERSISTED");
    puts("");
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
    print_file(path);
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
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct err e = ERR_INIT;
    if (a.npos == 0            ? stat_mounts(json, &e)
            : is_url(a.pos[0]) ? stat_url(&a, json, &e)
                               : stat_mount(a.pos[0], json, &e))
        return cli_failed(&e);
    return CLI_DONE;
}
