/* SPDX-License-Identifier: Apache-2.0 */
/* A store, step by step: its name, the way to it, its clock, TLS, who we are, what we may do. */
#include "fuse/cli/cli.h"
#include "fuse/cli/doctor.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_NS  (5 * NS_PER_S)
#define ANSWER_NS   (10 * NS_PER_S)
#define SKEW_MAX_NS (300 * NS_PER_S) /* of Kerberos; S3 takes 15 minutes */

/* -- the server ------------------------------------------------------------------------------ */

static int ask_server(struct http *h, const char *url, struct http_resp *resp, struct err *e)
{
    const char *const headers[] = {"cache-control: no-cache", NULL};
    return http_do(h,
        &(struct http_req){
            .method = "HEAD", .url = url, .headers = headers, .timeout_ns = ANSWER_NS},
        resp, e);
}

/* Was it said some time ago, by a cache on the way? One that does not say so (Age) says the same
 * again. */
static bool is_an_old_one(
    struct http *h, const char *url, const struct http_resp *resp, const char *date)
{
    char text[64];
    struct err none = ERR_INIT;
    cleanup_resp struct http_resp later = {0};
    if (http_header(resp, "age", text, sizeof text))
        return true;
    clock_sleep_ns(NS_PER_S + NS_PER_S / 5);
    return ask_server(h, url, &later, &none) == 0
        && (http_header(&later, "age", text, sizeof text)
            || (http_header(&later, "date", text, sizeof text) && strcmp(text, date) == 0));
}

static void check_skew(
    struct http *h, const char *url, const struct http_resp *resp, struct doctor_lines *r)
{
    char date[64];
    int64_t theirs;
    if (!http_header(resp, "date", date, sizeof date) || clock_parse_http_date(date, &theirs))
        return;
    int64_t skew = theirs - clock_real_ns(), apart = skew < 0 ? -skew : skew;
    if (apart > SKEW_MAX_NS && is_an_old_one(h, url, resp, date))
        doctor_line(r, DOCTOR_SKIPPED,
            "clock: the answer is from a cache on the way, and tells an old time");
    else if (apart > SKEW_MAX_NS)
        doctor_line(r, DOCTOR_FAILED,
            "clock: the server's is %" PRId64
            " s %s this machine's: signed requests are refused from 15 minutes on: set this one right "
            "(timedatectl set-ntp true, or chrony)",
            apart / NS_PER_S, skew > 0 ? "before" : "behind");
    else
        doctor_line(
            r, DOCTOR_OK, "clock: less than %" PRId64 " s from the server's", apart / NS_PER_S + 1);
}

/* OpenSSL's words for an answer in another protocol. */
static bool speaks_no_tls(const struct err *e)
{
    return strstr(e->msg, "wrong version number") != NULL;
}

/* Nothing secret is sent, so whoever answers will do: that the certificate is good is seen when the
 * store is asked. False: it did not. */
static bool check_server(const char *server, struct doctor_lines *r)
{
    struct err e = ERR_INIT;
    cleanup_resp struct http_resp first = {0}, again = {0};
    cleanup_free char *url = xasprintf("%s/", server);
    struct http *h = http_new(&(struct http_conf){.insecure = true, .connect_ns = CONNECT_NS}, &e);
    int rc = h ? ask_server(h, url, &first, &e) : -1;
    int64_t began = clock_mono_ns();
    bool answers = rc == 0;
    if (rc && e.sys == EADDRNOTAVAIL && strstr(e.msg, "timed out")) {
        doctor_line(r, DOCTOR_FAILED,
            "name: no server that /etc/resolv.conf names says within %d s where %s is: do they run, and "
            "does a firewall let this machine reach them (port 53)?",
            (int)(CONNECT_NS / NS_PER_S), server);
    } else if (rc && e.sys == EADDRNOTAVAIL) {
        doctor_line(r, DOCTOR_FAILED,
            "name: that of %s does not resolve: is it spelled right (option endpoint), and does "
            "/etc/resolv.conf name a server that knows it?",
            server);
    } else if (rc && speaks_no_tls(&e)) {
        doctor_line(r, DOCTOR_OK, "name: that of %s resolves", server);
        doctor_line(r, DOCTOR_FAILED,
            "connection: %s answers, but not with TLS: write http:// instead of https://, or another port",
            server);
    } else if (rc) {
        doctor_line(r, DOCTOR_OK, "name: that of %s resolves", server);
        doctor_line(r, DOCTOR_FAILED,
            "connection: %s: does the server run there, and does a firewall or a proxy "
            "(https_proxy, no_proxy) let this machine reach it?",
            e.msg);
    } else {
        rc = ask_server(h, url, &again, &e);
        double ms = (double)(clock_mono_ns() - began) / (double)NS_PER_MS;
        doctor_line(r, DOCTOR_OK, "name: that of %s resolves", server);
        doctor_line(r, DOCTOR_OK, "connection: it answers, in %.1f ms", ms);
        check_skew(h, url, rc == 0 ? &again : &first, r);
    }
    http_free(h);
    return answers;
}

/* Of several one will do; the others are told all the same. True: the store can be asked. */
static bool check_servers(const char *servers, struct doctor_lines *r)
{
    cleanup_free char *copy = xstrdup(servers);
    char *save = NULL;
    bool any = false;
    for (char *one = strtok_r(copy, " ", &save); one; one = strtok_r(NULL, " ", &save))
        any |= check_server(one, r);
    return any;
}

/* -- the store ------------------------------------------------------------------------------- */

static const char *what_failed(const struct err *e)
{
    static const struct {
        const char *reason, *what;
    } known[] = {{"NameNotResolved", "name"}, {"Unreachable", "connection"}, {"TLSFailed", "TLS"},
        {"AccessDenied", "credentials"}, {"ExpiredCredentials", "credentials"},
        {"SecretMissing", "credentials"}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(store_reason(e), known[i].reason) == 0)
            return known[i].what;
    return "store";
}

static bool verifies(const struct conf_mount *m)
{
    for (size_t i = 0; i < m->noptions; i++)
        if (strcmp(m->options[i].key, "tls-verify") == 0)
            return strcmp(m->options[i].value, "false") != 0;
    return true;
}

static int check_access(const struct target *t, const char *server, struct doctor_lines *r)
{
    struct err e = ERR_INIT;
    cleanup_free char *who = NULL, *unused = NULL;
    int rc = store_check(t->store, &e);
    const char *what = rc ? what_failed(&e) : "";
    bool reached = rc == 0 || strcmp(what, "credentials") == 0 || strcmp(what, "store") == 0;
    if (server && strncmp(server, "https:", 6) == 0 && reached)
        doctor_line(r, verifies(&t->conf->mounts[0]) ? DOCTOR_OK : DOCTOR_NOTE,
            verifies(&t->conf->mounts[0]) ? "TLS: the certificate is good"
                                          : "TLS: the certificate is not looked at (tls-verify)");
    store_contact(t->store, &unused, &who);
    if (who && reached && strcmp(what, "credentials") != 0)
        doctor_line(r, DOCTOR_OK, "credentials: %s", who);
    if (rc)
        doctor_line(r, DOCTOR_FAILED, "%s: %s", what, e.msg);
    return rc;
}

struct look {
    uint64_t entries;
    char *file;
    struct store_stat st; /* of it */
};

static int doctor_count(void *user, const struct store_entry *entry)
{
    (void)entry;
    ((struct look *)user)->entries++;
    return 0;
}

static int take_file(void *user, const struct store_entry *entry)
{
    struct look *l = user;
    if (entry->st.is_dir || l->file)
        return l->file != NULL;
    l->file = xstrdup(entry->name);
    l->st = entry->st;
    return 1;
}

static void doctor_reads(struct store *s, struct doctor_lines *r)
{
    struct err e = ERR_INIT;
    struct look l = {0};
    char byte;
    cleanup_free char *cursor = NULL, *more = NULL;
    if (store_list(s, "", &cursor, doctor_count, &l, &e)) {
        doctor_line(r, DOCTOR_FAILED, "listing: %s", e.msg);
        return;
    }
    doctor_line(r, DOCTOR_OK, "listing: %" PRIu64 "%s entries at the top", l.entries,
        cursor ? " and more" : "");
    int rc = l.entries ? store_list_tree(s, "", &more, take_file, &l, &e) : 0;
    cleanup_free char *file = l.file;
    if (rc || (file && l.st.size && store_read(s, file, l.st.version, 0, 1, &byte, NULL, &e)))
        doctor_line(r, DOCTOR_FAILED, "reading: %s", e.msg);
    else if (file)
        doctor_line(r, DOCTOR_OK, "reading: %s can be read", file);
    else
        doctor_line(r, DOCTOR_SKIPPED, "reading: there is no file yet");
}

static void check_writing(struct store *s, struct doctor_lines *r)
{
    cleanup_free char *name = xasprintf(
        ".millrace-check-%d-%" PRIx64, (int)getpid(), (uint64_t)clock_real_ns());
    cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct err e = ERR_INIT;
    struct store_stat st;
    if (fd < 0)
        err_sys(&e, errno, "open /dev/null");
    if (fd < 0 || store_put(s, name, &(struct store_put){.fd = fd}, &st, &e)
        || store_remove(s, name, &e))
        doctor_line(r, DOCTOR_FAILED, "writing: %s", e.msg);
    else
        doctor_line(r, DOCTOR_OK, "writing: it can be written to");
}

void doctor_store(const struct args *a, const char *url, bool write, struct doctor_lines *r)
{
    struct err e = ERR_INIT;
    cleanup_target struct target t = {0};
    cleanup_free char *server = NULL, *who = NULL;
    if (target_open(&t, a, url, true, !write, &e)) {
        doctor_line(r, DOCTOR_FAILED, "URL: %s", e.msg);
        return;
    }
    doctor_line(r, DOCTOR_OK, "URL: it and the options make sense");
    store_contact(t.store, &server, &who);
    if ((server && !check_servers(server, r)) || check_access(&t, server, r))
        return;
    doctor_reads(t.store, r);
    if (write)
        check_writing(t.store, r);
    else
        doctor_line(r, DOCTOR_SKIPPED, "writing: --write tries it");
}
