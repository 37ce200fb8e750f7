/* SPDX-License-Identifier: Apache-2.0 */
/* disk_priv — what the disk's two halves share: the calls that change files (disk.c), and what a
 * power cut leaves (disk_cut.c). */
#ifndef MILLRACE_TESTS_SIM_DISK_PRIV_H
#define MILLRACE_TESTS_SIM_DISK_PRIV_H

#include "tests/sim/disk.h"

#include <stddef.h>
#include <sys/types.h>

/* -- the real calls -------------------------------------------------------------------------- */

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t off);
int __real_ftruncate(int fd, off_t len);
int __real_fallocate(int fd, int mode, off_t off, off_t len);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __real_linkat(int fromdir, const char *from, int todir, const char *to, int flags);
int __real_unlink(const char *path);
int __real_unlinkat(int dir, const char *path, int flags);
int __real_mkdir(const char *path, mode_t mode);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);

/* -- what is on the disk, of disk_use()'s ---------------------------------------------------- */

_Noreturn void disk_die(const char *what);
uint64_t disk_ino(const char *path); /* of a regular file, else 0 */
void disk_shadow(uint64_t ino, const char *suffix, char out[DISK_PATH + 64]);
bool disk_all_zeros(const unsigned char *p, size_t len);
void disk_copy(int from, int to);
/* What loses its last name here may still have it on the disk. */
void disk_keep(const char *path);

#endif
