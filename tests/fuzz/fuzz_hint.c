/* SPDX-License-Identifier: Apache-2.0 */
/* A list of hints in pieces: whatever it holds, each entry is a path that is written the one way in
 * which readers are met. */
#include "fuse/prefetch/hint_list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *path)
{
    if (!*path || *path == '/' || path[strlen(path) - 1] == '/' || strstr(path, "//")
        || strchr(path, '\n'))
        abort();
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t n = strcspn(p, "/");
        if (n > INODE_NAME_MAX || (n == 1 && *p == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct hint_list *l = hint_list_new(1, 1, "/tmp", &e);
    size_t cut = size ? data[0] % size : 0;
    struct hint_entry entry;
    char path[INODE_PATH_MAX];
    if (!l)
        return 0;
    const char *text = (const char *)data;
    if (hint_list_write(l, text, cut, 1000, &e) == 0 && hint_list_publish(l, &e) == 0
        && hint_list_write(l, text + cut, size - cut, 1000, &e) == 0)
        hint_list_publish(l, &e);
    while (hint_list_next(l, UINT64_MAX, &entry)) {
        if (hint_list_path(l, &entry, path))
            abort();
        check(path);
        hint_list_weigh(l, entry.index, (uint64_t)entry.len << 20, 16 << 20);
        if (hint_list_seen(l, path, false) == HINT_UNKNOWN)
            abort();
    }
    struct hint_list_stats before, after = {0};
    hint_list_stats(l, &before);
    hint_list_free(l);
    if (!(l = hint_list_resume(1, 1, "/tmp", 1000, &e)))
        abort();
    hint_list_stats(l, &after);
    if (before.entries != after.entries)
        abort();
    hint_list_remove(l);
    hint_list_free(l);
    return 0;
}
