/* SPDX-License-Identifier: Apache-2.0 */
/* What a web server sends instead of an index page or a list: every name that is taken from it is
 * one that a file can have. */
#include "fuse/store/store.h"
#include "fuse/store/web_index.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check_name(void *user, const char *name)
{
    char *component = strdup(name);
    size_t n = strlen(component);
    (void)user;
    if (n && component[n - 1] == '/')
        component[n - 1] = '\0';
    if (!*component || strpbrk(component, "/\n") || !store_path_ok(component))
        abort();
    free(component);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *path;
    uint64_t bytes;
    bool bad;
    memcpy(text, data, size);
    text[size] = '\0';
    const struct web_index_fns fns = {check_name, NULL, NULL};
    web_index_names(text, size, "https://h/a/b/", &fns);
    const char *line = text;
    while (web_manifest_line(&line, text + size, &path, &bytes, &bad)) {
        if (path && !bad && (!*path || !store_path_ok(path)))
            abort();
        free(path);
    }
    free(text);
    return 0;
}
