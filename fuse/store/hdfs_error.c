/* SPDX-License-Identifier: Apache-2.0 */
/* What the exceptions mean that WebHDFS answers with. */
#include "fuse/store/hdfs.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *exception, *words; /* words: in the message, NULL: whatever it says */
    enum err_class cls;
    int sys;
    enum reason reason;
    const char *advice;
} hdfs_meanings[] = {
    {"StandbyException", NULL, ERR_RETRY, EIO, REASON_UNREACHABLE,
        "; none of the name nodes is active: name all of them in option name-nodes"},
    {NULL, "ame node is in safe mode", ERR_RETRY, EIO, REASON_UNREACHABLE,
        "; nothing can be written until its data nodes have reported (or `hdfs dfsadmin -safemode leave`)"},
    {"SafeModeException", NULL, ERR_RETRY, EIO, REASON_UNREACHABLE,
        "; nothing can be written until its data nodes have reported (or `hdfs dfsadmin -safemode leave`)"},
    {"RetriableException", NULL, ERR_RETRY, EIO, REASON_STORE_ERROR, ""},
    {"FileNotFoundException", NULL, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, ""},
    {"SecurityException", "token", ERR_DENIED, EACCES, REASON_EXPIRED,
        "; put a new delegation token into the Secret"},
    {"SecurityException", "Failed to obtain user group information", ERR_DENIED, EACCES,
        REASON_EXPIRED, "; is it a delegation token? Put a new one into the Secret"},
    {"InvalidToken", NULL, ERR_DENIED, EACCES, REASON_EXPIRED,
        "; put a new delegation token into the Secret"},
    {"AccessControlException", NULL, ERR_DENIED, EACCES, REASON_ACCESS_DENIED,
        "; give the user the right in HDFS (`hdfs dfs -chmod`, `-chown`, `-setfacl`), or set another one in option user"},
    {"SecurityException", NULL, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, ""},
    {"AuthenticationException", NULL, ERR_DENIED, EACCES, REASON_ACCESS_DENIED,
        "; is krb5.conf of the name node's realm?"},
    {"AuthorizationException", NULL, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, ""},
    {"FileAlreadyExistsException", NULL, ERR_EXISTS, EEXIST, REASON_STORE_ERROR, ""},
    {"ParentNotDirectoryException", NULL, ERR_INVALID, ENOTDIR, REASON_STORE_ERROR, ""},
    {"PathIsNotEmptyDirectoryException", NULL, ERR_EXISTS, ENOTEMPTY, REASON_STORE_ERROR, ""},
    {NULL, "estination directory is not empty", ERR_EXISTS, ENOTEMPTY, REASON_STORE_ERROR, ""},
    {NULL, "must both be directories", ERR_INVALID, EISDIR, REASON_STORE_ERROR, ""},
    {"IOException", "under source", ERR_INVALID, EINVAL, REASON_STORE_ERROR, ""},
    {"InvalidPathException", NULL, ERR_INVALID, EINVAL, REASON_STORE_ERROR, ""},
    {"PathComponentTooLongException", NULL, ERR_INVALID, ENAMETOOLONG, REASON_STORE_ERROR, ""},
    {"MaxDirectoryItemsExceededException", NULL, ERR_EXHAUSTED, ENOSPC, REASON_STORE_ERROR,
        "; the directory has as many entries as it may (dfs.namenode.fs-limits.max-directory-items)"},
    {"NSQuotaExceededException", NULL, ERR_EXHAUSTED, EDQUOT, REASON_STORE_ERROR,
        "; raise it by `hdfs dfsadmin -setQuota`"},
    {"DSQuotaExceededException", NULL, ERR_EXHAUSTED, EDQUOT, REASON_STORE_ERROR,
        "; raise it by `hdfs dfsadmin -setSpaceQuota`"},
    {"QuotaByStorageTypeExceededException", NULL, ERR_EXHAUSTED, EDQUOT, REASON_STORE_ERROR, ""},
    {"BlockMissingException", NULL, ERR_RETRY, EIO, REASON_STORE_ERROR,
        "; no data node that runs has these bytes: see `hdfs fsck`"},
    {NULL, "could only be written to 0", ERR_RETRY, EIO, REASON_STORE_ERROR,
        "; no data node takes it: see `hdfs dfsadmin -report`"},
    {NULL, "Failed to find datanode", ERR_RETRY, EIO, REASON_STORE_ERROR,
        "; no data node runs that could: see `hdfs dfsadmin -report`"},
    {NULL, "out of the range", ERR_INVALID, EINVAL, REASON_STORE_ERROR,
        ": past the end of the file"},
    {"UnsupportedOperationException", NULL, ERR_INVALID, ENOTSUP, REASON_STORE_ERROR, ""},
    {"IllegalArgumentException", "user.name", ERR_INVALID, EINVAL, REASON_INVALID_OPTION,
        "; correct option user"},
    {"IllegalArgumentException", NULL, ERR_INVALID, EINVAL, REASON_STORE_ERROR, ""},
};

static bool means(size_t i, const struct hdfs_fault *f)
{
    return (!hdfs_meanings[i].exception || strcmp(hdfs_meanings[i].exception, f->exception) == 0)
        && (!hdfs_meanings[i].words || strstr(f->message, hdfs_meanings[i].words));
}

static int fail_status(
    const struct hdfs *h, const struct hdfs_call *c, int status, const char *message, struct err *e)
{
    enum err_class cls = http_class_of_status(status);
    if (cls == ERR_DENIED)
        return store_err(e, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, c->what, " (%d): %s%s%s",
            status, message, *message ? "; " : "",
            h->by_kerberos ? "HDFS does not take the ticket of Kerberos"
                : h->token || h->user
                ? "check the user, or the delegation token, and its rights"
                : "set option user, or delegation-token from a Secret, or option kerberos");
    if (cls == ERR_NOTFOUND) /* not WebHDFS' own words */
        return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
            ": the server answers %d: is there WebHDFS (dfs.webhdfs.enabled) at %s?", status,
            h->node[atomic_load(&h->active)]);
    return store_err(e, cls, cls == ERR_INVALID ? EINVAL : EIO, REASON_STORE_ERROR, c->what,
        ": the server answers %d%s%s", status, *message ? ": " : "", message);
}

int hdfs_fail(const struct hdfs *h, const struct hdfs_call *c, const struct http_resp *resp,
    bool *standby, struct err *e)
{
    struct hdfs_fault f;
    hdfs_json_fault(resp->body.data ? resp->body.data : "", resp->body.len, &f);
    *standby = strcmp(f.exception, "StandbyException") == 0;
    if (!*f.exception)
        return fail_status(h, c, resp->status, f.message, e);
    for (size_t i = 0; i < ARRAY_LEN(hdfs_meanings); i++)
        if (means(i, &f))
            return store_err(e, hdfs_meanings[i].cls, hdfs_meanings[i].sys, hdfs_meanings[i].reason,
                c->what, ": %s%s", *f.message ? f.message : f.exception,
                h->by_kerberos && hdfs_meanings[i].reason == REASON_EXPIRED
                    ? ""
                    : hdfs_meanings[i].advice);
    if (resp->status == 403 || resp->status == 400) /* WebHDFS' way to say IOException */
        return store_err(
            e, ERR_RETRY, EIO, REASON_STORE_ERROR, c->what, ": %s: %s", f.exception, f.message);
    return fail_status(h, c, resp->status, *f.message ? f.message : f.exception, e);
}

int hdfs_fail_answer(const struct hdfs_call *c, const struct err *inner, struct err *e)
{
    return store_err(e, ERR_INVALID, EINVAL, REASON_STORE_ERROR, c->what,
        ": the answer to %s is not WebHDFS': %s", c->op, inner->msg);
}
