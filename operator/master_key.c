/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/master_key.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static int key_of_secret(const json_t *secret, const char *ns, struct sign_key *out, struct err *e)
{
    char *text = kube_secret_value(secret, "key");
    int rc = text ? sign_key_parse(text, strlen(text), out) : -1;
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    return rc
        ? err_set(e, ERR_INVALID,
            "Secret %s/" NAME_MASTER_KEY
            " holds no key: there must be %d hexadecimal characters under `key`. Take `key` out of it to have a new one made: Datasets of "
            "now keep theirs",
            ns, SIGN_HEX)
        : 0;
}

/* Only if nobody else has meanwhile: CONFLICT. */
static int fill_secret(
    struct kube *kube, const json_t *secret, const char *ns, struct sign_key *out, struct err *e)
{
    char text[SIGN_HEX + 1];
    cleanup_json json_t *answer = NULL;
    if (getrandom(out->bytes, sizeof out->bytes, 0) != sizeof out->bytes)
        return err_set(e, ERR_FATAL, "no random bytes for a key");
    sign_key_text(out, text);
    cleanup_json json_t *patch = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "resourceVersion",
        jget_str(secret, "metadata.resourceVersion", ""), "stringData", "key", text);
    explicit_bzero(text, sizeof text);
    if (kube_patch(
            kube, &kube_secrets, ns, NAME_MASTER_KEY, "", KUBE_PATCH_MERGE, patch, &answer, e))
        return -1;
    log_kv(LOG_INFO, "made the key of this installation", "secret", NAME_MASTER_KEY, "namespace",
        ns, NULL);
    return 0;
}

int master_key_get(struct kube *kube, const char *ns, struct sign_key *out, struct err *e)
{
    for (int tries = 0;; tries++) { /* two operators may look at once */
        cleanup_json json_t *secret = NULL;
        err_clear(e);
        if (kube_get(kube, &kube_secrets, ns, NAME_MASTER_KEY, &secret, e))
            return e->cls == ERR_NOTFOUND
                ? err_wrap(e, "the chart makes it: was it deleted? `helm upgrade` makes it again")
                : -1;
        if (jget(secret, "data.key"))
            return key_of_secret(secret, ns, out, e);
        if (fill_secret(kube, secret, ns, out, e) == 0)
            return 0;
        if (e->cls != ERR_CONFLICT || tries)
            return -1;
    }
}
