/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/web_lead.h"

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/http/http.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHOWN_MAX 200

char *web_shown_lead(const char *sent)
{
    cleanup_free char *shown = http_shown_url(sent), *line = NULL;
    const char *at = strrchr(shown, '@'); /* of a password with a slash in it, or of a name */
    line = text_legible(at ? at + 1 : shown, strlen(at ? at + 1 : shown), SHOWN_MAX);
    return xasprintf("%s%s", at ? "…@" : "", line);
}

char *web_led_to(const char *url, const char *location)
{
    const char *host = strstr(url, "://") + 3;
    if (strncasecmp(location, "https://", 8) == 0
        || (strncasecmp(location, "http://", 7) == 0 && strncmp(url, "https:", 6) != 0))
        return xasprintf("%s%s", tolower((unsigned char)location[4]) == 's' ? "https" : "http",
            strchr(location, ':'));
    size_t name = strcspn(location, ":/?#");
    if (location[name] == ':' || strncmp(location, "//", 2) == 0 || !*location)
        return NULL;
    size_t origin = (size_t)(host - url) + strcspn(host, "/?#");
    if (location[0] == '/')
        return xasprintf("%.*s%s", (int)origin, url, location);
    size_t path = origin + strcspn(url + origin, "?#");
    while (path > origin && url[path - 1] != '/')
        path--;
    return path > origin ? xasprintf("%.*s%s", (int)path, url, location) : NULL;
}

/* "https://host:443", in lower case, caller frees; "" of what is no URL. */
static char *whole_origin(const char *url)
{
    const char *host = strstr(url, "://");
    if (!host)
        return xstrdup("");
    size_t n = (size_t)(host + 3 - url) + strcspn(host + 3, "/?#");
    char *origin = xstrndup(url, n);
    for (char *p = origin; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    const char *end = strrchr(origin + (host + 3 - url), ':'),
               *bracket = strrchr(origin, ']'); /* [::1]:80 */
    if (end && !(bracket && bracket > end))
        return origin;
    char *whole = xasprintf("%s:%d", origin, strncmp(origin, "https:", 6) == 0 ? 443 : 80);
    free(origin);
    return whole;
}

bool web_same_origin(const char *a, const char *b)
{
    cleanup_free char *one = whole_origin(a), *other = whole_origin(b);
    return *one && strcmp(one, other) == 0 && !strchr(one, '@');
}

bool web_may_lead(const char *url, char *const *endpoints, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (web_same_origin(url, endpoints[i]))
            return true;
    return n == 0;
}
