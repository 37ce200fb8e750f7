/* SPDX-License-Identifier: Apache-2.0 */
/* The HDFS store, changing. What is new is made under another name beside it and renamed, which is
 * atomic: with option NONE nothing is replaced, with OVERWRITE what is there is. Whether a rename
 * whose answer was lost has happened is told by the inode, which stays the same. */
#include "fuse/store/hdfs.h"

#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NS_PER_MIB NS_PER_S
#define TIDY_NS    (3 * NS_PER_S) /* for removing what has failed */
#define MARK_NAME  "user.millrace.made"

/* -- small requests ------------------------------------------------------------------------------
 */

/* {"boolean": …} of a request; *done is true where the answer holds none. */
static int ask_boolean(
    struct hdfs *h, struct hdfs_call *c, struct retry *r, bool *done, struct err *e)
{
    cleanup_resp struct http_resp resp = {0};
    struct err inner = ERR_INIT;
    *done = true;
    if (hdfs_do(h, c, r, &resp, e))
        return -1;
    if (resp.body.len && hdfs_json_boolean(buf_str(&resp.body), resp.body.len, done, &inner))
        return hdfs_fail_answer(c, &inner, e);
    return 0;
}

/* *gone: there was something. */
static int delete_path(struct hdfs *h, const char *absolute, bool recursive, const char *what,
    struct retry *r, bool *gone, struct err *e)
{
    struct hdfs_call c = {.method = "DELETE",
        .op = "DELETE",
        .path = absolute,
        .query = recursive ? "&recursive=true" : "&recursive=false",
        .what = what};
    return ask_boolean(h, &c, r, gone, e);
}

static void tidy(struct hdfs *h, const char *absolute)
{
    struct retry r = RETRY_INIT(TIDY_NS, NULL);
    struct err ignored = ERR_INIT;
    bool gone;
    delete_path(h, absolute, true, absolute, &r, &gone, &ignored);
}

static int change_attribute(struct hdfs *h, const char *op, const char *absolute, const char *query,
    const char *what, struct retry *r, struct err *e)
{
    struct hdfs_call c = {
        .method = "PUT", .op = op, .path = absolute, .query = query, .what = what};
    cleanup_resp struct http_resp resp = {0};
    return hdfs_do(h, &c, r, &resp, e);
}

/* An HDFS without extended attributes keeps none: then nothing is ever found to be one's own. */
static void set_made(struct hdfs *h, const char *absolute, uint64_t mark, struct retry *r)
{
    struct err ignored = ERR_INIT;
    cleanup_free char *query = xasprintf(
        "&xattr.name=" MARK_NAME "&xattr.value=%%22%016" PRIx64 "%%22&flag=CREATE", mark);
    if (mark)
        change_attribute(h, "SETXATTR", absolute, query, absolute, r, &ignored);
}

/* Was it made by an earlier call with that mark? */
static bool was_made(struct hdfs *h, const char *absolute, uint64_t mark, struct retry *r)
{
    struct hdfs_call c = {.method = "GET",
        .op = "GETXATTRS",
        .path = absolute,
        .query = "&xattr.name=" MARK_NAME "&encoding=text",
        .what = absolute};
    cleanup_resp struct http_resp resp = {0};
    struct err ignored = ERR_INIT;
    char want[17];
    if (!mark || hdfs_do(h, &c, r, &resp, &ignored))
        return false;
    snprintf(want, sizeof want, "%016" PRIx64, mark);
    cleanup_free char *is = hdfs_json_attribute(buf_str(&resp.body), resp.body.len, MARK_NAME);
    return is && strcmp(is, want) == 0;
}

/* -- names ----------------------------------------------------------------------------------------
 */

/* Where a change is made. */
struct hdfs_place {
    char *absolute, *what, *parent;
    char *temp;                    /* beside it */
    struct hdfs_status above, was; /* was: what is there, with id 0 and no type where nothing is */
    bool there;
};

static void hdfs_place_free(struct hdfs_place *p)
{
    free(p->absolute);
    free(p->what);
    free(p->parent);
    free(p->temp);
}
#define cleanup_hdfs_place __attribute__((cleanup(hdfs_place_free)))

static int new_temp(struct hdfs_place *p, struct err *e)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(e, errno, "get a random number");
    free(p->temp);
    p->temp = xasprintf(
        "%s/" HDFS_TEMP_PREFIX "%016" PRIx64, strcmp(p->parent, "/") ? p->parent : "", random);
    return 0;
}

/* *there: false, where there is nothing. */
static int hdfs_look(struct hdfs *h, const char *absolute, const char *what, struct retry *r,
    struct hdfs_status *out, bool *there, struct err *e)
{
    struct err inner = ERR_INIT;
    *there = hdfs_status_of(h, absolute, what, r, out, &inner) == 0;
    if (*there || inner.cls == ERR_NOTFOUND)
        return 0;
    *e = inner;
    return -1;
}

/* path is to be made in a directory that is there. */
static int hdfs_place_open(
    struct hdfs *h, const char *path, struct retry *r, struct hdfs_place *p, struct err *e)
{
    if (hdfs_check_name(h, path, e))
        return -1;
    p->absolute = hdfs_path(h, path);
    p->what = hdfs_name(h, path);
    p->parent = xstrndup(p->absolute, (size_t)(strrchr(p->absolute, '/') - p->absolute));
    if (!*p->parent) {
        free(p->parent);
        p->parent = xstrdup("/");
    }
    if (hdfs_status_of(h, p->parent, p->what, r, &p->above, e))
        return -1;
    if (!p->above.st.is_dir)
        return store_err(e, ERR_INVALID, ENOTDIR, REASON_STORE_ERROR, p->what,
            ": what it is to be in is a file");
    return hdfs_look(h, p->absolute, p->what, r, &p->was, &p->there, e) || new_temp(p, e) ? -1 : 0;
}

/* from, with that inode, becomes to. *gone: it did not, and what was there may be removed. */
static int move(struct hdfs *h, const char *from, const char *to, bool replace, uint64_t id,
    const char *what, struct retry *r, bool *gone, struct err *e)
{
    *gone = false;
    cleanup_free char *target = http_escape(to, true);
    cleanup_free char *query = xasprintf(
        "&destination=%s&renameoptions=%s", target, replace ? "OVERWRITE" : "NONE");
    struct hdfs_call c = {
        .method = "PUT", .op = "RENAME", .path = from, .query = query, .what = what};
    struct hdfs_status there;
    bool done, is_there, deleted;
    for (int removed = 0;; removed++) {
        int rc = ask_boolean(h, &c, r, &done, e);
        if (rc == 0 && done)
            return 0;
        if (rc && e->cls != ERR_NOTFOUND && e->cls != ERR_EXISTS)
            return -1;
        struct err inner = ERR_INIT;
        if (hdfs_look(h, to, what, r, &there, &is_there, &inner) == 0 && is_there && id
            && there.id == id)
            return 0; /* by an attempt whose answer was lost */
        if (rc)
            return -1;
        /* HttpFS replaces nothing, and says no more than that it did not */
        if (is_there && !replace)
            return store_err(
                e, ERR_EXISTS, EEXIST, REASON_STORE_ERROR, what, ": the name is taken");
        if (!is_there || there.st.is_dir || removed)
            return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what,
                ": it cannot be renamed: it is gone, or the other directory is");
        *gone = true; /* perhaps, where the answer is lost */
        if (delete_path(h, to, false, what, r, &deleted, e)) {
            *gone = e->cls == ERR_RETRY;
            return -1;
        }
    }
}

/* -- put ------------------------------------------------------------------------------------------
 */

static int hdfs_unexpected(const char *what, const char *expect, struct err *e)
{
    return *expect ? store_err(e, ERR_CONFLICT, ESTALE, REASON_STORE_ERROR, what,
               ": it was changed by somebody else since it was read")
                   : store_err(e, ERR_CONFLICT, EEXIST, REASON_STORE_ERROR, what,
                       ": somebody else has made a file of that name");
}

/* -1: something else is there than may be replaced. */
static int check_expected(const struct hdfs_place *p, const char *expect, struct err *e)
{
    if (expect && (*expect ? !p->there || strcmp(p->was.st.version, expect) != 0 : p->there))
        return hdfs_unexpected(p->what, expect, e);
    if (p->there && p->was.st.is_dir)
        return store_err(
            e, ERR_INVALID, EISDIR, REASON_STORE_ERROR, p->what, ": it is a directory");
    return 0;
}

/* To a name that nobody has used: what is left of an attempt that was cut off stands in no way. The
 * directory is named by its inode, as data nodes decode a path twice. */
static int send_content(struct hdfs *h, struct hdfs_place *p, const struct store_put *put,
    struct retry *r, struct hdfs_status *made, struct err *e)
{
    cleanup_free char *query = xasprintf("&overwrite=false&createparent=false%s%s",
        h->replication ? "&replication=" : "", h->replication ? h->replication : "");
    struct hdfs_call c = {.method = "PUT",
        .op = "CREATE",
        .query = query,
        .upload = true,
        .fd = put->fd,
        .len = put->len,
        .what = p->what};
    int64_t after_ns;
    for (;;) {
        cleanup_resp struct http_resp resp = {0};
        cleanup_free char *by_inode = p->above.id
            ? xasprintf("/.reserved/.inodes/%" PRIu64 "%s", p->above.id, strrchr(p->temp, '/'))
            : xstrdup(p->temp);
        c.path = by_inode;
        if (hdfs_once(h, &c, r, &resp, &after_ns, e) == 0)
            break;
        tidy(h, p->temp);
        if (new_temp(p, e) || !retry_again(r, e, after_ns))
            return -1;
    }
    if (hdfs_status_of(h, p->temp, p->what, r, made, e))
        return -1;
    return made->st.size == put->len
        ? 0
        : store_err(e, ERR_RETRY, EIO, REASON_STORE_ERROR, p->what,
            ": the data node has kept %" PRIu64 " of %" PRIu64 " bytes", made->st.size, put->len);
}

/* A file that replaces another one is as open to others as that was. Whose it was only the
 * superuser can keep. */
static int keep_rights(struct hdfs *h, const struct hdfs_place *p, const struct hdfs_status *made,
    struct retry *r, struct err *e)
{
    struct err ignored = ERR_INIT;
    if (!p->there)
        return 0;
    if (strcmp(made->owner, p->was.owner) != 0 || strcmp(made->group, p->was.group) != 0) {
        cleanup_free char *owner = http_escape(p->was.owner, false);
        cleanup_free char *group = http_escape(p->was.group, false);
        cleanup_free char *query = strcmp(made->owner, p->was.owner) == 0
            ? xasprintf("&group=%s", group)
            : xasprintf("&owner=%s&group=%s", owner, group);
        change_attribute(h, "SETOWNER", p->temp, query, p->what, r, &ignored);
    }
    if (made->permission == p->was.permission)
        return 0;
    cleanup_free char *query = xasprintf("&permission=%o", p->was.permission);
    return change_attribute(h, "SETPERMISSION", p->temp, query, p->what, r, e);
}

/* *keep: what was there is gone, and what was sent is all that there is. */
static int put_at(struct hdfs *h, struct hdfs_place *p, const struct store_put *put,
    struct retry *r, struct store_stat *st, bool *keep, struct err *e)
{
    struct hdfs_status made;
    bool exclusive = put->expect && !*put->expect;
    if (send_content(h, p, put, r, &made, e) || keep_rights(h, p, &made, r, e))
        return -1;
    set_made(h, p->temp, put->mark, r);
    if (put->certain) /* once it has its name, it is there */
        r->cancel = NULL;
    if (put->expect && !exclusive
        && (hdfs_look(h, p->absolute, p->what, r, &p->was, &p->there, e)
            || check_expected(p, put->expect, e)))
        return -1;
    if (move(h, p->temp, p->absolute, !exclusive, made.id, p->what, r, keep, e))
        return exclusive && e->cls == ERR_EXISTS ? hdfs_unexpected(p->what, "", e) : -1;
    *st = made.st;
    return 0;
}

int hdfs_put(
    void *impl, const char *path, const struct store_put *put, struct store_stat *st, struct err *e)
{
    struct hdfs *h = impl;
    struct retry r = RETRY_INIT(
        h->params.deadline_ns + (int64_t)(put->len >> 20) * NS_PER_MIB, put->cancel);
    cleanup_hdfs_place struct hdfs_place p = {0};
    if (hdfs_place_open(h, path, &r, &p, e))
        return -1;
    bool began = check_expected(&p, put->expect, e) == 0, keep = false;
    if (began && put_at(h, &p, put, &r, st, &keep, e) == 0)
        return 0;
    if (keep)
        return err_wrap(e, "the file before it may be removed, its new content is in %s", p.temp);
    if (began)
        tidy(h, p.temp);
    if (e->cls != ERR_CONFLICT || !put->expect || *put->expect)
        return -1;
    /* an earlier attempt of the same put, whose maker did not live to hear the answer */
    struct err inner = ERR_INIT;
    if (hdfs_look(h, p.absolute, p.what, &r, &p.was, &p.there, &inner) || !p.there
        || p.was.st.is_dir || p.was.st.size || !was_made(h, p.absolute, put->mark, &r))
        return -1;
    *st = p.was.st;
    return 0;
}

/* -- remove, directories, rename ------------------------------------------------------------------
 */

/* Of a file or a directory: what it is was looked at just before. */
static int remove_one(struct hdfs *h, const char *path, bool is_dir, struct err *e)
{
    struct retry r = RETRY_INIT(h->params.deadline_ns, NULL);
    cleanup_free char *absolute = hdfs_path(h, path), *what = hdfs_name(h, path);
    struct hdfs_status status;
    bool gone;
    if (hdfs_status_of(h, absolute, what, &r, &status, e))
        return -1;
    if (status.st.is_dir != is_dir)
        return store_err(e, ERR_INVALID, is_dir ? ENOTDIR : EISDIR, REASON_STORE_ERROR, what,
            is_dir ? ": it is not a directory" : ": it is a directory");
    unsigned before = r.attempt;
    if (delete_path(h, absolute, false, what, &r, &gone, e))
        return -1;
    if (gone || r.attempt > before)
        return 0;
    return store_err(e, ERR_NOTFOUND, ENOENT, REASON_NOT_FOUND, what, ": it is gone already");
}

int hdfs_remove(void *impl, const char *path, struct err *e)
{
    return remove_one(impl, path, false, e);
}

int hdfs_mkdir(void *impl, const char *path, uint64_t mark, struct err *e)
{
    struct hdfs *h = impl;
    struct retry r = RETRY_INIT(h->params.deadline_ns, NULL);
    cleanup_hdfs_place struct hdfs_place p = {0};
    struct hdfs_status made;
    bool done, gone;
    if (hdfs_place_open(h, path, &r, &p, e))
        return -1;
    if (!p.there) {
        struct hdfs_call c = {.method = "PUT", .op = "MKDIRS", .path = p.temp, .what = p.what};
        if (ask_boolean(h, &c, &r, &done, e) || hdfs_status_of(h, p.temp, p.what, &r, &made, e)) {
            tidy(h, p.temp);
            return -1;
        }
        set_made(h, p.temp, mark, &r);
        if (move(h, p.temp, p.absolute, false, made.id, p.what, &r, &gone, e) == 0)
            return 0;
        tidy(h, p.temp);
        if (e->cls != ERR_EXISTS)
            return -1;
    }
    if (was_made(h, p.absolute, mark, &r))
        return 0;
    return store_err(
        e, ERR_EXISTS, EEXIST, REASON_STORE_ERROR, p.what, ": the name is taken already");
}

struct leavings {
    struct hdfs *h;
    const char *dir;
    bool other;
};

static int remove_leaving(void *user, const char *name, const struct hdfs_status *status)
{
    struct leavings *l = user;
    (void)status;
    l->other |= !hdfs_hides(name);
    if (l->other)
        return 1;
    cleanup_free char *temp = xasprintf("%s/%s", l->dir, name);
    tidy(l->h, temp);
    return 0;
}

/* What killed uploads have left in a directory that looks empty to its user is in no way. */
int hdfs_rmdir(void *impl, const char *path, struct err *e)
{
    struct hdfs *h = impl;
    cleanup_free char *absolute = hdfs_path(h, path), *what = hdfs_name(h, path), *last = NULL;
    struct leavings l = {h, absolute, false};
    struct err inner = ERR_INIT;
    bool more;
    if (remove_one(h, path, true, e) == 0)
        return 0;
    if (e->cls != ERR_EXISTS
        || hdfs_page(h, absolute, what, NULL, remove_leaving, &l, &last, &more, &inner) || l.other)
        return -1;
    return remove_one(h, path, true, e);
}

int hdfs_rename(void *impl, const char *from, const char *to, const char *expect,
    struct store_stat *st, struct err *e)
{
    struct hdfs *h = impl;
    struct retry r = RETRY_INIT(h->params.deadline_ns, NULL);
    cleanup_hdfs_place struct hdfs_place p = {0};
    cleanup_free char *source = hdfs_path(h, from), *what = hdfs_name(h, from);
    struct hdfs_status is;
    bool gone;
    if (hdfs_status_of(h, source, what, &r, &is, e) || hdfs_place_open(h, to, &r, &p, e))
        return -1;
    if (expect && strcmp(is.st.version, expect) != 0)
        return hdfs_unexpected(what, expect, e);
    if (p.there && p.was.st.is_dir != is.st.is_dir)
        return store_err(e, ERR_INVALID, is.st.is_dir ? ENOTDIR : EISDIR, REASON_STORE_ERROR,
            p.what, is.st.is_dir ? ": it is a file" : ": it is a directory");
    if (move(h, source, p.absolute, true, is.id, what, &r, &gone, e))
        return -1;
    *st = is.st;
    return 0;
}
