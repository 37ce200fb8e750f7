#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# What TFJobs have beyond training-operator: they wait for their datasets, say why they failed, start again together, do not mind
# sidecars, and bring a TensorBoard.
. "$(dirname "$0")/lib.sh"
start_test

condition() { jsonpath "tfjob/$1" "{.status.conditions[?(@.type==\"$2\")].$3}"; }
incarnation() { jsonpath "pod/$1" '{.metadata.uid}'; }
is_another() { local now; now=$(incarnation "$1" 2>/dev/null) && [ "$now" != "$2" ] && [ "$(jsonpath "pod/$1" '{.status.phase}')" = Running ]; }

has_reason_of_dataset() # the one that the dataset has now: it may still be on its way to it
{
    local reason
    reason=$(jsonpath dataset/data '{.status.conditions[?(@.type=="Ready")].reason}') && [ -n "$reason" ] &&
        has_text "$reason" condition early WaitingForDataset message
}

job() # NAME ANNOTATIONS WORKERS RESTART_POLICY SCRIPT [JQ PROGRAM FOR THE POD SPEC]
{
    restricted none "$5" tensorflow | jq -c --arg name "$1" --argjson annotations "$2" --argjson n "$3" --arg policy "$4" '
        del(.volumes, .containers[].volumeMounts) | '"${6:-.}"' | . as $pod
        | {apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name, annotations: $annotations}, spec: {tfReplicaSpecs:
            {Worker: {replicas: $n, restartPolicy: $policy, template: {spec: $pod}}}}}' | n apply -f - >/dev/null
}

step "a dataset that is not ready"
s3_up
random_files 1 100000 train
secret wrong "$S3_KEY" not-the-secret-key-0123456789
dataset data s3://data "http://s3.$NS.svc.cluster.local:7070" wrong
tfjob early data 'cd /mnt/fuse; sha256sum -c sums.txt; sleep 5' 1 1
expect 90 "the job says why it waits" has_text "Dataset data is not ready" condition early WaitingForDataset message
expect 60 "with the reason of the dataset" has_reason_of_dataset
[ -z "$(n get pods -l training.kubeflow.org/job-name=early -o name)" ] || fail "it has pods all the same"
[ "$(condition early Created status)" = True ] || fail "it is not created"

step "failure, sidecar, restart together, TensorBoard"
job unlucky '{}' 1 Never 'echo all is well; echo out of luck; exit 3'
job meshed '{}' 1 Never 'echo trained' '.containers += [.containers[0] | .name = "proxy" | .command[2] = "sleep 3600"]'
job ring '{"millrace.dev/restart-scope": "job", "millrace.dev/always-tf-config": "true"}' 2 ExitCode \
    'trap "exit 0" TERM; while [ ! -e /tmp/fail ]; do sleep 0.2; done; exit 137'
job curves '{"millrace.dev/tensorboard": "data/logs"}' 1 Never 'sleep 3600'
expect 60 "it has failed" job_is unlucky Failed
condition unlucky Failed message | grep -q 'Pod unlucky-worker-0 on node node[0-9]*: container tensorflow exited with code 3 (Error): out of luck$' ||
    fail "$(condition unlucky Failed message)"
expect 90 "a sidecar does not keep the job running" job_is meshed Succeeded
expect 60 "the sidecar is ended" has_text DeadlineExceeded jsonpath pod/meshed-worker-0 '{.status.reason}'
[ "$(n logs meshed-worker-0 -c tensorflow)" = trained ] || fail "the log is gone"
[ "$(condition meshed Succeeded status)" = True ] || fail "it has not succeeded any more: $(jsonpath tfjob/meshed '{.status}')"

expect 60 "ring runs" has_text True condition ring Running status
for i in 0 1; do expect 30 "both run" has_text Running jsonpath "pod/ring-worker-$i" '{.status.phase}'; done
first=$(incarnation ring-worker-0) second=$(incarnation ring-worker-1)
n exec ring-worker-0 -c tensorflow -- touch /tmp/fail || true # it may have ended before the answer came
expect 90 "the one that failed is another" is_another ring-worker-0 "$first"
expect 60 "so is its peer" is_another ring-worker-1 "$second"
[ "$(jsonpath tfjob/ring '{.status.indexes.Worker.restarts}')" = '{"0":1}' ] || fail "$(jsonpath tfjob/ring '{.status.indexes}')"

expect 60 "a TensorBoard is made" n get deployment/curves-tensorboard service/curves-tensorboard
jsonpath deployment/curves-tensorboard '{.spec.template.spec.containers[0].command}' | grep -qF -- '--logdir=/logs/logs' || fail "another directory"
[ "$(n get pods -l training.kubeflow.org/job-name=curves -o name)" = pod/curves-worker-0 ] || fail "the TensorBoard counts as a pod of the job"

step "scale"
n scale tfjob/ring --replicas 3 >/dev/null
expect 60 "there is a third worker" n get pod/ring-worker-2

step "the dataset becomes ready"
secret wrong "$S3_KEY" "$S3_SECRET"
expect 180 "the job succeeds" job_is early Succeeded
[ -z "$(condition early WaitingForDataset status)" ] || fail "it still waits"
[ "$(jsonpath tfjob/early '{.status.datasets[0].name} {.status.datasets[0].ready}')" = "data true" ] || fail "$(jsonpath tfjob/early '{.status.datasets}')"
n delete tfjob --all --wait --timeout=60s >/dev/null
expect 60 "TensorBoards go with their jobs" has_text NotFound n get deployment/curves-tensorboard
