/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about extended attributes: there are four of our own, and none that users set. */
#include "fuse/ops/ops.h"

#include "fuse/ops/location.h"
#include "fuse/report/status.h"
#include "lib/base/buf.h"
#include "lib/base/names.h"

#include <errno.h>
#include <string.h>

#define STATUS_MAX      (60u << 10) /* the kernel allows 64 KiB */
#define ERROR_LATELY_NS (10 * 60 * NS_PER_S)

static void reply_xattr(fuse_req_t req, const char *value, size_t len, size_t size)
{
    if (size == 0)
        fuse_reply_xattr(req, len);
    else if (size < len)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, value, len);
}

static void reply_why(fuse_req_t req, size_t size)
{
    char text[LAST_ERROR_MAX];
    cleanup_buf struct buf why = BUF_INIT(STATUS_MAX);
    int64_t age = files_latest_error(ops_fs(req)->files, text);
    bool lately = age >= 0 && age < ERROR_LATELY_NS;
    status_why(ops_fs(req)->status, fuse_req_ctx(req)->pid, lately ? text : NULL, age, &why);
    reply_xattr(req, buf_str(&why), why.len, size);
}

static void reply_location(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    cleanup_buf struct buf text = BUF_INIT(STATUS_MAX);
    struct err e = ERR_INIT;
    if (location_json(ops_fs(req), ino, &text, &e))
        fuse_reply_err(req, err_errno(&e));
    else
        reply_xattr(req, buf_str(&text), text.len, size);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    char text[LAST_ERROR_MAX];
    if (ino == FUSE_ROOT_ID && strcmp(name, XATTR_STATUS) == 0) {
        cleanup_buf struct buf status = BUF_INIT(STATUS_MAX);
        status_json(ops_fs(req)->status, &status);
        reply_xattr(req, buf_str(&status), status.len, size);
    } else if (ino == FUSE_ROOT_ID && strcmp(name, XATTR_WHY) == 0) {
        reply_why(req, size);
    } else if (strcmp(name, XATTR_LOCATION) == 0) {
        reply_location(req, ino, size);
    } else if (strcmp(name, XATTR_ERROR) == 0 && files_last_error(ops_fs(req)->files, ino, text)) {
        reply_xattr(req, text, strlen(text), size);
    } else {
        fuse_reply_err(req, ENODATA);
    }
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    char text[LAST_ERROR_MAX];
    size_t len = files_last_error(ops_fs(req)->files, ino, text) ? sizeof XATTR_ERROR : 0;
    reply_xattr(req, XATTR_ERROR, len, size);
}

void op_setxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
    (void)ino;
    (void)name;
    (void)value;
    (void)size;
    (void)flags;
    fuse_reply_err(req, EOPNOTSUPP);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    (void)ino;
    (void)name;
    fuse_reply_err(req, ENODATA);
}
