/* SPDX-License-Identifier: Apache-2.0 */
/* web_lead — where an answer of a web server may lead. Pure. */
#ifndef MILLRACE_FUSE_STORE_WEB_LEAD_H
#define MILLRACE_FUSE_STORE_WEB_LEAD_H

#include <stdbool.h>
#include <stddef.h>

/* What others have sent as a URL, as messages show it: no credential is in it, though it may be no
 * URL at all. Caller frees. */
char *web_shown_lead(const char *sent);
/* The URL that a Location header means beside the one that was asked; NULL: none that is followed
 * (another scheme, from https:// to http://). Caller frees. */
char *web_led_to(const char *url, const char *location);
/* Are both of one scheme, host and port? */
bool web_same_origin(const char *a, const char *b);
/* May that URL be asked? By the servers that the cluster allows; n 0: by all. */
bool web_may_lead(const char *url, char *const *endpoints, size_t n);

#endif
