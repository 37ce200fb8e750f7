#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# alone
# Cache workers go where pods that use the data are still to come: beside the GPU that a job waits for, that a pod behind a gate asks for,
# and beside one that is there later only. The job then runs beside a worker that waited for it. Not where a node is somebody's alone.
. "$(dirname "$0")/lib.sh"
start_test
. "$(dirname "$0")/gpus.sh"

read -r a b late < <(paste -sd ' ' <<<"$NODES")
[ -n "$late" ] || fail "three nodes are needed: $NODES"
for node in $NODES; do offer "$node" 0; done
k label node "$a" e2e-pool=a --overwrite >/dev/null
k label node "$b" e2e-pool=b --overwrite >/dev/null
k label node "$late" e2e-pool=late --overwrite >/dev/null
gpu "$a"
gpu "$b"

waiter() # POOL CLAIM SCRIPT CONTAINER: the spec of a pod that needs a GPU there
{
    restricted "$2" "$3" "$4" | jq -c --arg pool "$1" '.containers[0].resources = {limits: {"nvidia.com/gpu": "1"}} |
        . + {restartPolicy: "Never", nodeSelector: {"e2e-pool": $pool}, tolerations: [{key: "nvidia.com/gpu", operator: "Exists"}]}'
}
gated() # NAME POOL CLAIM: a pod that somebody else's gate holds back as well
{
    waiter "$2" "$3" 'cd /mnt/fuse; sha256sum -c sums.txt' main | jq -c --arg name "$1" '{apiVersion: "v1", kind: "Pod",
        metadata: {name: $name, labels: {"millrace.dev/data": "Ready"}},
        spec: (. + {schedulingGates: [{name: "millrace.dev/data"}, {name: "example.com/quota"}]})}' | n apply -f - >/dev/null
}
job() # NAME POOL CLAIM
{
    waiter "$2" "$3" 'cd /mnt/fuse; sha256sum -c sums.txt' tensorflow | jq -c --arg name "$1" '{apiVersion: "kubeflow.org/v1", kind: "TFJob",
        metadata: {name: $name}, spec: {tfReplicaSpecs: {Worker: {replicas: 1, restartPolicy: "Never", template: {spec: .}}}}}' | n apply -f - >/dev/null
}
uid() { jsonpath "pod/$1" '{.metadata.uid}'; }

s3_up
random_files 2 300000 train
secret keys "$S3_KEY" "$S3_SECRET"

step "a job waits for the GPU of $b, which another pod has; the data is declared after it"
waiter b data 'while [ ! -e /tmp/stop ]; do sleep 0.2; done' main | jq -c 'del(.volumes, .containers[].volumeMounts) |
    {apiVersion: "v1", kind: "Pod", metadata: {name: "other"}, spec: .}' | n apply -f - >/dev/null
expect 60 "the other pod has the GPU" has_text Running jsonpath pod/other '{.status.phase}'
job awaits b data
dataset data >/dev/null
dataset gates >/dev/null
dataset later >/dev/null
job awaits-later late later
expect 90 "the worker was put there at once: $(node_of data-cache-0)" is_on data-cache-0 "$b"
first=$(uid data-cache-0)
expect 60 "the job has its pod" n get pod awaits-worker-0
[ -z "$(jsonpath pod/awaits-worker-0 '{.spec.nodeName}')" ] || fail "the job does not wait"

step "a pod behind a gate asks for the GPU of the node where its data's worker is not"
has_node() { [[ "$(node_of "$1")" = *" True" ]]; }
expect 90 "there is a worker" has_node gates-cache-0
there=$(jsonpath pod/gates-cache-0 '{.spec.nodeName}')
if [ "$there" = "$a" ]; then pool=b to=$b; else pool=a to=$a; fi
gated held "$pool" gates
expect 150 "the worker is on $to, was on $there: $(node_of gates-cache-0)" is_on gates-cache-0 "$to"
expect 30 "an Event says why" moves "leaves node $there: $to has GPUs, and pods that wait to use the data ask for such"

step "$late has its GPU only now"
expect 60 "the worker of what is awaited there serves elsewhere" has_node later-cache-0
gpu "$late"
expect 150 "the worker is on $late: $(node_of later-cache-0)" is_on later-cache-0 "$late"
expect 90 "the job that waited for it ends well" job_is awaits-later Succeeded

step "the GPU of $b is free"
n exec other -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 120 "the job ends well" job_is awaits Succeeded
[ "$(jsonpath pod/awaits-worker-0 '{.spec.nodeName}')" = "$b" ] || fail "it ran on $(jsonpath pod/awaits-worker-0 '{.spec.nodeName}')"
is_on data-cache-0 "$b" || fail "the worker has left: $(node_of data-cache-0)"
[ "$(uid data-cache-0)" = "$first" ] || fail "the worker is another"

step "one that is to be alone on a node is not on $b, where others are, though its data is awaited there"
n delete tfjob awaits-later --wait --timeout=60s >/dev/null
n delete dataset later --wait --timeout=120s >/dev/null
gated held-alone b own
dataset own >/dev/null
n patch dataset own --type=merge -p '{"spec": {"cache": {"exclusive": true}}}' >/dev/null
is_alone()
{
    local node
    node=$(node_of own-cache-0) && [[ "$node" = *" True" ]] && node=${node%% *} &&
        [ -n "$(jsonpath pod/own-cache-0 '{.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution}')" ] &&
        [ "$(n get pods -l millrace.dev/component=worker --field-selector "spec.nodeName=$node" -o name)" = pod/own-cache-0 ]
}
expect 120 "it has a node for itself: $(node_of own-cache-0)" is_alone
