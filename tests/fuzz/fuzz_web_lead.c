/* SPDX-License-Identifier: Apache-2.0 */
/* Where a web server leads: the first line is the URL that was asked, the second its Location (or a
 * header of the user's own). What is followed is http or https, never from https to http. */
#include "fuse/store/web.h"
#include "fuse/store/web_lead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 10);
    const char *scheme = size % 2 ? "http://" : "https://";
    sprintf(text, "%s%.*s", scheme, (int)size, (const char *)data);
    char *location = strchr(text, '\n');
    if (location) {
        *location++ = '\0';
        char *to = web_led_to(text, location);
        if (to && strncmp(to, "https://", 8) != 0
            && (strncmp(to, "http://", 7) != 0 || strncmp(text, "https:", 6) == 0))
            abort();
        char *allowed[] = {text};
        if (to && web_may_lead(to, allowed, 1) != web_same_origin(text, to))
            abort();
        free(to);
        if (web_header_ok(location) && strpbrk(location, "\r\n"))
            abort();
    }
    free(text);
    return 0;
}
