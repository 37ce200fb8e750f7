/* SPDX-License-Identifier: Apache-2.0 */
/* lookups — look-ups of names that were left behind. getaddrinfo() cannot be interrupted: each of
 * them holds a thread until the resolver gives up, so there is a limit of them. Of the process.
 * Threads: any. Lock: a leaf. */
#ifndef MILLRACE_LIB_HTTP_LOOKUPS_H
#define MILLRACE_LIB_HTTP_LOOKUPS_H

#include <stdbool.h>
#include <stdint.h>

#define LOOKUPS_LEFT_MAX 32
/* What a resolver takes: three servers, twice, 5 s each, and as long for each suffix of
 * resolv.conf. Nobody tells when one ends, so all are taken to end in that time. */
#define LOOKUP_NS (60 * INT64_C(1000000000))

void lookups_leave(int64_t now_ns); /* mono */
/* Were so many left behind in that time that no other name is to be looked up? */
bool lookups_hang(int64_t now_ns);
/* Is the host of the URL an address, which takes no look-up? */
bool lookups_spares(const char *url);

#endif
