/* SPDX-License-Identifier: Apache-2.0 */
/* mutex — "m is held here", checked in sanitizer builds and free in others. It reads the owner that
 * glibc keeps in each mutex: lock, unlock and condition waits stay the pthread ones. */
#ifndef MILLRACE_LIB_BASE_MUTEX_H
#define MILLRACE_LIB_BASE_MUTEX_H

#include <pthread.h>

#if defined(MILLRACE_CHECKED) && defined(__GLIBC__)
/* Aborts the program unless the calling thread has locked m. */
#define mutex_assert_held(m) mutex_check_held(m, #m, __FILE__, __LINE__)
#else
#define mutex_assert_held(m) ((void)(m))
#endif

void mutex_check_held(const pthread_mutex_t *m, const char *what, const char *file, int line);

#endif
