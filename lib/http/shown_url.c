/* SPDX-License-Identifier: Apache-2.0 */
/* URLs as messages show them. */
#include "lib/base/mem.h"
#include "lib/http/http.h"

#include <string.h>

char *http_shown_url(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const char *at = memrchr(host, '@', strcspn(host, "/?#"));
    const char *from = at ? at + 1 : host;
    return xasprintf("%.*s%.*s", (int)(host - url), url, (int)strcspn(from, "?#"), from);
}
