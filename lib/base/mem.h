/* SPDX-License-Identifier: Apache-2.0 */
/* mem — allocation that aborts on OOM (operator, csi, tools), and cleanup helpers. The data path of
 * fuse uses malloc directly and answers ENOMEM. Ownership in names: _new gives, _take steals,
 * _borrow. */
#ifndef MILLRACE_LIB_BASE_MEM_H
#define MILLRACE_LIB_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>

void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s); /* NULL stays NULL */
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* `cleanup_free char *s = …` frees at scope exit; `return steal(&s)` hands it over. */
static inline void *steal_ptr(void *pp)
{
    void **p = pp, *v = *p;
    *p = NULL;
    return v;
}
#define steal(pp) ((__typeof__(*(pp)))steal_ptr(pp))

void cleanup_freep(void *pp);
void cleanup_fdp(int *fd);
void cleanup_filep(void *pp);
#define cleanup_free __attribute__((cleanup(cleanup_freep)))
#define cleanup_fd   __attribute__((cleanup(cleanup_fdp)))   /* closes if >= 0 */
#define cleanup_file __attribute__((cleanup(cleanup_filep))) /* FILE *: fclose */

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

#endif
