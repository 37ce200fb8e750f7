/* SPDX-License-Identifier: Apache-2.0 */
/* hdfs — inside of the HDFS store, which speaks WebHDFS with name nodes, data nodes and HttpFS:
 * where they are, one request with the redirects, what a file is, its bytes, changes. */
#ifndef MILLRACE_FUSE_STORE_HDFS_H
#define MILLRACE_FUSE_STORE_HDFS_H

#include "fuse/store/hdfs_json.h"
#include "fuse/store/impl.h"
#include "fuse/store/kerberos.h"

#include <pthread.h>

#define HDFS_NODES_MAX 8u
/* of files and directories that are being made: not shown in listings */
#define HDFS_TEMP_PREFIX ".millrace-put-"

struct hdfs {
    struct store_params params;
    struct http *http;
    char *node[HDFS_NODES_MAX]; /* "http://host:port" of name nodes, or "https://…" */
    unsigned nnodes;
    atomic_uint active; /* the node that answered last */
    bool tls;
    char *root;                 /* path in HDFS: "" or "/a/b" */
    char *user;                 /* NULL: none is said */
    char *replication;          /* NULL: as the server does it */
    atomic_bool whole_listings; /* the server knows no pages */
    bool by_kerberos;           /* the token is one that we have got by ticket */
    struct kerberos ticket;
    pthread_mutex_t ticket_mu; /* held while a token is got or renewed; before mu */
    struct err ticket_err;     /* ticket_mu; why none could be got … */
    int64_t ticket_failed_ns;  /* ticket_mu; … and when; monotonic; 0: never */
    pthread_mutex_t mu;        /* a leaf */
    char *token;               /* mu; a delegation token; NULL: none */
    int64_t token_read_ns;     /* mu; monotonic; 0: never */
    unsigned token_changes;    /* mu */
    bool token_refused;        /* mu */
    int64_t token_expires_ms;  /* mu; as the server said, since the epoch */
    int64_t token_due_ns;      /* mu; monotonic; to be renewed */
    int64_t token_end_ns;      /* mu; monotonic */
};

struct hdfs_call {
    const char *method, *op;
    const char *path;  /* absolute, as HDFS knows it */
    const char *query; /* "&name=value", escaped; or NULL */
    bool by_ticket;    /* as whoever the ticket of Kerberos is of, not by a token */
    bool upload;       /* len bytes of fd go to where the server leads; fd -1: nothing */
    int fd;
    uint64_t len;
    sink_fn sink; /* as of http_req */
    int (*begin)(void *sink_user, const struct http_resp *resp);
    void *sink_user;
    size_t max_body;
    const char *what;   /* for error texts */
    char excluded[256]; /* hdfs_once's own: a data node that failed, "host:port" */
};

/* One attempt: at each of the name nodes until one is active, redirects followed. 0: 2xx. resp is
 * always initialised. */
int hdfs_once(struct hdfs *h, struct hdfs_call *c, const struct retry *r, struct http_resp *resp,
    int64_t *after_ns, struct err *e);
/* As many as it takes. */
int hdfs_do(
    struct hdfs *h, struct hdfs_call *c, struct retry *r, struct http_resp *resp, struct err *e);
/* "&delegation=…", "&user.name=…" or "". Caller wipes and frees. NULL: e. */
char *hdfs_authority(struct hdfs *h, struct err *e);
/* The token was refused; changes: hdfs_token_changes() before it was asked for. Is there another?
 */
bool hdfs_token_renewed(struct hdfs *h, unsigned changes);
unsigned hdfs_token_changes(struct hdfs *h);
/* Of a token that was got by ticket. */
enum hdfs_token_state {
    HDFS_TOKEN_GOOD,
    HDFS_TOKEN_DUE,  /* good, and half of its life is over */
    HDFS_TOKEN_NONE, /* there is none, or none that is accepted */
};
enum hdfs_token_state hdfs_token_state(struct hdfs *h);
/* Copies it. false: it is the one that we have, and expires no later than before. */
bool hdfs_token_keep(struct hdfs *h, const char *token, int64_t expires_ms);
char *hdfs_token_copy(struct hdfs *h);   /* NULL: none; caller wipes and frees */
void hdfs_token_put_off(struct hdfs *h); /* it could not be renewed: not again at once */
/* What a status that is not 2xx means. *standby: another name node is to be asked. */
int hdfs_fail(const struct hdfs *h, const struct hdfs_call *c, const struct http_resp *resp,
    bool *standby, struct err *e);
int hdfs_fail_answer(const struct hdfs_call *c, const struct err *inner, struct err *e);

char *hdfs_path(const struct hdfs *h, const char *path); /* in HDFS; caller frees */
char *hdfs_name(const struct hdfs *h, const char *path); /* for messages; caller frees */
/* Could HDFS have that name? INVALID: it could not; of a path below the mount. */
int hdfs_check_name(const struct hdfs *h, const char *path, struct err *e);
int hdfs_check_root(const struct hdfs *h, struct err *e); /* the same, of the URL's */
/* Of an absolute path. */
int hdfs_status_of(struct hdfs *h, const char *absolute, const char *what, struct retry *r,
    struct hdfs_status *out, struct err *e);
int hdfs_page(struct hdfs *h, const char *absolute, const char *what, const char *after,
    hdfs_entry_fn fn, void *user, char **last, bool *more, struct err *e);

int hdfs_check(void *impl, struct err *e);
int hdfs_stat(void *impl, const char *path, struct store_stat *st, struct err *e);
int hdfs_read(void *impl, const char *path, const char *version, uint64_t off, size_t len,
    sink_fn sink, void *user, const atomic_bool *cancel, struct err *e);
bool hdfs_hides(const char *name); /* of files and directories that are being made */
int hdfs_list(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int hdfs_list_tree(
    void *impl, const char *dir, char **cursor, store_list_fn fn, void *user, struct err *e);
int hdfs_put(void *impl, const char *path, const struct store_put *put, struct store_stat *st,
    struct err *e);
int hdfs_remove(void *impl, const char *path, struct err *e);
int hdfs_mkdir(void *impl, const char *path, uint64_t mark, struct err *e);
int hdfs_rmdir(void *impl, const char *path, struct err *e);
int hdfs_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e);

#endif
