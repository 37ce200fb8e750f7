/* SPDX-License-Identifier: Apache-2.0 */
/* TF_CONFIG, byte for byte as training-operator 1.9.4 writes it. */
#include "operator/tfjob/build.h"

#include "lib/base/buf.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"

#include <inttypes.h>
#include <string.h>

static int port_of(const struct tfjob_replica_spec *r)
{
    size_t i, k;
    json_t *c, *port;
    json_array_foreach ((json_t *)jget_arr(r->template, "spec.containers"), i, c) {
        if (strcmp(jget_str(c, "name", ""), TFJOB_CONTAINER))
            continue;
        json_array_foreach ((json_t *)jget_arr(c, "ports"), k, port)
            if (!strcmp(jget_str(port, "name", ""), TFJOB_PORT_NAME))
                return (int)jget_int(port, "containerPort", TFJOB_PORT);
    }
    return TFJOB_PORT;
}

static void add_address(
    struct buf *b, const struct tfjob *j, enum tfjob_type t, int index, const char *domain)
{
    char name[TFJOB_CHILD_NAME_LEN];
    tfjob_child_name(j, t, index, name);
    buf_addf(
        b, "\"%s.%s.svc%s%s:%d\"", name, j->ns, *domain ? "." : "", domain, port_of(&j->spec[t]));
}

static void add_all(struct buf *b, const struct tfjob *j, enum tfjob_type t, const char *domain)
{
    buf_addc(b, '[');
    for (int i = 0; i < j->spec[t].replicas; i++) {
        if (i)
            buf_addc(b, ',');
        add_address(b, j, t, i, domain);
    }
    buf_addc(b, ']');
}

/* All replicas know each other, but for an evaluator that is to be left out; a type with 0
 * replicas is an empty list. */
static void add_cluster(struct buf *b, const struct tfjob *j, const char *domain)
{
    const char *sep = "";
    for (int t = 0; t < TFJOB_TYPES; t++) {
        if (!j->spec[t].present || (t == TFJOB_EVALUATOR && j->annotations.exclude_evaluator))
            continue;
        buf_addf(b, "%s\"%s\":", sep, tfjob_type_lower((enum tfjob_type)t));
        add_all(b, j, (enum tfjob_type)t, domain);
        sep = ",";
    }
}

/* Of a dynamic job with a chief all know the chief and every PS, and a worker itself. (1.9.4 leaves
 * the chief out, and TensorFlow refuses a cluster without its own task.) */
static void add_sparse_with_chief(struct buf *b, const struct tfjob *j, enum tfjob_type t,
    int index, enum tfjob_type chief, const char *domain)
{
    buf_adds(b, "\"worker\":{");
    if (t == TFJOB_WORKER) {
        buf_addf(b, "\"%d\":", index);
        add_address(b, j, t, index, domain);
    }
    buf_adds(b, "},\"ps\":");
    add_all(b, j, TFJOB_PS, domain);
    buf_addf(b, ",\"%s\":", tfjob_type_lower(chief));
    add_all(b, j, chief, domain);
}

/* enableDynamicWorker: a worker knows itself and every PS, a PS knows itself, the others know no
 * peer (as in 1.9.4). */
static void add_sparse_cluster(
    struct buf *b, const struct tfjob *j, enum tfjob_type t, int index, const char *domain)
{
    buf_adds(b, "\"worker\":{");
    if (t == TFJOB_WORKER) {
        buf_addf(b, "\"%d\":", index);
        add_address(b, j, t, index, domain);
    }
    buf_adds(b, "},\"ps\":");
    if (t == TFJOB_WORKER && !j->spec[TFJOB_PS].present) {
        buf_adds(b, "null");
    } else if (t == TFJOB_WORKER) {
        add_all(b, j, TFJOB_PS, domain);
    } else {
        buf_addc(b, '[');
        if (t == TFJOB_PS)
            add_address(b, j, t, index, domain);
        buf_addc(b, ']');
    }
}

char *tfjob_tf_config(const struct tfjob *j, enum tfjob_type t, int index, const char *domain)
{
    if (tfjob_total(j) == 1 && !j->annotations.always_tf_config)
        return NULL;
    /* name + namespace + domain are at most 63 + 63 + 253 bytes each; the API server's own limit
     * for an object is lower */
    struct buf b = BUF_INIT((size_t)TFJOB_TYPES * TFJOB_REPLICAS_MAX * 400);
    buf_adds(&b, "{\"cluster\":{");
    if (j->dynamic && tfjob_has_chief(j))
        add_sparse_with_chief(&b, j, t, index,
            j->spec[TFJOB_CHIEF].replicas > 0 ? TFJOB_CHIEF : TFJOB_MASTER, domain);
    else if (j->dynamic)
        add_sparse_cluster(&b, j, t, index, domain);
    else
        add_cluster(&b, j, domain);
    buf_addf(&b, "},\"task\":{\"type\":\"%s\",\"index\":%d}", tfjob_type_lower(t), index);
    if (!j->dynamic)
        buf_adds(&b, ",\"environment\":\"cloud\"");
    buf_addc(&b, '}');
    return buf_take(&b);
}
