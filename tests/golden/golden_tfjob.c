#include "tests/golden/golden_tfjob.h"

#include "lib/json/jget.h"
#include "operator/tfjob/plan.h"

#include <stdlib.h>

int golden_tfjob_plan(const json_t *cr, const json_t *world, struct plan *plan, struct err *e)
{
    (void)e;
    struct tfjob_world w = {.job = cr, .now_ns = golden_now(world), .domain = jget_str(world, "clusterDomain", "")};
    w.pods = golden_objects(world, "Pod", &w.npods);
    w.services = golden_objects(world, "Service", &w.nservices);
    tfjob_plan(&w, plan);
    free(w.pods);
    free(w.services);
    return 0;
}
