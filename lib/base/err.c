/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/err.h"

#include "lib/base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, enum err_class cls, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    text_end_whole(e->msg);
    e->cls = cls;
    e->sys = 0;
    return -1;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
    if (!e)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg) {
        char text[128];
        snprintf(
            e->msg + n, sizeof e->msg - (size_t)n, ": %s", strerror_r(errnum, text, sizeof text));
    }
    text_end_whole(e->msg);
    e->cls = err_class_of_errno(errnum);
    e->sys = errnum;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -1;
    char inner[sizeof e->msg];
    memcpy(inner, e->msg, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg) {
        size_t left = sizeof e->msg - (size_t)n;
        if (snprintf(e->msg + n, left, ": %s", inner) >= (int)left)
            e->msg[sizeof e->msg - 1] = '\0';
    }
    text_end_whole(e->msg);
    return -1;
}

void err_clear(struct err *e)
{
    if (!e)
        return;
    e->cls = ERR_NONE;
    e->sys = 0;
    e->msg[0] = '\0';
}

const char *err_class_name(enum err_class cls)
{
    switch (cls) {
    case ERR_NONE:
        return "none";
    case ERR_RETRY:
        return "retry";
    case ERR_CONFLICT:
        return "conflict";
    case ERR_NOTFOUND:
        return "notfound";
    case ERR_EXISTS:
        return "exists";
    case ERR_INVALID:
        return "invalid";
    case ERR_DENIED:
        return "denied";
    case ERR_EXHAUSTED:
        return "exhausted";
    case ERR_FATAL:
        return "fatal";
    }
    return "unknown";
}

enum err_class err_class_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case ENODEV:
        return ERR_NOTFOUND;
    case EEXIST:
    case ENOTEMPTY:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
        return ERR_EXHAUSTED;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
    case ELOOP:
        return ERR_INVALID;
    case ESTALE:
    case EBUSY:
        return ERR_CONFLICT;
    default:
        return ERR_RETRY;
    }
}

int err_errno(const struct err *e)
{
    if (e->sys)
        return e->sys;
    switch (e->cls) {
    case ERR_NOTFOUND:
        return ENOENT;
    case ERR_EXISTS:
        return EEXIST;
    case ERR_INVALID:
        return EINVAL;
    case ERR_DENIED:
        return EACCES;
    case ERR_EXHAUSTED:
        return ENOSPC;
    case ERR_CONFLICT:
        return ESTALE;
    case ERR_NONE:
    case ERR_RETRY:
    case ERR_FATAL:
        break;
    }
    return EIO;
}
