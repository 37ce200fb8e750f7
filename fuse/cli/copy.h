/* SPDX-License-Identifier: Apache-2.0 */
/* copy — files from one place to another, whatever each of them is: many at a time, and a large one
 * in many pieces at a time. */
#ifndef MILLRACE_FUSE_CLI_COPY_H
#define MILLRACE_FUSE_CLI_COPY_H

#include "fuse/cli/place.h"
#include "fuse/cli/progress.h"

#include "lib/base/map.h"

/* From here on a signal ends copies early, and nothing half is left under a name; then the process
 * ends by it. */
void copy_catch_signals(void);
bool copy_interrupted(void);
const atomic_bool *copy_cancel(void); /* set by that signal */
/* Nothing that follows can be half: a signal is nobody's business any more, and one that came ends
 * the process. */
void copy_release_signals(void);
void copy_end_by_signal(void);
/* What ended it all is told; where it was that nobody reads what is printed, the process ends by
 * that without a word. */
void copy_failed(struct progress *progress, const struct err *e);
/* src was looked at (place_stat) and is no directory. */
int copy_one(struct cli_place *src, const struct place_entry *file, struct cli_place *dst,
    struct progress *progress, struct err *e);
/* The content of the directory src, which was looked at, goes into dst, which is made if it is not
 * there. What fails, or is no regular file, is told in progress and the rest is copied. -1: nothing
 * could be. found: gets the names of the files, with the versions (char *) that are copied; may be
 * NULL. */
int copy_tree(struct cli_place *src, struct cli_place *dst, bool verbose, struct map *found,
    struct progress *progress, struct err *e);
/* What cannot be: onto itself, into itself. */
int copy_check(const struct cli_place *src, const struct cli_place *dst, bool tree, struct err *e);
/* Where a copy of src goes to, that is to lie at dst or in the directory dst; caller frees. */
char *copy_destination(const struct args *a, const char *src, const char *dst);

#endif
