/* SPDX-License-Identifier: Apache-2.0 */
/* text — bytes that may be UTF-8: cutting them, and making them fit to be shown. Pure. */
#ifndef MILLRACE_LIB_BASE_TEXT_H
#define MILLRACE_LIB_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at s, of which len are there; 0 if there is none: a broken, cut or
 * overlong form, a surrogate. NUL is a character. */
size_t text_char(const char *s, size_t len);
/* The largest length up to max (and len) that ends in no middle of a character; one that len itself
 * cuts is left out, too. */
size_t text_whole(const char *s, size_t len, size_t max);
/* Cuts a text that may have been cut in the middle of a character; returns it. */
char *text_end_whole(char *s);
/* Does it hold a character that nobody sees (zero-width, of direction, a byte-order mark), or a
 * blank that is none? The rules of spec.mounts[].mountPoint refuse the same. What is no character
 * is passed over. */
bool text_has_unseen(const char *s, size_t len);
/* The same as text of at most max bytes: what is no character, and NUL, becomes U+FFFD, a byte
 * each. Caller frees. */
char *text_legible(const char *s, size_t len, size_t max);

#endif
