/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/mutex.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void mutex_check_held(const pthread_mutex_t *m, const char *what, const char *file, int line)
{
#ifdef __GLIBC__
    if (m->__data.__owner == gettid())
        return;
    fprintf(stderr, "%s:%d: %s is not held by this thread\n", file, line, what);
    abort();
#else
    (void)m, (void)what, (void)file, (void)line;
#endif
}
