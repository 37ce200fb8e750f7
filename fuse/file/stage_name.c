/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/file/stage_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void stage_name_format(const struct stage_name *n, char out[STAGE_NAME_MAX])
{
    if (n->epoch)
        snprintf(out, STAGE_NAME_MAX, "s%016" PRIx64 "-%" PRIu64 "-%" PRIu64, n->epoch, n->ino,
            n->generation);
    else
        snprintf(out, STAGE_NAME_MAX, "%" PRIu64 "-%" PRIu64, n->ino, n->generation);
}

bool stage_name_parse(const char *text, struct stage_name *out)
{
    char again[STAGE_NAME_MAX];
    *out = (struct stage_name){0};
    if (*text == 's') {
        if (sscanf(text, "s%16" SCNx64 "-%" SCNu64 "-%" SCNu64, &out->epoch, &out->ino,
                &out->generation)
            != 3)
            return false;
    } else if (sscanf(text, "%" SCNu64 "-%" SCNu64, &out->ino, &out->generation) != 2) {
        return false;
    }
    stage_name_format(out, again);
    return out->ino && strcmp(text, again) == 0;
}

bool stage_name_is_content(const char *text)
{
    struct stage_name n;
    return !strchr(text, '.')
        && (strncmp(text, STAGE_NAME_LEFT, strlen(STAGE_NAME_LEFT)) == 0
            || stage_name_parse(text, &n));
}
