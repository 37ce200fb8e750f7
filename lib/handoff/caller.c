/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/handoff/caller.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define UID_LEN 36

/* A UID at p, written with dashes or (by systemd) with underscores. */
static bool take_uid(const char *p, char out[CALLER_MAX])
{
    for (int i = 0; i < UID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? p[i] != '-' && p[i] != '_' : !isxdigit((unsigned char)p[i]))
            return false;
        out[i] = dash ? '-' : p[i];
    }
    out[UID_LEN] = '\0';
    return true;
}

void caller_of_cgroup(const char *text, char out[CALLER_MAX])
{
    /* kubepods/pod<uid>/…, kubepods-pod<uid>.slice */
    for (const char *p = text; (p = strstr(p, "pod")); p += 3)
        if (take_uid(p + 3, out))
            return;
    snprintf(out, CALLER_MAX, CALLER_UNKNOWN);
    /* "4:memory:/path", "0::/path" */
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t len = strcspn(line, "\n");
        const char *path = memchr(line, ':', len);
        path = path ? memchr(path + 1, ':', len - (size_t)(path + 1 - line)) : NULL;
        if (!path)
            continue;
        path++;
        len -= (size_t)(path - line);
        size_t skip = len < CALLER_MAX ? 0 : len - CALLER_MAX + 1;
        if (len > 1) {
            snprintf(out, CALLER_MAX, "%.*s", (int)(len - skip), path + skip);
            return;
        }
    }
}

void caller_of_pid(pid_t pid, char out[CALLER_MAX])
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    cleanup_free char *text = pid > 0 ? file_read(path, 16384, NULL, NULL) : NULL;
    caller_of_cgroup(text ? text : "", out);
}
