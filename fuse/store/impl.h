/* SPDX-License-Identifier: Apache-2.0 */
/* impl — what the stores share among themselves: the table of functions behind store.h, options,
 * retries, errors. */
#ifndef MILLRACE_FUSE_STORE_IMPL_H
#define MILLRACE_FUSE_STORE_IMPL_H

#include "fuse/store/store.h"

#include "lib/base/clock.h"
#include "lib/http/http.h"

/* -- options --------------------------------------------------------------------------------- */

struct store_params {
    /* the mount point as the user wrote it, without trailing slashes: for messages */
    const char *url;
    const char *rest; /* of the URL after "scheme://" */
    const struct conf_mount *mount;
    const struct store_kind *kind;
    const char *secrets_dir;
    int64_t deadline_ns;
    unsigned max_connections;
};

/* INVALID (InvalidOption) for a name that is not in the table or a value of the wrong kind. */
int option_check_all(const struct store_params *p, struct err *e);
/* The value of an option: single key of a Secret, option, the whole Secret, certificates of a
 * ConfigMap, the cluster's default, environment. Caller frees; *out NULL if it was not given at
 * all. DENIED (SecretMissing, ConfigMapMissing) when it is promised by an object that is not there.
 * Values of secrets, and words that a Secret says, go to log_redact(). */
int option_get(const struct store_params *p, const char *name, char **out, struct err *e);
/* One that is "true" or "false"; false if it was not given. */
int option_is_true(const struct store_params *p, const char *name, bool *out, struct err *e);
/* A variable that belongs to no option; NULL if it is empty, too. */
const char *option_env(const char *name);
/* What messages may show of a value that option_get() told, or of a part of it: "'the value'", or,
 * of what a Secret says, only where that stands: "what key k of Secret creds says". Every message
 * that repeats an option's value takes it from here: conditions and Events are read by people who
 * may not read Secrets. Caller frees. */
char *option_shown(const struct store_params *p, const char *name, const char *value);
/* INVALID (InvalidOption): "option <name> is <what may be shown>; <mend>". Returns -1. */
int option_err(const struct store_params *p, const char *name, const char *value, const char *mend,
    struct err *e);
/* DENIED: a Secret says an option that leads to servers, where the cluster allows only some
 * (limits.endpoints): what it says is judged by nobody before us. what: of servers, "name nodes".
 */
int option_no_secret(
    const struct store_params *p, const char *name, const char *what, struct err *e);
/* "Secret creds (keys accessKey, secretKey)", "options access-key-id, …" or "AWS_ACCESS_KEY_ID …":
 * where a person looks. */
char *option_origin(const struct store_params *p, const char *const *names);
/* Is it given by a single key of a Secret or in the mount's options? */
bool option_is_explicit(const struct store_params *p, const struct store_option *o);
/* The value that the option has in such a list, by its name or an alias; NULL: none. */
const struct conf_pair *option_pair(
    const struct conf_pair *pairs, size_t n, const struct store_option *o);
/* The client of a store that speaks HTTP: TLS as tls-verify and ca-cert say, else with the
 * cluster's certificates (ENV_CA_BUNDLE). *insecure (NULL: not wanted): certificates are not
 * checked. NULL: e says why not; the caller frees it (http_free). */
struct http *option_http(const struct store_params *p, bool *insecure, struct err *e);
#define OPTION_SECRET_MAX (64u << 10) /* bytes of one key of a Secret */
/* The text of a file below the secrets directory without line ends. It was promised: that it is
 * absent or empty is an error (SecretMissing, ConfigMapMissing). what: of object, "Secret" or
 * "ConfigMap"; name: "object:key". Caller frees. */
char *option_read_file(const struct store_params *p, const struct store_option *o, const char *file,
    size_t max, const char *what, const char *name, struct err *e);
/* From the Secret that is given as a whole; *out NULL if it does not have it. A half of credentials
 * that it does not have is an error: SecretMissing, with what it has. */
int option_from_whole(
    const struct store_params *p, const struct store_option *o, char **out, struct err *e);
/* DENIED (SecretMissing): the mount names a whole Secret that is not there, or has no keys. */
int option_require_whole(const struct store_params *p, struct err *e);
/* DENIED (SecretMissing): the whole Secret has keys, and none that is a credential. */
int option_fail_strange(const struct store_params *p, struct err *e);
/* Notes in the log the keys that mean nothing to us. */
void option_log_strange_keys(const struct store_params *p);

/* -- errors ---------------------------------------------------------------------------------- */

/* What conditions name; in a text "AccessDenied" and so on. */
enum reason {
    REASON_INVALID_URL,
    REASON_INVALID_OPTION,
    REASON_SECRET_MISSING,
    REASON_CONFIG_MAP_MISSING,
    REASON_ACCESS_DENIED,
    REASON_EXPIRED,
    REASON_BUCKET_NOT_FOUND,
    REASON_NOT_FOUND,
    REASON_NAME_NOT_RESOLVED,
    REASON_UNREACHABLE,
    REASON_TLS_FAILED,
    REASON_STORE_ERROR,
};
/* "<what>: <Reason><text>"; text begins with ": " or " (…): ". sys 0: by class. Returns -1. */
int store_err(struct err *e, enum err_class cls, int sys, enum reason reason, const char *what,
    const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* What http_do() has failed of; url: of the store, what: of the file. Returns -1. */
int store_err_network(const char *url, const char *what, const struct err *inner, struct err *e);

/* -- retries --------------------------------------------------------------------------------- */

struct retry {
    int64_t deadline_ns;            /* monotonic */
    unsigned attempt;               /* failures so far */
    unsigned max_attempts;          /* 0: until the deadline */
    const atomic_bool *cancel;      /* or NULL */
    const atomic_bool *also_cancel; /* of what it is a part of; or NULL */
    struct err cause; /* retry_again's own: of the last failure that was no last one */
    int64_t begun_ns; /* … and when the attempt after it began; monotonic */
};
#define RETRY_INIT(budget_ns, cancel_flag)                                    \
    {                                                                         \
        .deadline_ns = clock_mono_ns() + (budget_ns), .cancel = (cancel_flag) \
    }
/* never below 1 ms, so that a request is at least tried */
int64_t retry_left_ns(const struct retry *r);
/* After a failure: true after a pause if it is worth another attempt; false if e is final, time is
 * up or the call is cancelled. after_ns: what the server asked for (Retry-After), -1 for nothing.
 * Where the end of the time has cut an attempt that had hardly begun, e becomes what the one before
 * it failed of. */
bool retry_again(struct retry *r, struct err *e, int64_t after_ns);
/* How long the answer asks to wait (Retry-After), at most five minutes; -1: it does not. */
int64_t retry_after_ns(const struct http_resp *resp);
int64_t retry_pause_ns(unsigned attempt, uint64_t random); /* pure: 25 ms … 5 s, jittered */

/* -- the table ------------------------------------------------------------------------------- */

/* A kind of store: one row of the table in store.c. Each function as the one of the same name in
 * store.h; impl is what open returned. Paths are checked already: no empty component, "." or "..".
 */
struct store_ops {
    struct store_kind kind;
    void *(*open)(const struct store_params *p, struct err *e);
    void (*close)(void *impl);
    int (*check)(void *impl, struct err *e);
    /* NULL: it has no server. Several servers: with blanks between */
    void (*contact)(void *impl, char **server, char **who);
    int (*stat_path)(void *impl, const char *path, struct store_stat *st, struct err *e);
    /* NULL: nothing is ever left unasked */
    int (*ask)(void *impl, const char *path, struct store_stat *st, struct err *e);
    int (*list)(
        void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
    int (*list_tree)(
        void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
    int (*read)(void *impl, const char *path, const char *version, uint64_t off, size_t len,
        sink_fn sink, void *user, const atomic_bool *cancel, struct err *e); /* store_stream */
    /* all len bytes that there are, compared with the store's checksum; NULL: it keeps none */
    int (*read_whole)(void *impl, const char *path, const char *version, size_t len, sink_fn sink,
        void *user, const atomic_bool *cancel, struct err *e);
    int (*put)(void *impl, const char *path, const struct store_put *put, struct store_stat *st,
        struct err *e);
    /* NULL: there are none */
    int (*symlink)(
        void *impl, const char *path, const char *target, struct store_stat *st, struct err *e);
    /* NULL: it keeps none */
    int (*set_attr)(void *impl, const char *path, const char *expect, const struct store_attr *attr,
        struct store_stat *st, struct err *e);
    int (*remove)(void *impl, const char *path, struct err *e);
    /* NULL: the version is looked at just before */
    int (*remove_version)(void *impl, const char *path, const char *expect, struct err *e);
    int (*mkdir)(void *impl, const char *path, uint64_t mark, struct err *e);
    int (*rmdir)(void *impl, const char *path, struct err *e);
    int (*rename)(void *impl, const char *from, const char *to, const char *expect,
        struct store_stat *st, struct err *e);
    /* is it a name of what is being made, which listings do not show? NULL: there are none */
    bool (*hides)(const char *name);
    int (*sync_dir)(void *impl, const char *path, struct err *e); /* NULL: there is nothing to do */
    /* NULL with STORE_CAP_RENAME_DIR */
    int (*copy)(void *impl, const char *from, const char *to, const char *expect,
        struct store_stat *st, struct err *e);
};

extern const struct store_ops store_s3, store_gs, store_posix, store_http, store_https, store_hdfs,
    store_webhdfs, store_swebhdfs;
/* store_new() of a kind that is known; conf->mount->mount_point begins with its scheme. */
struct store *store_new_of(
    const struct store_ops *ops, const struct store_conf *conf, struct err *e);

/* one path component a file system can show: 1–255 bytes, not "." or ".." */
bool store_name_ok(const char *name, size_t len);
/* An entry of a listing is not shown: counts it, and warns now and then. why: NAME_OF_NO_FILE, or
 * what else. */
void store_left_out(const char *url, const char *name, const char *why);
#define NAME_OF_NO_FILE \
    "no file can be called so (an empty name, '.', '..', a line end or NUL in it, or more than 255 bytes)"

#endif
