/* SPDX-License-Identifier: Apache-2.0 */
/* s3 — inside of the S3 store: the connection to one bucket, one signed request, and what its
 * failure means. */
#ifndef MILLRACE_FUSE_STORE_S3_H
#define MILLRACE_FUSE_STORE_S3_H

#include "fuse/store/impl.h"
#include "fuse/store/pace.h"
#include "fuse/store/s3_terms.h"
#include "fuse/store/s3_xml.h"
#include "fuse/store/sigv4.h"

#include "lib/http/http.h"

#include <pthread.h>

/* -- credentials (s3_cred.c) ------------------------------------------------------------------- */

/* opaque; reads its sources again every second and when the server says that they have expired */
struct s3_cred;
/* copies p, borrows what it points at, and http. INVALID, DENIED (InvalidOption). */
struct s3_cred *s3_cred_new(const struct store_params *p, struct http *http, struct err *e);
void s3_cred_free(struct s3_cred *c);
struct s3_signer { /* a copy to sign one request with */
    bool anonymous;
    char *key_id, *token; /* owned; token may be NULL */
    unsigned char key[32];
    unsigned generation;
};
/* DENIED (SecretMissing), and as s3_lend(). time: of the request, its first 8 bytes are the day the
 * key is for. */
int s3_cred_get(struct s3_cred *c, const char time[SIGV4_TIME_LEN], const char *region,
    struct s3_signer *out, struct err *e);
void s3_signer_clear(struct s3_signer *s);
/* true: there are other ones now than those of that generation */
bool s3_cred_renew(struct s3_cred *c, unsigned generation);
/* where a person looks for them; caller frees. lent: for a time, by what is named. */
char *s3_cred_origin(struct s3_cred *c, bool *lent);
/* The last attempt to have lent ones renewed failed, as e says then. */
bool s3_cred_cause(struct s3_cred *c, struct err *e);
bool s3_cred_anonymous(struct s3_cred *c); /* there were none when last looked */

/* -- the bucket ------------------------------------------------------------------------------ */

/* Where it is; never changes, lives as long as the store. */
struct s3_place {
    struct s3_place *next;
    char *region;
    char *origin;      /* "https://host:port", the bucket in it unless path style */
    char *host;        /* as in the Host header */
    char *path_prefix; /* "/bucket" with path style, else "" */
};

/* Which directories are known to have a note, for a moment: s3_link.c. */
#define S3_NOTES 16
struct s3_notes {
    pthread_mutex_t mu; /* a leaf */
    struct {
        char *key;        /* of the note; NULL: none */
        int64_t until_ns; /* monotonic */
        bool there;
    } known[S3_NOTES]; /* mu */
    unsigned next;     /* mu */
};

struct s3 {
    struct store_params params;
    struct http *http;
    struct s3_cred *cred;
    char *bucket;
    char *prefix;   /* "" or "a/b/" */
    char *endpoint; /* as given, or NULL */
    bool path_style, region_given;
    bool dualstack, fips, accelerate; /* which of Amazon's servers, where endpoint is none */
    struct s3_terms terms;
    bool clear_tokens;                      /* may go where anybody sees them */
    bool google;                            /* it is spoken to in Google's words (gs_words.c) */
    _Atomic(const struct s3_place *) place; /* where requests go now */
    pthread_mutex_t places_mu;              /* a leaf but for the log's */
    struct s3_place *places;                /* places_mu: all there were, the last one first */
    /* the server's clock minus ours, once it has refused a request for that */
    atomic_int_fast64_t skew_ns;
    atomic_int_fast64_t warned_ns;      /* when the last retry was logged */
    uint64_t single_put_max, part_size; /* bytes; larger files go up in parts */
    /* the same for copies inside the bucket; S3 allows 5 GiB at most */
    uint64_t single_copy_max, copy_part_size;
    unsigned parallel_parts;
    struct pace pace;
    struct s3_notes notes;
    bool s3fs;                 /* others make links, too: any small object may be one */
    atomic_bool unconditional; /* the server refuses requests with conditions */
};

/* -- opening and closing (s3.c) ---------------------------------------------------------------- */

/* Of a URL; the rest is the caller's. NULL: INVALID (InvalidURL). */
struct s3 *s3_new(const struct store_params *p, struct err *e);
void s3_close(void *impl);
void s3_contact(void *impl, char **server, char **who);
/* Its client, and as whom it asks. */
int s3_connect(struct s3 *s, struct err *e);

/* -- its place (s3_place.c) -----------------------------------------------------------------------
 */

/* By the options. INVALID (InvalidOption). s3_places_close() in either case. */
int s3_places_open(struct s3 *s, struct err *e);
/* At s->endpoint and nowhere else, whatever the region. */
void s3_places_open_fixed(struct s3 *s);
void s3_places_close(struct s3 *s);
/* Pure: "https://host" of a checked endpoint as requests name it: in lower case and without the
 * usual port, which libcurl leaves out of the Host header that is signed. Caller frees. */
char *s3_origin(const char *url);
/* The value of an option that is a server: without a path, and one that the cluster allows.
 * INVALID, DENIED (InvalidOption). */
int s3_endpoint_check(
    const struct store_params *p, const char *option, const char *url, struct err *e);
bool s3_is_amazons(const char *endpoint); /* of a URL */
/* The server asked says that the bucket is in another region (its word is not trusted). True:
 * requests go elsewhere now, so try again. False: option region was given, which holds; the server
 * leads in a circle; the region is no region. */
bool s3_place_learn(struct s3 *s, const struct s3_place *asked, const char *region);
/* The region in words of the server at that place, "" if it does not tell: a request of its own. */
void s3_place_ask(
    struct s3 *s, const struct s3_place *place, const struct retry *r, char region[S3_REGION_MAX]);

/* -- names (s3_name.c) ------------------------------------------------------------------------ */

/* pure; caller frees both */
int s3_url_parse(const char *rest, char **bucket, char **prefix, const char **problem);
char *s3_key(const struct s3 *s, const char *path); /* prefix + path; caller frees */
char *s3_name(const struct s3 *s, const char *key); /* "s3://bucket/key"; caller frees */
/* "x-amz-copy-source: /bucket/key"; caller frees. */
char *s3_copy_source(const struct s3 *s, const char *key);
/* As listings name it: from an ETag, or without one from size and time. */
void s3_version(const char *etag, uint64_t size, int64_t mtime_ns, char out[STORE_VERSION_MAX]);

/* -- one request (s3_request.c) ---------------------------------------------------------------- */

struct s3_call {
    const char *method;
    const char *key; /* NULL: the bucket itself */
    const struct sigv4_pair *query;
    size_t nquery;
    /* further "name: value" lines up to NULL, names in lower case; x-amz-… are signed */
    const char *const *headers;
    const void *body;
    size_t body_len;
    bool from_fd; /* the body is fd_len bytes of fd from fd_off */
    int fd;
    uint64_t fd_off, fd_len;
    sink_fn sink; /* as of http_req */
    int (*begin)(void *sink_user, const struct http_resp *resp);
    void *sink_user;
    size_t max_body; /* of the answer; 0: 64 KiB */
    /* the server may say nothing for that long besides, see s3_inside_ns */
    int64_t inside_ns;
    unsigned does;     /* S3_MAKES …: which of the terms go with it */
    bool await_answer; /* as of http_req */
    bool sums;         /* the terms' checksum of the body goes with it, if they have one */
    uint64_t *sum;     /* gets it; or NULL */
    const char *what;  /* object for error texts; NULL: from key */
};

struct s3_outcome {
    int status;
    struct s3_fault fault;
    int64_t after_ns;             /* -1: the server did not say */
    unsigned generation;          /* of the credentials used */
    const struct s3_place *place; /* that was asked */
    bool elsewhere;               /* the bucket is not at that place; fault.region may tell where */
    bool moved;                   /* the one extra attempt at another place is spent */
    /* the one extra attempt for new credentials or a corrected clock is spent */
    bool healed;
};

/* One attempt. 0: 2xx. resp is always initialised. */
int s3_once(struct s3 *s, const struct s3_call *c, const struct retry *r, struct http_resp *resp,
    struct s3_outcome *out, struct err *e);
/* After s3_once failed: is there a point in another attempt now? Waits as needed. Where credentials
 * have expired and others are not to be had, e says why from then on. */
bool s3_again(struct s3 *s, struct retry *r, struct s3_outcome *out, struct err *e);
/* As many attempts as it takes. */
int s3_do(struct s3 *s, const struct s3_call *c, struct retry *r, struct http_resp *resp,
    struct s3_outcome *out, struct err *e);
/* Copy and CompleteMultipartUpload may answer 200 with an error in the body: then -1. */
int s3_check_body(struct s3 *s, const struct s3_call *c, const struct http_resp *resp,
    struct s3_outcome *out, struct err *e);

/* What an answer says of the version of its object, as listings do: its ETag, or at Google its
 * generation. NULL: nothing. */
const char *s3_tag(const struct s3 *s, const struct http_resp *resp, char *out, size_t cap);

/* How long a server may take to copy or put together so many bytes by itself before it answers:
 * added to a call's deadline. */
int64_t s3_inside_ns(uint64_t len);

/* "bytes 0-9/10": which bytes an answer has. False: it is not that. */
bool s3_content_range(const char *text, uint64_t *first, uint64_t *last, uint64_t *total);

/* -- errors (s3_error.c) ---------------------------------------------------------------------- */

/* Fills e from an error answer (body and headers) to a call; returns -1. */
int s3_fail(struct s3 *s, const struct s3_call *c, const struct s3_outcome *out, struct err *e);
/* The bucket is said to be at another place: a code or status that means it. */
bool s3_is_elsewhere(int status, const char *code);
/* The same where no answer came at all: inner is http_do's. */
int s3_fail_network(const struct s3 *s, const struct s3_call *c, const struct s3_place *place,
    const struct err *inner, struct err *e);

/* -- operations (s3_read.c, s3_write.c) ------------------------------------------------------ */

int s3_check(void *impl, struct err *e);
int s3_stat(void *impl, const char *path, struct store_stat *st, struct err *e);
int s3_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int s3_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int s3_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
int s3_read_whole(void *impl, const char *path, const char *version, size_t len, sink_fn sink,
    void *user, const atomic_bool *cancel, struct err *e);
/* One page of keys; max 0: as many as the server gives. */
int s3_page(struct s3 *s, const char *prefix, bool delimiter, const char *token, unsigned max,
    struct retry *r, struct s3_page *page, struct err *e);
int s3_put(void *impl, const char *path, const struct store_put *put, struct store_stat *st,
    struct err *e);
int s3_remove(void *impl, const char *path, struct err *e);
int s3_remove_version(void *impl, const char *path, const char *expect, struct err *e);
int s3_mkdir(void *impl, const char *path, uint64_t mark, struct err *e);
int s3_rmdir(void *impl, const char *path, struct err *e);
int s3_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e);

int s3_copy(void *impl, const char *from, const char *to, const char *expect, struct store_stat *st,
    struct err *e);

/* One request; expect "" leaves a mark on the object. meta: a further header line, or NULL. *etag:
 * caller frees. */
int s3_put_single(struct s3 *s, const char *key, const struct store_put *put, const char *meta,
    char **etag, struct err *e);
/* Stats what was just written. */
void s3_stat_written(
    struct s3 *s, const char *path, const char *etag, uint64_t len, struct store_stat *st);

#define S3_OPTION_S3FS "s3fs"
#define S3_OPTION_S3FS_HELP                                                                        \
    "true: s3fs or another client makes symbolic links in the bucket: each small object is asked " \
    "for whether it is one; default: only in directories in which Millrace made some"

/* -- symbolic links (s3_link.c) -------------------------------------------------------------- */

#define S3_MODE_HEADER "x-amz-meta-mode"
#define S3_LINKS_NOTE  ".millrace-links" /* beside links: listings show it to us alone */
void s3_notes_init(struct s3_notes *n);
void s3_notes_fini(struct s3_notes *n);
bool s3_note_hides(const char *name);
void s3_note_forget(struct s3 *s, const char *key); /* the note of that key is gone */
bool s3_may_be_link(uint64_t size);                 /* an object of so many bytes */
bool s3_mode_is_link(const char *text);             /* pure: of the header */
/* An object of that size is about to be copied: if it may be a link, its new directory gets a note.
 */
int s3_note_copied(struct s3 *s, const char *from, const char *to, uint64_t size, struct err *e);
int s3_symlink(
    void *impl, const char *path, const char *target, struct store_stat *st, struct err *e);
int s3_ask(void *impl, const char *path, struct store_stat *st, struct err *e);

/* -- conditions (s3_condition.c) ------------------------------------------------------------- */

/* The header that makes a request conditional, caller frees; NULL: expect is NULL, or the server
 * does not know such, or the version is none that it knows. */
char *s3_condition(struct s3 *s, const char *expect);
/* Another version is there: fills e, returns -1. */
int s3_fail_expected(struct s3 *s, const char *key, const char *expect, struct err *e);
/* Asks by a request of its own whether expect holds; 0: it does. CONFLICT. */
int s3_look(struct s3 *s, const char *key, const char *expect, struct err *e);
/* After a conditional request failed: because of its condition, and e says so now? */
bool s3_conflict(
    struct s3 *s, const char *key, const char *expect, const struct s3_outcome *out, struct err *e);
/* After a conditional request failed: does the server not know such? */
bool s3_knows_no_condition(const struct s3_outcome *out);
/* The same, for those that put. From now on none is
 * sent, and s3_look has to do. */
bool s3_no_conditions(struct s3 *s, const struct s3_outcome *out);

/* A random number on an object that tells whose request made it. */
#define S3_MARK_HEADER "x-amz-meta-millrace-upload"
#define S3_MARK_LEN    40
int s3_mark(uint64_t number, char mark[S3_MARK_LEN], struct err *e); /* 0: at random */
/* Is the object there, with that mark? *etag: caller frees. */
bool s3_is_marked(struct s3 *s, const char *key, const char *mark, char **etag);

/* s3_multipart.c: puts len bytes together at key in parts, from fd, or (fd < 0) from the object
 * copy_from; expect as of store_put. *etag: of the new object, caller frees. */
struct s3_large {
    const char *key;
    int fd;
    const char *copy_from, *copy_etag;
    uint64_t len;
    const char *expect;
    const atomic_bool *cancel; /* may be NULL */
};
int s3_multipart(struct s3 *s, const struct s3_large *what, char **etag, struct err *e);
/* pure: at least wanted, at most 10,000 parts */
uint64_t s3_part_size(uint64_t len, uint64_t wanted);

/* All of struct store_ops but kind and open: of whoever speaks S3, in whatever words. */
#define S3_OPS                                                                                 \
    .close = s3_close, .check = s3_check, .contact = s3_contact, .stat_path = s3_stat,         \
    .ask = s3_ask, .list = s3_list, .list_tree = s3_list_tree, .read = s3_read,                \
    .read_whole = s3_read_whole, .put = s3_put, .symlink = s3_symlink, .hides = s3_note_hides, \
    .remove = s3_remove, .remove_version = s3_remove_version, .mkdir = s3_mkdir,               \
    .rmdir = s3_rmdir, .rename = s3_rename, .copy = s3_copy

#endif
