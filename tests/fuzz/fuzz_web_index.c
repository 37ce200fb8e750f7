/* SPDX-License-Identifier: Apache-2.0 */
/* What a web server sends instead of an index page, a list or a page of a repository: every name
 * that is taken from it is one that a file can have. */
#include "fuse/store/store.h"
#include "fuse/store/web_hub.h"
#include "fuse/store/web_index.h"

#include <stdio.h>
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

static int check_entry(void *user, const struct store_entry *entry)
{
    (void)user;
    if (!*entry->name || !store_path_ok(entry->name) || strchr(entry->name, '\n'))
        abort();
    return 0;
}

static void read_as_repository(const char *text, size_t size)
{
    struct err e = ERR_INIT;
    struct web_hub *h = web_hub_new("https://h/a/b/resolve/main/s%20b/");
    char version[STORE_VERSION_MAX];
    web_hub_page(text, size, h, "", check_entry, NULL, &e);
    web_hub_free(h);
    free(web_next_page(text));
    web_hub_version(text, version);
    char *base = malloc(size + 16);
    sprintf(base, "https://%s/", text);
    web_hub_free(web_hub_new(base));
    free(base);
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
    read_as_repository(text, size);
    free(text);
    return 0;
}
