/* SPDX-License-Identifier: Apache-2.0 */
/* Mount points and options as users write them: input is lines; the first is the URL, the others
 * key=value. */
#include "fuse/store/store.h"
#include "fuse/store/web_words.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_free char *text = xstrndup((const char *)data, size);
    struct conf_pair options[8];
    char root[] = "/";
    struct conf_mount mount = {.path = root, .options = options};
    char *rest = text;
    mount.mount_point = strsep(&rest, "\n");
    for (char *line; mount.noptions < ARRAY_LEN(options) && (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '=');
        if (value)
            *value++ = '\0';
        options[mount.noptions++] = (struct conf_pair){line, value ? value : line + strlen(line)};
    }
    struct err e = ERR_INIT;
    struct store *s = store_new(
        &(struct store_conf){.mount = &mount, .secrets_dir = "/nonexistent"}, &e);
    if (!s && (e.cls == ERR_NONE || !*e.msg || strcmp(store_reason(&e), "StoreError") == 0))
        abort();
    store_free(s);
    bool page;
    free(web_bucket_of(mount.mount_point, &page));
    return 0;
}
