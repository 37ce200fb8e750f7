/* SPDX-License-Identifier: Apache-2.0 */
/* facts — asks the API server for what why.h looks at. */
#ifndef MILLRACE_FUSE_CLI_FACTS_H
#define MILLRACE_FUSE_CLI_FACTS_H

#include "fuse/cli/cluster.h"
#include "fuse/cli/why.h"

/* Of a namespace, and of the nodes of the pods that are looked at. All owned. */
struct facts {
    json_t *events; /* an object: arrays by the names of their pods */
    json_t *claims, *datasets, *caches, *elsewhere, *attachments, *nodes, *csinodes, *operators;
};
/* pods: an array; what they need is fetched. DENIED: Datasets may not be read. */
int facts_fetch(
    struct cluster *c, const char *ns, const json_t *pods, struct facts *f, struct err *e);
/* The operator's pods, of all namespaces; NULL: they may not be listed, which is not said. */
int facts_operators(struct cluster *c, json_t **out, struct err *e);
void facts_free(struct facts *f);
#define cleanup_facts __attribute__((cleanup(facts_free)))
/* borrows from all three */
struct why_facts facts_of(const struct facts *f, const char *ns, const json_t *pod);

/* Answers for the worst of the pods; *like: how many are as bad. */
void facts_worst(
    const struct facts *f, const char *ns, const json_t *pods, struct why *w, size_t *like);

#endif
