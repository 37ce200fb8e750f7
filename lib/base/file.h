/* SPDX-License-Identifier: Apache-2.0 */
/* file — whole small files and directories. */
#ifndef MILLRACE_LIB_BASE_FILE_H
#define MILLRACE_LIB_BASE_FILE_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* caller frees; NUL-terminated; > max: EXHAUSTED */
char *file_read(const char *path, size_t max, size_t *len, struct err *e);
/* temp + fsync + rename */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e);
/* like mkdir -p; an existing directory is fine */
int file_mkdirs(const char *path, mode_t mode, struct err *e);
/* What was renamed, made or removed in it stays so after a power cut. */
int file_sync_dir(const char *dir, struct err *e);
/* like rm -rf, of any depth; absent is fine. Whoever may write in the tree, and changes it
 * meanwhile, cannot lead it elsewhere: no link is followed, no other mount entered. */
int file_remove_tree(const char *path, struct err *e);
char *path_join(const char *dir, const char *name); /* caller frees; one slash between */

/* Makes the directory (mode, as file_mkdirs) and locks it for this process: descriptor to close, or
 * -1. Waits until the process that holds it ends or until_mono_ns (INT64_MAX: forever); CONFLICT:
 * it holds it still. */
int dir_lock(const char *dir, mode_t mode, int64_t until_mono_ns, struct err *e);
/* The same of a file, which is made if it is absent. */
int file_lock(const char *path, int64_t until_mono_ns, struct err *e);
#define BOOT_ID_LEN 37 /* with its NUL */
/* Which boot of the machine this is; "" if the kernel does not say. The rest of out is zeroed. */
void boot_id(char *out, size_t size);

#endif
