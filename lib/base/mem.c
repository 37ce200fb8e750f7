/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *p)
{
    if (!p) {
        static const char text[] = "out of memory\n";
        if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        }
        abort();
    }
    return p;
}

void *xmalloc(size_t n) { return checked(malloc(n ? n : 1)); }
void *xcalloc(size_t n, size_t size) { return checked(calloc(n ? n : 1, size ? size : 1)); }
void *xrealloc(void *p, size_t n) { return checked(realloc(p, n ? n : 1)); }
char *xstrdup(const char *s) { return s ? checked(strdup(s)) : NULL; }
char *xstrndup(const char *s, size_t n) { return checked(strndup(s, n)); }

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s;
    return checked(vasprintf(&s, fmt, ap) < 0 ? NULL : s);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

void cleanup_freep(void *pp) { free(*(void **)pp); }

void cleanup_fdp(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

void cleanup_filep(void *pp)
{
    FILE *f = *(FILE **)pp;
    if (f)
        fclose(f);
}
