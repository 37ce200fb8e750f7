/* world — what a plan for one TFJob looks at, and the same sorted by replica. Borrowed and immutable while a plan is made. */
#ifndef MILLRACE_TFJOB_WORLD_H
#define MILLRACE_TFJOB_WORLD_H

#include "operator/api/tfjob.h"
#include "operator/tfjob/pod.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct tfjob_world {
    const json_t *job; /* NULL: there is none (any more) */
    /* everything in its namespace that is labelled with the job's name, whoever owns it */
    const json_t **pods, **services;
    size_t npods, nservices;
    int64_t now_ns;     /* since the epoch */
    const char *domain; /* CUSTOM_CLUSTER_DOMAIN, "" if none */
};

struct tfjob_slot {
    const json_t *pod, *service; /* of any owner; NULL: none */
    struct tfjob_pod is;
    bool service_foreign;
};

struct tfjob_view {
    struct tfjob_slot *slot[TFJOB_TYPES]; /* owned; as many as the type has replicas */
    const json_t **extra_pods, **extra_services; /* ours, but of no index that is wanted: scaled in */
    size_t nextra_pods, nextra_services;
};

void tfjob_view_make(const struct tfjob_world *w, const struct tfjob *j, struct tfjob_view *out);
void tfjob_view_free(struct tfjob_view *v);
#define cleanup_tfjob_view __attribute__((cleanup(tfjob_view_free)))

#endif
