/* SPDX-License-Identifier: Apache-2.0 */
/* crash_fixture — what tests of crashes do and look at. */
#ifndef MILLRACE_TESTS_UNIT_FUSE_FILE_CRASH_FIXTURE_H
#define MILLRACE_TESTS_UNIT_FUSE_FILE_CRASH_FIXTURE_H

#include "tests/unit/fuse/file/file_fixture.h"

#include "fuse/file/kept.h"

/* The machine goes down and comes back: another boot, and a new index. */
void fx_power_cut(struct fx *x);
/* Asks to save it, as fsync does, and wants 0 or that errno. */
void fx_upload(struct fx *x, const char *path, int want);
/* So many files are kept aside, one of that path for that reason among them (NULL: any). */
void fx_kept(struct fx *x, unsigned files, const char *path, const char *why);

#endif
