/* SPDX-License-Identifier: Apache-2.0 */
/* store — a store in memory, behind the same table of functions as S3 and directories: what a test
 * puts into it is there, calls can be counted, can fail and can be held up, and files change behind
 * the back of those who use it. Threads: any. */
#ifndef MILLRACE_TESTS_FAKE_STORE_H
#define MILLRACE_TESTS_FAKE_STORE_H

#include "fuse/store/store.h"

enum fake_call {
    FAKE_STAT,
    FAKE_LIST,
    FAKE_READ,
    FAKE_ASK,
    FAKE_PUT,
    FAKE_SYMLINK,
    FAKE_REMOVE,
    FAKE_MKDIR,
    FAKE_RMDIR,
    FAKE_RENAME,
    FAKE_COPY,
    FAKE_SET_ATTR,
    FAKE_CALLS
};

struct fake_store; /* opaque */
/* caps: enum store_cap, STORE_CAP_WRITE among them unless it is read-only. */
struct fake_store *fake_store_new(unsigned caps);
void fake_store_free(struct fake_store *f); /* and its struct store */
struct store *fake_store(struct fake_store *f);

/* The content: as another user of the store changes and sees it. Directories above come by
 * themselves. */
void fake_store_write(struct fake_store *f, const char *path, const char *text);
void fake_store_link(struct fake_store *f, const char *path, const char *target);
void fake_store_mkdir(struct fake_store *f, const char *path);
void fake_store_delete(struct fake_store *f, const char *path); /* with all that is below */
bool fake_store_has(struct fake_store *f, const char *path);
/* Caller frees; NULL: no such file. */
char *fake_store_text(struct fake_store *f, const char *path);

/* The next `times` calls of this kind fail, after `skip` that do not; sys 0: by class. Nothing of
 * them has happened. */
void fake_store_fail(struct fake_store *f, enum fake_call call, enum err_class cls, int sys,
    unsigned skip, unsigned times);
/* The next put is done, and its answer is lost: it fails as RETRY. */
void fake_store_lose_answer(struct fake_store *f);
/* Calls of this kind wait until fake_store_go(); fake_store_wait_held() returns when one does. */
void fake_store_hold(struct fake_store *f, enum fake_call call);
/* The next one (a listing, stat, put or rename) is done, and answers after fake_store_go(). */
void fake_store_hold_answer(struct fake_store *f, enum fake_call call);
void fake_store_wait_held(struct fake_store *f);
void fake_store_go_on(struct fake_store *f, enum fake_call call); /* those alone */
void fake_store_go(struct fake_store *f);
unsigned fake_store_calls(struct fake_store *f, enum fake_call call); /* so far, failed ones too */
/* From now on a put that was held up, and is told to end meanwhile, does so. */
void fake_store_heed_cancel(struct fake_store *f);
/* It takes attributes; before anybody else uses it. */
void fake_store_keep_attr(struct fake_store *f);
/* Its listings and stats do not tell links from files: store_ask() does. */
void fake_store_leave_unasked(struct fake_store *f);
/* The times of what is written from now on, since the epoch; 0: unknown to this store. */
void fake_store_set_mtime(struct fake_store *f, int64_t mtime_ns);
/* Listings come in pages of so many entries; 0: in one. Names must not change in the middle of one.
 */
void fake_store_set_page(struct fake_store *f, size_t entries);

#endif
