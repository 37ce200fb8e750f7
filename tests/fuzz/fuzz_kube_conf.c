/* SPDX-License-Identifier: Apache-2.0 */
/* Kubeconfigs and YAML from anywhere: a conf that is accepted is complete, one that is refused says
 * why. */
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/kube/conf.h"
#include "lib/kube/yaml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    char *text = xmalloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    json_t *j = yaml_parse(text, size, &e);
    check(j || (e.cls == ERR_INVALID && *e.msg));
    json_decref(j);
    /* files that never end, or that wait for a person */
    if (memmem(text, size, "/dev", 4) || memmem(text, size, "/proc", 5)) {
        free(text);
        return 0;
    }
    struct kube_conf *c = kube_conf_parse(text, size, "/nonexistent", NULL, &e);
    check(c || *e.msg);
    if (c) {
        check(strncmp(c->server, "http", 4) == 0 && *kube_conf_namespace(c));
        check((c->cert_pem != NULL) == (c->key_pem != NULL));
    }
    kube_conf_free(c);
    free(text);
    return 0;
}
