/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/wipe.h"

#include <stdlib.h>
#include <string.h>

void wipe_text(char **s)
{
    if (*s)
        explicit_bzero(*s, strlen(*s));
    free(*s);
    *s = NULL;
}
