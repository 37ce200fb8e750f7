/* SPDX-License-Identifier: Apache-2.0 */
/* trim — what the informers keep of the objects that are many: the fields that plans read, and no
 * more. What a plan is to read newly is added here; the golden cases run on trimmed objects. Pure.
 */
#ifndef MILLRACE_OPERATOR_DATASET_TRIM_H
#define MILLRACE_OPERATOR_DATASET_TRIM_H

#include <jansson.h>

void dataset_trim_pod(json_t *pod); /* of ours: worker, client, loader, node plugin */
void dataset_trim_volume(json_t *pv);
void dataset_trim_claim(json_t *pvc);
void dataset_trim_other_claim(json_t *pvc); /* of others: that it is there */
/* of a Service or a NetworkPolicy: that it is there, and as it was made */
void dataset_trim_child(json_t *object);
void dataset_trim_attachment(json_t *attachment);
void dataset_trim_node(json_t *node);
void dataset_trim_gated_pod(json_t *pod); /* of a user: what it waits for, and what it asks for */

#endif
