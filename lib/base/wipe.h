/* SPDX-License-Identifier: Apache-2.0 */
/* wipe — secrets leave memory with the last who had them. */
#ifndef MILLRACE_LIB_BASE_WIPE_H
#define MILLRACE_LIB_BASE_WIPE_H

void wipe_text(char **s); /* overwrites it, frees it, NULL is fine; *s is NULL then */

#endif
