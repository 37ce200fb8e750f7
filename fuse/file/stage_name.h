/* SPDX-License-Identifier: Apache-2.0 */
/* stage_name — what files in the staging directory are called. Content is
 * "s<epoch>-<inode>-<generation>" with the epoch of the index: no two files ever have one name,
 * however often the index is made anew. Beside it lies a note of the same name with ".path" after
 * it (sidecar.h). Earlier versions said "<inode>-<generation>", and "0-<time>-…" of what a crash
 * had left; they leave alone what does not begin with a digit. */
#ifndef MILLRACE_FUSE_FILE_STAGE_NAME_H
#define MILLRACE_FUSE_FILE_STAGE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define STAGE_NAME_MAX  64 /* bytes, with the NUL */
#define STAGE_NOTE      ".path"
#define STAGE_NAME_LEFT "0-" /* content that no index knows */

struct stage_name {
    uint64_t epoch; /* 0: by an earlier version */
    uint64_t ino, generation;
};

void stage_name_format(const struct stage_name *n, char out[STAGE_NAME_MAX]);
/* Of content that was staged for an inode; false: it is none. */
bool stage_name_parse(const char *text, struct stage_name *out);
/* Is it any content, not a note nor one that was not finished? */
bool stage_name_is_content(const char *text);

#endif
