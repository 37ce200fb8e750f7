/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration: refused with a message, or a structure whose every part can be
 * used. */
#include "lib/conf/conf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct err e = ERR_INIT;
    struct conf *c = conf_parse((const char *)data, size, &e);
    if (!c) {
        if (e.cls == ERR_NONE || !*e.msg)
            abort();
        return 0;
    }
    if (!c->nmounts || !c->ntiers || (c->worker_count && !c->worker_name))
        abort();
    for (size_t i = 0; i < c->nmounts; i++) {
        const struct conf_mount *m = &c->mounts[i];
        if (m->path[0] != '/' || !strstr(m->mount_point, "://")
            || (m->path[1] && m->path[strlen(m->path) - 1] == '/'))
            abort();
        for (size_t k = 0; k < m->nsecrets; k++)
            if (m->secrets[k].value[0] == '/' || strstr(m->secrets[k].value, "/../"))
                abort();
    }
    conf_free(c);
    return 0;
}
