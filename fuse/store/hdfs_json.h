/* SPDX-License-Identifier: Apache-2.0 */
/* hdfs_json — what WebHDFS answers: statuses of files, pages of listings, what went wrong, and
 * where a redirect leads. Pure; what comes from the network is not trusted. */
#ifndef MILLRACE_FUSE_STORE_HDFS_JSON_H
#define MILLRACE_FUSE_STORE_HDFS_JSON_H

#include "fuse/store/store.h"

#define HDFS_NAME_MAX 128 /* of owners and groups; NUL included */

struct hdfs_status {
    struct store_stat st;
    uint64_t id; /* of the inode; 0: not told */
    unsigned permission;
    char owner[HDFS_NAME_MAX], group[HDFS_NAME_MAX];
};

/* Of {"FileStatus": …}. -1: it is none; INVALID. */
int hdfs_json_status(const char *text, size_t len, struct hdfs_status *out, struct err *e);

/* name: one component, or "" where the listed path is a file itself; borrowed. Non-zero ends it. */
typedef int (*hdfs_entry_fn)(void *user, const char *name, const struct hdfs_status *status);
/* Of {"DirectoryListing": …} or {"FileStatuses": …}; what is neither file nor directory, or has a
 * name that no file can have, is left out. *last: name of the last entry that there is, caller
 * frees; NULL: none. *more: there are others behind it. */
int hdfs_json_listing(const char *text, size_t len, hdfs_entry_fn fn, void *user, char **last,
    bool *more, struct err *e);

struct hdfs_fault {
    char exception[64]; /* "FileNotFoundException"; "": none is told */
    char message[256];  /* its first line */
};
/* Of {"RemoteException": …}; anything else is no fault. */
void hdfs_json_fault(const char *text, size_t len, struct hdfs_fault *out);

/* {"boolean": true}; -1: it is no such answer, INVALID. */
int hdfs_json_boolean(const char *text, size_t len, bool *out, struct err *e);

/* The text of {"Token": {"urlString": …}}, caller wipes and frees; NULL: it is no such answer. */
char *hdfs_json_token(const char *text, size_t len, struct err *e);
/* {"long": 1}, of a time in ms since the epoch; -1: it is no such answer, INVALID. */
int hdfs_json_time(const char *text, size_t len, int64_t *out_ms, struct err *e);

/* The value of attribute name in {"XAttrs": …}, without its quotes. Caller frees; NULL: none. */
char *hdfs_json_attribute(const char *text, size_t len, const char *name);

/* A redirect that may be followed: http:// (not where the request was TLS) or https:// and a host,
 * no user, a path with /webhdfs/v1/ in it, nothing that has no place in a URL. *host, *nhost:
 * "host:port" in it. */
bool hdfs_redirect_ok(const char *location, bool tls, const char **host, size_t *nhost);

#endif
