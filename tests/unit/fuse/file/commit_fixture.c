/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/file/commit_fixture.h"

void fx_due(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    assert_non_null(f);
    assert_true(atomic_load(&f->due_ns) > 0);
    atomic_store(&f->due_ns, 1);
    files_put(f);
}

int fx_behind(struct fx *x, uint64_t ino)
{
    struct err e = ERR_INIT;
    struct file *f = files_get(x->files, ino, &e);
    assert_non_null(f);
    pthread_mutex_lock(&f->state_lock);
    int rc = file_upload_behind(f, &e);
    if (rc == 0)
        file_finish(f);
    pthread_mutex_unlock(&f->state_lock);
    files_put(f);
    return rc ? err_errno(&e) : 0;
}

static void *behind_thread(void *user)
{
    struct fx_behind *b = user;
    b->rc = fx_behind(b->x, b->ino);
    return NULL;
}

void fx_begin_held(struct fx_behind *b, struct fx *x, uint64_t ino)
{
    fx_begin_held_in(b, x, ino, FAKE_PUT);
}

void fx_begin_held_in(struct fx_behind *b, struct fx *x, uint64_t ino, enum fake_call call)
{
    *b = (struct fx_behind){.x = x, .ino = ino, .rc = -1};
    fake_store_hold(x->fake[0], call);
    assert_int_equal(pthread_create(&b->thread, NULL, behind_thread, b), 0);
    fake_store_wait_held(x->fake[0]);
}

int fx_end_held(struct fx_behind *b)
{
    fake_store_go(b->x->fake[0]);
    pthread_join(b->thread, NULL);
    return b->rc;
}

void fx_note(struct fx *x, uint64_t ino, struct sidecar *note)
{
    cleanup_free char *content = fx_staging_file(x, ino), *name = xasprintf("%s.path", content);
    struct err e = ERR_INIT;
    assert_int_equal(sidecar_read(name, note, &e), 0);
}
