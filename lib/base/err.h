/* SPDX-License-Identifier: Apache-2.0 */
/* err — one error, owned by the caller, always the last argument of a function that can fail.
 * Functions return 0/-1 (or a pointer/NULL) and fill the error only on failure; callers add context
 * with err_wrap(). A message says what was tried on which object, why it failed and, if we know,
 * what to do. Passing NULL is allowed. */
#ifndef MILLRACE_LIB_BASE_ERR_H
#define MILLRACE_LIB_BASE_ERR_H

/* What the caller can do about it. Mapped at three edges: requeue policy (operator), gRPC status
 * (csi), errno (fuse). */
enum err_class {
    ERR_NONE = 0,
    ERR_RETRY,    /* may go away by itself: network, 5xx, timeout */
    ERR_CONFLICT, /* another writer changed the object: read again */
    ERR_NOTFOUND,
    ERR_EXISTS,
    ERR_INVALID,   /* the input is wrong: a person must change it */
    ERR_DENIED,    /* credentials or permission */
    ERR_EXHAUSTED, /* memory, disk, quota */
    ERR_FATAL,     /* a bug or a broken installation */
};

struct err {
    enum err_class cls;
    int sys; /* errno behind it, 0 if none */
    char msg[512];
};

#define ERR_INIT        \
    {                   \
        ERR_NONE, 0, "" \
    }

/* Fills *e; always returns -1, so that `return err_set(...)` works. */
int err_set(struct err *e, enum err_class cls, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same from an errno value: class by err_class_of_errno(), ": strerror" appended. */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the message that is there; keeps class and errno; returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *e);

const char *err_class_name(enum err_class cls); /* "retry", "conflict", … */
enum err_class err_class_of_errno(int errnum);
int err_errno(const struct err *e); /* errno for FUSE replies; never 0 */

#endif
