/* SPDX-License-Identifier: Apache-2.0 */
/* location: which node and which cache workers have a file. */
#include "fuse/cli/cli.h"
#include "fuse/cli/shown.h"

#include "lib/base/file.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"
#include "lib/base/names.h"
#include "lib/conf/report.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define LOCATION_MAX (64u << 10)

/* What of the URL is below the store's; NULL: it is not below it. "s3://b/a/" is "s3://b/a". */
static const char *url_below(const char *url, const char *store)
{
    size_t n = strlen(store);
    while (n && store[n - 1] == '/')
        n--;
    if (!n || strncmp(url, store, n) != 0 || (url[n] && url[n] != '/'))
        return NULL;
    return url + n + strspn(url + n, "/");
}

/* The path of a URL's object on a mount of this machine, by the store that names most of it; caller
 * frees. */
static char *path_of_url(const char *url, struct err *e)
{
    cleanup_mountinfo struct mountinfo all = {NULL, 0};
    cleanup_free char *best = NULL;
    size_t best_len = 0;
    if (mountinfo_read(&all, e))
        return NULL;
    for (size_t i = 0; i < all.n; i++) {
        struct err none = ERR_INIT;
        const char *point = all.entries[i].point;
        if (strcmp(all.entries[i].type, CLI_MOUNT_TYPE) != 0)
            continue;
        cleanup_free char *text = read_xattr(point, XATTR_STATUS);
        cleanup_json json_t *j = text ? json_parse(text, strlen(text), &none) : NULL;
        for (size_t k = 0; k < jget_len(j, REPORT_MOUNTS); k++) {
            const json_t *m = json_array_get(jget_arr(j, REPORT_MOUNTS), k);
            const char *store = jget_str(m, REPORT_MOUNT_POINT, ""), *rest = url_below(url, store);
            if (!rest || (best && strlen(store) <= best_len))
                continue;
            cleanup_free char *dir = path_join(point, jget_str(m, REPORT_MOUNT_PATH, "/"));
            free(best);
            best = path_join(dir, rest);
            best_len = strlen(store);
        }
    }
    if (!best)
        err_set(e, ERR_NOTFOUND,
            "%s: no mount of this machine has this store, and a URL alone does not say who has "
            "copies: give a path on a mount",
            url);
    return steal(&best);
}

static json_t *location_ask(const char *path, struct err *e)
{
    cleanup_free char *point = NULL, *text = xcalloc(1, LOCATION_MAX + 1);
    struct stat st;
    if (mount_point_of(path, &point, e))
        return NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        err_set(e, ERR_INVALID,
            "%s is a directory: location is of files; `millrace du` tells how much of a directory "
            "is cached here",
            path);
        return NULL;
    }
    if (getxattr(path, XATTR_LOCATION, text, LOCATION_MAX) < 0) {
        if (errno == ENODATA || errno == EOPNOTSUPP)
            err_set(e, ERR_NOTFOUND,
                "%s: the client that serves it is older than this program and does not tell", path);
        else
            err_sys(e, errno, "%s", path);
        return NULL;
    }
    json_t *j = json_parse(text, strlen(text), e);
    if (!j)
        err_wrap(e, "%s: what its client says", path);
    return j;
}

static void print_worker(const json_t *w)
{
    char owns[HUMAN_BYTES_LEN], has[HUMAN_BYTES_LEN];
    human_bytes((uint64_t)jget_int(w, REPORT_LOCATION_OWNED, 0), owns);
    printf("  %-20s ", jget_str(w, REPORT_LOCATION_WORKER, "?"));
    if (*jget_str(w, REPORT_LOCATION_ERROR, "")) {
        printf("owns %s, does not tell what it has: ", owns);
        cli_put(stdout, jget_str(w, REPORT_LOCATION_ERROR, ""));
        puts("");
        return;
    }
    printf(
        "%s, owns %s\n", human_bytes((uint64_t)jget_int(w, REPORT_LOCATION_CACHED, 0), has), owns);
}

static void location_print(const char *path, const json_t *j)
{
    char size[HUMAN_BYTES_LEN], here[HUMAN_BYTES_LEN];
    const char *in = jget_str(j, REPORT_LOCATION_PATH, "");
    bool saved = jget_bool(j, REPORT_LOCATION_PERSISTED, false);
    cli_put_name(path);
    printf(": %s\n", human_bytes((uint64_t)jget_int(j, REPORT_LOCATION_SIZE, 0), size));
    printf("  %-20s %s\n", "this node",
        human_bytes((uint64_t)jget_int(j, REPORT_LOCATION_CACHED, 0), here));
    for (size_t i = 0; i < jget_len(j, REPORT_LOCATION_WORKERS); i++)
        print_worker(json_array_get(jget_arr(j, REPORT_LOCATION_WORKERS), i));
    if (!jget_len(j, REPORT_LOCATION_WORKERS))
        printf("  %-20s %s\n", "cache workers",
            saved ? "none has a part of it" : "none, as the store does not have it yet");
    printf("  %-20s ", "store");
    cli_put_name(jget_str(j, REPORT_LOCATION_STORE, "?"));
    printf("/");
    cli_put_name(in + strspn(in, "/"));
    puts(saved ? "" : ", not what was written last");
}

static int location_one(const char *said, struct shown *out, struct err *e)
{
    cleanup_free char *path = is_url(said) ? path_of_url(said, e) : xstrdup(said);
    json_t *j = path ? location_ask(path, e) : NULL;
    if (!j)
        return -1;
    if (out->json) {
        json_object_set_new(j, "file", shown_text(path));
        shown_add(out, j);
        return 0;
    }
    location_print(path, j);
    json_decref(j);
    return 0;
}

int verb_location(const struct verb *v, int argc, char **argv)
{
    bool json = false;
    const struct opt table[] = {SHOWN_FLAG(json)};
    cleanup_args struct args a;
    int rc = args_parse(&a, v, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    struct shown out;
    rc = CLI_DONE;
    shown_begin(&out, json, "files");
    for (int i = 0; i < a.npos; i++) {
        struct err e = ERR_INIT;
        if (location_one(a.pos[i], &out, &e))
            rc = cli_failed(&e);
    }
    shown_end(&out);
    return rc;
}
