/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fuse/file/crash_fixture.h"

#include "fuse/file/sidecar.h"
#include "lib/base/file.h"

#include <dirent.h>

/* fn for every note. */
static void each_note(struct fx *x, void (*fn)(const char *file))
{
    DIR *d = opendir(x->stage_dir);
    assert_non_null(d);
    for (struct dirent *de; (de = readdir(d));) {
        size_t len = strlen(de->d_name);
        cleanup_free char *file = path_join(x->stage_dir, de->d_name);
        if (len > 5 && strcmp(de->d_name + len - 5, ".path") == 0)
            fn(file);
    }
    closedir(d);
}

static void of_another_boot(const char *file)
{
    struct sidecar s;
    struct err e = ERR_INIT;
    assert_int_equal(sidecar_read(file, &s, &e), 0);
    assert_int_equal(strlen(s.boot), BOOT_ID_LEN - 1);
    snprintf(s.boot, sizeof s.boot, "b3f0c1d2-0000-4000-8000-000000000001");
    assert_int_equal(sidecar_write(file, &s, false, &e), 0);
}

void fx_power_cut(struct fx *x)
{
    each_note(x, of_another_boot);
    fx_restart(x, false);
}

void fx_upload(struct fx *x, const char *path, int want)
{
    struct err e = ERR_INIT;
    int rc = files_save(x->files, fx_ino(x, path), true, &e);
    assert_int_equal(rc ? err_errno(&e) : 0, want);
}

void fx_kept(struct fx *x, unsigned files, const char *path, const char *why)
{
    struct kept k;
    kept_list(x->stage_dir, &k);
    assert_int_equal(k.files, files);
    assert_int_equal(k.nshown, files);
    bool found = !path;
    for (size_t i = 0; i < k.nshown; i++)
        found = found || (strcmp(k.shown[i].path, path) == 0 && strcmp(k.shown[i].why, why) == 0);
    assert_true(found);
    kept_free(&k);
}
