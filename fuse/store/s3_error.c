/* SPDX-License-Identifier: Apache-2.0 */
/* What the failure of a request to S3 means, and what a person can do about it. */
#include "fuse/store/s3.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum remedy { NO_REMEDY, KEYS, RENEW, CLOCK, BUCKET, REGION, NAME, ARCHIVED, ROOM };

/* The codes that say more than their status does; the first row that fits is used. */
static const struct fault_meaning {
    const char *code;
    enum err_class cls;
    int sys;
    enum reason reason;
    enum remedy remedy;
} meanings[] = {
    {"NoSuchBucket", ERR_NOTFOUND, ENOENT, REASON_BUCKET_NOT_FOUND, BUCKET},
    {"NoSuchKey", ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, NO_REMEDY},
    {"NoSuchUpload", ERR_NOTFOUND, ENOENT, REASON_STORE_ERROR, NO_REMEDY},
    {"AccessDenied", ERR_DENIED, EACCES, REASON_ACCESS_DENIED, KEYS},
    {"InvalidAccessKeyId", ERR_DENIED, EACCES, REASON_ACCESS_DENIED, KEYS},
    /* versitygw's word for an unknown key, with status 404 */
    {"XAdminUserNotFound", ERR_DENIED, EACCES, REASON_ACCESS_DENIED, KEYS},
    {"SignatureDoesNotMatch", ERR_DENIED, EACCES, REASON_ACCESS_DENIED, KEYS},
    {"InvalidSecurity", ERR_DENIED, EACCES, REASON_ACCESS_DENIED, KEYS},
    {"ExpiredToken", ERR_DENIED, EACCES, REASON_EXPIRED, RENEW},
    {"InvalidToken", ERR_DENIED, EACCES, REASON_EXPIRED, RENEW},
    {"TokenRefreshRequired", ERR_DENIED, EACCES, REASON_EXPIRED, RENEW},
    {"RequestTimeTooSkewed", ERR_DENIED, EACCES, REASON_STORE_ERROR, CLOCK},
    {"InvalidObjectState", ERR_DENIED, EACCES, REASON_STORE_ERROR, ARCHIVED},
    {"AuthorizationHeaderMalformed", ERR_INVALID, EINVAL, REASON_INVALID_OPTION, REGION},
    {"PermanentRedirect", ERR_INVALID, EINVAL, REASON_INVALID_OPTION, REGION},
    {"IllegalLocationConstraintException", ERR_INVALID, EINVAL, REASON_INVALID_OPTION, REGION},
    {"InvalidBucketName", ERR_INVALID, EINVAL, REASON_INVALID_URL, BUCKET},
    {"KeyTooLongError", ERR_INVALID, ENAMETOOLONG, REASON_STORE_ERROR, NAME},
    {"InvalidRange", ERR_INVALID, EINVAL, REASON_STORE_ERROR, NO_REMEDY},
    {"PreconditionFailed", ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, NO_REMEDY},
    {"NotImplemented", ERR_INVALID, ENOTSUP, REASON_STORE_ERROR, NO_REMEDY},
    {"ObjectParentIsFile", ERR_INVALID, ENOTDIR, REASON_STORE_ERROR, NO_REMEDY},
    {"ExistingObjectIsDirectory", ERR_INVALID, EISDIR, REASON_STORE_ERROR, NO_REMEDY},
    {"DirectoryNotEmpty", ERR_EXISTS, ENOTEMPTY, REASON_STORE_ERROR, NO_REMEDY},
    {"EntityTooLarge", ERR_EXHAUSTED, EFBIG, REASON_STORE_ERROR, NO_REMEDY},
    {"QuotaExceeded", ERR_EXHAUSTED, EDQUOT, REASON_STORE_ERROR, ROOM},
    {"XMinioStorageFull", ERR_EXHAUSTED, ENOSPC, REASON_STORE_ERROR, ROOM},
    {"SlowDown", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
    {"RequestTimeout", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
    {"IncompleteBody", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
    {"BadDigest", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
    {"XAmzContentSHA256Mismatch", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
    {"OperationAborted", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
    {"ConditionalRequestConflict", ERR_RETRY, EIO, REASON_STORE_ERROR, NO_REMEDY},
};

static struct fault_meaning meaning_of(int status, const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (strcmp(meanings[i].code, code) == 0)
            return meanings[i];
    struct fault_meaning m = {
        code, http_class_of_status(status), EIO, REASON_STORE_ERROR, NO_REMEDY};
    if (status == 301 || status == 307 || status == 308)
        m = (struct fault_meaning){code, ERR_INVALID, EINVAL, REASON_INVALID_OPTION, REGION};
    else if (status == 401 || status == 403)
        m = (struct fault_meaning){code, ERR_DENIED, EACCES, REASON_ACCESS_DENIED, KEYS};
    else if (status == 404)
        m = (struct fault_meaning){code, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, NO_REMEDY};
    else if (status == 412)
        m = (struct fault_meaning){code, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, NO_REMEDY};
    else if (status == 501)
        m = (struct fault_meaning){code, ERR_INVALID, ENOTSUP, REASON_STORE_ERROR, NO_REMEDY};
    else if (m.cls == ERR_INVALID)
        m.sys = EINVAL;
    return m;
}

static void add_place_remedy(const struct s3 *s, struct buf *out, const struct s3_outcome *o)
{
    if (!*o->fault.region)
        buf_addf(out, ": the bucket is not in region %s at %s: set the options region and endpoint",
            o->place->region, o->place->origin);
    else if (strcmp(o->fault.region, o->place->region) == 0 && s->endpoint)
        buf_addf(out,
            ": the bucket is in region %s, and option endpoint (%s) is a server of another: correct it, or leave it out for Amazon's",
            o->fault.region, s->endpoint);
    else
        buf_addf(out, ": the bucket is in region %s, not %s: set option region to %s",
            o->fault.region, o->place->region, o->fault.region);
}

static void add_nobody_remedy(const struct s3 *s, struct buf *out)
{
    bool cluster = s->params.secrets_dir != NULL;
    const char *mend = s->google ? cluster
            ? "name a Secret with key.json in the mount's secretRef, or a service account in spec.serviceAccountName"
            : "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS"
        : cluster
        ? "name their Secret in the mount's secretRef, or a service account with a role in spec.serviceAccountName"
        : "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    buf_addf(out, ": no %s were given: %s, or let everybody read bucket %s",
        s->google ? "credentials" : "keys", mend, s->bucket);
}

static void add_keys_remedy(const struct s3 *s, struct buf *out)
{
    bool lent;
    cleanup_free char *origin = s3_cred_origin(s->cred, &lent);
    if (s3_cred_anonymous(s->cred))
        add_nobody_remedy(s, out);
    else if (lent)
        buf_addf(out, ": check what %s may do with bucket %s", origin, s->bucket);
    else
        buf_addf(
            out, ": check the keys in %s, and what they may do with bucket %s", origin, s->bucket);
}

static void add_renew_remedy(const struct s3 *s, struct buf *out)
{
    bool lent;
    cleanup_free char *origin = s3_cred_origin(s->cred, &lent);
    if (lent)
        buf_addf(out, ": the credentials of %s are renewed by themselves, but not in time", origin);
    else
        buf_addf(out, ": renew the credentials in %s", origin);
}

static void add_remedy(
    const struct s3 *s, struct buf *out, enum remedy remedy, const struct s3_outcome *o)
{
    switch (remedy) {
    case NO_REMEDY:
        if (*o->fault.message)
            buf_addf(out, ": %s", o->fault.message);
        return;
    case KEYS:
        add_keys_remedy(s, out);
        return;
    case RENEW:
        add_renew_remedy(s, out);
        return;
    case CLOCK:
        buf_adds(out,
            ": this machine's clock differs from the server's by more than the server allows: set it");
        return;
    case BUCKET:
        buf_addf(
            out, ": create bucket %s at %s, or correct mountPoint", s->bucket, o->place->origin);
        return;
    case REGION:
        add_place_remedy(s, out, o);
        return;
    case NAME:
        buf_adds(out, ": the store allows keys of at most 1024 bytes");
        return;
    case ARCHIVED:
        buf_adds(out, ": the object is archived: restore it first");
        return;
    case ROOM:
        buf_adds(out, ": the store has no room left");
        return;
    }
}

bool s3_is_elsewhere(int status, const char *code)
{
    return meaning_of(status, code).remedy == REGION;
}

static char *call_name(const struct s3 *s, const struct s3_call *c)
{
    return c->what ? xstrdup(c->what) : c->key ? s3_name(s, c->key) : xstrdup(s->params.url);
}

int s3_fail(struct s3 *s, const struct s3_call *c, const struct s3_outcome *out, struct err *e)
{
    const char *code = out->fault.code;
    struct fault_meaning m = meaning_of(out->status, code);
    cleanup_buf struct buf text = BUF_INIT(400);
    buf_addf(&text, " (%d%s%s)", out->status, *code ? " " : "", code);
    add_remedy(s, &text, m.remedy, out);
    bool whole = m.remedy == KEYS || m.remedy == RENEW || m.remedy == BUCKET || m.remedy == REGION;
    /* not this object's fault */
    cleanup_free char *what = whole ? xstrdup(s->params.url) : call_name(s, c);
    return store_err(e, m.cls, m.sys, m.reason, what, "%s", buf_str(&text));
}

int s3_fail_network(const struct s3 *s, const struct s3_call *c, const struct s3_place *place,
    const struct err *inner, struct err *e)
{
    cleanup_free char *what = call_name(s, c);
    if (inner->sys == ECANCELED)
        return store_err(e, ERR_RETRY, ECANCELED, REASON_STORE_ERROR, what, ": cancelled");
    if (inner->cls == ERR_DENIED)
        return store_err(e, ERR_DENIED, EIO, REASON_TLS_FAILED, s->params.url,
            ": %s; name the authority's certificates in caBundle (or option ca-cert)", inner->msg);
    if (strstr(inner->msg, "wrong version number")) /* OpenSSL's words for an answer without TLS */
        return store_err(e, ERR_RETRY, EIO, REASON_TLS_FAILED, s->params.url,
            ": %s speaks no TLS: write http:// instead of https:// in option endpoint, or another port",
            place->origin);
    if (inner->cls == ERR_EXHAUSTED || inner->cls == ERR_INVALID)
        return store_err(e, inner->cls, inner->sys, REASON_STORE_ERROR, what, ": %s", inner->msg);
    if (inner->sys == EADDRNOTAVAIL)
        return store_err(e, ERR_RETRY, EIO, REASON_NAME_NOT_RESOLVED, s->params.url,
            s->endpoint
                ? ": the name of %s does not resolve: check option endpoint"
                : ": the name of %s does not resolve: without option endpoint the bucket is one of "
                  "Amazon's: set it for another server; else check option region, and DNS",
            place->origin);
    return store_err(e, ERR_RETRY, EIO, REASON_UNREACHABLE, what,
        ": %s; is option endpoint right, and does the server run?", inner->msg);
}
