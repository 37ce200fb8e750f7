/* SPDX-License-Identifier: Apache-2.0 */
/* commit_fixture — uploads that nobody waits for, one by one, as tests want them. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_FILE_COMMIT_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_FILE_COMMIT_FIXTURE_H

#include "tests/unit/fuse/file/crash_fixture.h"

#include "fuse/file/sidecar.h"

/* What is closed, and waits, is to be uploaded now. */
void fx_due(struct fx *x, uint64_t ino);
/* As the uploader does it: 0 or errno. */
int fx_behind(struct fx *x, uint64_t ino);

/* An upload that is held in the store, and its end: 0 or errno. */
struct fx_behind {
    struct fx *x;
    uint64_t ino;
    int rc;
    pthread_t thread;
};
void fx_begin_held(struct fx_behind *b, struct fx *x, uint64_t ino);
void fx_begin_held_in(struct fx_behind *b, struct fx *x, uint64_t ino, enum fake_call call);
int fx_end_held(struct fx_behind *b);

/* There is a note, and it says so. */
void fx_note(struct fx *x, uint64_t ino, struct sidecar *note);

#endif
