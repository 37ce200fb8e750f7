/* SPDX-License-Identifier: Apache-2.0 */
/* The types of replicas and their names. */
#include "operator/api/tfjob.h"

#include <strings.h>

static const struct {
    const char *name, *lower;
} types[TFJOB_TYPES] = {
    [TFJOB_CHIEF] = {"Chief", "chief"},
    [TFJOB_EVALUATOR] = {"Evaluator", "evaluator"},
    [TFJOB_MASTER] = {"Master", "master"},
    [TFJOB_PS] = {"PS", "ps"},
    [TFJOB_WORKER] = {"Worker", "worker"},
};

const char *tfjob_type_name(enum tfjob_type t) { return types[t].name; }
const char *tfjob_type_lower(enum tfjob_type t) { return types[t].lower; }

bool tfjob_type_parse(const char *text, enum tfjob_type *out)
{
    for (int t = 0; t < TFJOB_TYPES; t++)
        if (!strcasecmp(text, types[t].name)) {
            *out = (enum tfjob_type)t;
            return true;
        }
    return false;
}
