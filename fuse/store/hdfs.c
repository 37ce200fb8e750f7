/* SPDX-License-Identifier: Apache-2.0 */
/* The HDFS store: its options, where its name nodes are, who we are, and its tables of functions.
 */
#include "fuse/store/hdfs.h"

#include "lib/base/mem.h"
#include "lib/base/wipe.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PORT_HTTP  "9870"
#define PORT_HTTPS "9871"
/* A data node makes an HDFS client for each request and closes the connection after it. */
#define PART ((size_t)32 << 20)

static const struct store_option hdfs_options[] = {
    {"name-nodes", STORE_OPTION_STRING, {0}, {"nameNodes"},
        .help =
            "host:port of the web server of each name node (dfs.namenode.http-address), with commas between them; default: the host of the URL"},
    {"http-port", STORE_OPTION_STRING, {0}, {0},
        .help =
            "port of the name node's web server where none is told: default 9870, 9871 with TLS"},
    {"tls", STORE_OPTION_BOOL, {0}, {0},
        .help = "true: ask name nodes by https:// (dfs.http.policy HTTPS_ONLY); default false"},
    {"user", STORE_OPTION_STRING, {"HADOOP_USER_NAME"}, {"username"},
        .help =
            "who we are, where HDFS believes what it is told (simple authentication); default: whom the server takes strangers for"},
    {"delegation-token", STORE_OPTION_SECRET, {0}, {0},
        .help =
            "a delegation token, as `hdfs fetchdt --print` and WebHDFS' GETDELEGATIONTOKEN tell it; a new one in the Secret is used from then on"},
    {"kerberos", STORE_OPTION_BOOL, {0}, {0},
        .help =
            "true: say by Kerberos (SPNEGO) who we are, and get and renew delegation tokens by it; default false"},
    {"keytab", STORE_OPTION_SECRET, {"KRB5_CLIENT_KTNAME"}, {0},
        .help =
            "with kerberos: a keytab; on a laptop without it the credential cache (kinit, KRB5CCNAME)",
        .file = true},
    {"principal", STORE_OPTION_STRING, {0}, {0},
        .help =
            "with kerberos: user@REALM; default: the first of the keytab, or the one of the cache"},
    {"krb5-conf", STORE_OPTION_SECRET, {0}, {0},
        .help =
            "with kerberos: a krb5.conf, without includes and modules; default: the machine's (KRB5_CONFIG), and DNS",
        .file = true},
    {"replication", STORE_OPTION_STRING, {0}, {0},
        .help = "copies of each file that is written; default: as the server has it"},
    {"ca-cert", STORE_OPTION_CERTS, {0}, {0},
        .help = "certificates to trust instead of the system's, as PEM text"},
    {"tls-verify", STORE_OPTION_BOOL, {0}, {0},
        .help = "false: do not check the server's certificate; default true"},
    {0},
};

/* -- opening --------------------------------------------------------------------------------------
 */

static bool is_host(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("-._:[]", s[i]))
            return false;
    return n > 0 && n < 256;
}

static bool is_number(const char *s, long max)
{
    char *end;
    long value = strtol(s, &end, 10);
    return isdigit((unsigned char)*s) && !*end && value > 0 && value <= max;
}

/* Does "host", "host:port", "[::1]:port" name a port? */
static bool names_port(const char *s, size_t n)
{
    const char *colon = memrchr(s, ':', n), *bracket = memrchr(s, ']', n);
    return colon && (!bracket || colon > bracket);
}

static int add_node(
    struct hdfs *h, const char *host, size_t n, bool ported, const char *port, struct err *e)
{
    if (h->nnodes == HDFS_NODES_MAX)
        return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, h->params.url,
            ": option name-nodes names more than %u", HDFS_NODES_MAX);
    h->node[h->nnodes++] = xasprintf("http%s://%.*s%s%s", h->tls ? "s" : "", (int)n, host,
        ported ? "" : ":", ported ? "" : port);
    return 0;
}

/* The host of hdfs:// has the port of RPC, which we do not speak; that of webhdfs:// its own. */
static int find_name_nodes(struct hdfs *h, const char *authority, size_t n, struct err *e)
{
    const struct store_params *p = &h->params;
    cleanup_free char *nodes = NULL, *given = NULL;
    if (option_no_secret(p, "name-nodes", "name nodes", e)
        || option_no_secret(p, "http-port", "name nodes", e)
        || option_get(p, "name-nodes", &nodes, e) || option_get(p, "http-port", &given, e))
        return -1;
    if (given && !is_number(given, 65535))
        return option_err(p, "http-port", given, "write a port, as 9870", e);
    const char *port = given ? given : h->tls ? PORT_HTTPS : PORT_HTTP;
    if (!nodes) {
        bool rpc = strcmp(p->kind->scheme, "hdfs") == 0, ported = names_port(authority, n);
        if (ported && rpc)
            n = (size_t)((const char *)memrchr(authority, ':', n) - authority);
        if (!n)
            return store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url,
                ": write %s, with a host", p->kind->url_help);
        return add_node(h, authority, n, ported && !rpc, port, e);
    }
    for (const char *at = nodes; *at;) {
        size_t len = strcspn(at, ", \t\n");
        if (len && !is_host(at, len)) {
            cleanup_free char *node = xstrndup(at, MIN(len, (size_t)200));
            return option_err(p, "name-nodes", node,
                "write host:port of each name node, with commas between them", e);
        }
        if (len && add_node(h, at, len, names_port(at, len), port, e))
            return -1;
        at += len + (at[len] != '\0');
    }
    return h->nnodes ? 0
                     : store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
                         ": option name-nodes names none");
}

static int err_kerberos(const struct hdfs *h, const char *text, struct err *e)
{
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, h->params.url, ": %s", text);
}

static int configure_kerberos(struct hdfs *h, struct err *e)
{
    const struct store_params *p = &h->params;
    struct kerberos *k = &h->ticket;
    char *token = NULL;
    if (option_is_true(p, "kerberos", &h->by_kerberos, e)
        || option_get(p, "principal", &k->principal, e))
        return -1;
    if (!h->by_kerberos)
        return k->principal
            ? err_kerberos(h, "option principal is of Kerberos: set option kerberos to \"true\"", e)
            : 0;
    if (option_get(p, "keytab", &k->keytab, e) || option_get(p, "krb5-conf", &k->config, e)
        || option_get(p, "delegation-token", &token, e))
        return -1;
    bool two = token != NULL;
    wipe_text(&token);
    if (two)
        return err_kerberos(
            h, "options kerberos and delegation-token are two ways to say who we are: keep one", e);
    if (option_is_explicit(p, store_option_find(p->kind->options, "user")))
        return err_kerberos(
            h, "option user has no meaning with kerberos: the keytab's principal is who we are", e);
    if (!k->keytab && p->secrets_dir)
        return err_kerberos(h,
            "option kerberos needs a keytab: put it into the Secret (or --secrets-dir) as key keytab",
            e);
    if (k->config && p->mount->nendpoints)
        return err_kerberos(h,
            "option krb5-conf names servers, but this cluster allows only some (value limits.endpoints): leave it out, if DNS knows the KDC of the realm",
            e);
    return 0;
}

static int hdfs_configure(struct hdfs *h, size_t host, struct err *e)
{
    const struct store_params *p = &h->params;
    cleanup_free char *tls = NULL, *who = NULL;
    if (option_get(p, "tls", &tls, e) || option_get(p, "user", &h->user, e)
        || option_get(p, "replication", &h->replication, e))
        return -1;
    h->tls = strcmp(p->kind->scheme, "swebhdfs") == 0 || (tls && strcmp(tls, "true") == 0);
    if (h->replication && !is_number(h->replication, 512))
        return option_err(p, "replication", h->replication, "write a number, as 3", e);
    if (find_name_nodes(h, p->rest, host, e) || hdfs_check_root(h, e) || configure_kerberos(h, e))
        return -1;
    h->http = option_http(p, NULL, e);
    if (!h->http)
        return -1;
    if (h->by_kerberos)
        return 0;
    who = hdfs_authority(h, e);
    if (who)
        explicit_bzero(who, strlen(who));
    return who ? 0 : -1;
}

static void hdfs_close(void *impl)
{
    struct hdfs *h = impl;
    http_free(h->http);
    for (unsigned i = 0; i < h->nnodes; i++)
        free(h->node[i]);
    wipe_text(&h->token);
    free(h->root);
    free(h->user);
    free(h->replication);
    free(h->ticket.keytab);
    free(h->ticket.principal);
    free(h->ticket.config);
    pthread_mutex_destroy(&h->ticket_mu);
    pthread_mutex_destroy(&h->mu);
    free(h);
}

static void *hdfs_open(const struct store_params *p, struct err *e)
{
    size_t host = strcspn(p->rest, "/");
    const char *path = p->rest + host;
    if (!is_host(p->rest, host) || (strcmp(path, "/") != 0 && *path && !store_path_ok(path + 1))) {
        store_err(e, ERR_INVALID, 0, REASON_INVALID_URL, p->url,
            ": write %s, a host or a name service, and a path with single slashes",
            p->kind->url_help);
        return NULL;
    }
    struct hdfs *h = xcalloc(1, sizeof *h);
    h->params = *p;
    h->root = xstrdup(path[0] && path[1] ? path : "");
    pthread_mutex_init(&h->mu, NULL);
    pthread_mutex_init(&h->ticket_mu, NULL);
    if (hdfs_configure(h, host, e)) {
        hdfs_close(h);
        return NULL;
    }
    return h;
}

int hdfs_check(void *impl, struct err *e)
{
    struct hdfs *h = impl;
    struct hdfs_status status;
    struct retry r = RETRY_INIT(MIN(h->params.deadline_ns, 10 * NS_PER_S), NULL);
    cleanup_free char *absolute = hdfs_path(h, "");
    if (hdfs_status_of(h, absolute, h->params.url, &r, &status, e))
        return -1;
    if (!status.st.is_dir)
        return store_err(e, ERR_INVALID, ENOTDIR, REASON_STORE_ERROR, h->params.url,
            ": it is a file; name the directory that it is in");
    struct hdfs_call c = {.method = "GET",
        .op = "CHECKACCESS",
        .path = absolute,
        .query = h->params.mount->read_only ? "&fsaction=r-x" : "&fsaction=rwx",
        .what = h->params.url};
    cleanup_resp struct http_resp resp = {0};
    return hdfs_do(h, &c, &r, &resp, e);
}

static void hdfs_contact(void *impl, char **server, char **who)
{
    struct hdfs *h = impl;
    struct buf all = BUF_INIT(4096);
    for (unsigned i = 0; i < h->nnodes; i++)
        buf_addf(&all, "%s%s", i ? " " : "", h->node[i]);
    *server = buf_take(&all);
    if (h->by_kerberos)
        *who = h->ticket.principal ? xasprintf("principal %s", h->ticket.principal)
                                   : xstrdup("Kerberos' principal");
    else
        *who = h->user ? xasprintf("user %s", h->user) : NULL;
}

#define HDFS_KIND(name, help)                                                                      \
    {                                                                                              \
        .kind = {name, help, hdfs_options,                                                         \
            STORE_CAP_WRITE | STORE_CAP_RENAME_DIR | STORE_CAP_DIRS, NULL, 0,                      \
            "delegation-token, or keytab", PART},                                                  \
        .open = hdfs_open, .close = hdfs_close, .check = hdfs_check, .contact = hdfs_contact,      \
        .stat_path = hdfs_stat, .list = hdfs_list, .list_tree = hdfs_list_tree, .read = hdfs_read, \
        .put = hdfs_put, .remove = hdfs_remove, .mkdir = hdfs_mkdir, .rmdir = hdfs_rmdir,          \
        .rename = hdfs_rename, .hides = hdfs_hides,                                                \
    }
const struct store_ops store_hdfs = HDFS_KIND("hdfs", "hdfs://namenode:8020/directory");
const struct store_ops store_webhdfs = HDFS_KIND("webhdfs", "webhdfs://namenode:9870/directory");
const struct store_ops store_swebhdfs = HDFS_KIND("swebhdfs", "swebhdfs://namenode:9871/directory");
