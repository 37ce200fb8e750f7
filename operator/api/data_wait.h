/* SPDX-License-Identifier: Apache-2.0 */
/* data_wait — what jobs and pods say about their data, in the words of LABEL_DATA and
 * LABEL_PLACEMENT: until when they wait for it, and where they want to run. One vocabulary for a
 * TFJob and for any other pod. Pure. */
#ifndef MILLRACE_OPERATOR_API_DATA_WAIT_H
#define MILLRACE_OPERATOR_API_DATA_WAIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum data_until { DATA_UNTIL_UNSAID, DATA_UNTIL_READY, DATA_UNTIL_PRELOADED };
enum data_placement { DATA_PLACEMENT_UNSAID, DATA_PLACEMENT_PREFER, DATA_PLACEMENT_REQUIRE };

#define DATA_UNTIL_WORDS     "Ready or Preloaded"
#define DATA_PLACEMENT_WORDS "Prefer or Require"

/* text "": not said. false: it is none of the words. */
bool data_until_parse(const char *text, enum data_until *out);
bool data_placement_parse(const char *text, enum data_placement *out);

struct data_wait {
    char reason[48];   /* CamelCase: the condition's of the Dataset, NoPreload, … */
    char message[704]; /* names the Dataset, and what to do where a person must do something */
    bool problem;      /* no progress: a person must do something */
    int percent;       /* of what is preloaded; -1: not known */
    int64_t look_ns;   /* nothing wakes who waits: he looks again after that; 0: something does */
};
/* Must pods that mount the dataset's claim wait? It never believes a status that is of an earlier
 * spec. UNSAID waits for nothing. false with a reason: no waiting can help, and a person should
 * know (NoPreload). */
bool data_wait_evaluate(const json_t *dataset, enum data_until until, struct data_wait *out);

/* For a pod that mounts all of these: PRELOADED is READY where this one preloads nothing and
 * another one does, as results are beside what is trained on. */
enum data_until data_until_of(
    const json_t *dataset, enum data_until until, const json_t *const *all, size_t n);

/* Does one of these have the claim's name? */
bool data_is_of_dataset(const char *claim, const json_t *const *all, size_t n);

/* Pods that want to run where bytes of the dataset are, and nothing has any: what brings some. */
void data_wait_no_place(const json_t *dataset, struct data_wait *out);

#endif
