/* SPDX-License-Identifier: Apache-2.0 */
/* poll_ask — one question for the /status of a pod, signed with the key of its Dataset, and what
 * comes of it. */
#ifndef MILLRACE_OPERATOR_DATASET_POLL_ASK_H
#define MILLRACE_OPERATOR_DATASET_POLL_ASK_H

#include "lib/http/http.h"
#include "lib/json/jget.h"
#include "lib/sign/sign.h"

#include <stdatomic.h>
#include <stdbool.h>

#define POLL_TIMEOUT_NS (2 * NS_PER_S)

struct poll_question {
    struct http *http;
    const struct sign_key *master; /* of which keys of Datasets are made; NULL: nothing is signed */
    const char *ip, *dataset_uid;
    const atomic_bool *stop;
};
/* The report, which the caller owns; never NULL: {"unreachable": "why"}. *signs: the pod has signed
 * an answer before, or has now: from then on what is not signed is not its. Those of earlier
 * releases sign none. */
json_t *poll_ask(const struct poll_question *q, bool *signs);

#endif
