/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_fixture — the dataset, attach and dataload controllers together, against an API server
 * that keeps objects and pods that answer on addresses of the loopback net. */
#ifndef MILLRACE_TESTS_UNIT_OPERATOR_DATASET_DATASET_FIXTURE_H
#define MILLRACE_TESTS_UNIT_OPERATOR_DATASET_DATASET_FIXTURE_H

#include "operator/ctl/manager.h"
#include "tests/fake/api.h"

#include <stdbool.h>

#define UID "11111111-2222-3333-4444-555555555555"
#define PV  "millrace-" UID
/* Of each process its own, since many may run at once: of the pods of dx_say(), and of others (to
 * 31). */
const char *dx_ip(int who);
#define WORKER_IP dx_ip(0)
#define CLIENT_IP dx_ip(1)
#define LOADER_IP dx_ip(2)
#define OTHER_IP  dx_ip(3)

extern struct fake_api *dx_api;
extern struct manager dx_mgr;

/* what /status answers: who 0 a worker, 1 a client, 2 a loader, 3 a stranger's pod */
void dx_say(int who, const char *json);
unsigned dx_asked_so_far(int who);
/* from now on; true: who asked last has signed with the key of the Dataset */
enum dx_signs { DX_UNSIGNED, DX_KEY, DX_OTHER_KEY };
bool dx_sign(int who, enum dx_signs how);
/* what other parts of a cluster do */
void dx_set_status(const struct kube_res *res, const char *key, const char *json);
void dx_pod_runs(const char *key, const char *ip, bool ready);
bool dx_exists(const struct kube_res *res, const char *key);
bool dx_has_key(void); /* is the Secret of its key there? */
bool dx_field_is(const struct kube_res *res, const char *key, const char *path, const char *want);
bool dx_dataset_says(const char *type, const char *status, const char *reason);
/* team/mnist with one worker */
void dx_make_dataset(void);
void dx_attach(const char *node);
/* a DataLoad of mnist in team */
void dx_put_load(const char *name);
/* Ready and Stalled have the reason, and the message has the words. */
bool dx_load_says(const char *key, const char *reason, const char *words);
void dx_bind_claim(void);
/* group set-up, tear-down */
int dx_start(void **state);
int dx_stop(void **state);

#endif
