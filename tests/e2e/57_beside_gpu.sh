#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# Cache workers are beside GPUs: one goes there when such a node comes after it, tainted as such nodes are, and follows the job that uses the
# data; several go to different ones, and those that are to be alone on a node are.
. "$(dirname "$0")/lib.sh"
start_test
. "$(dirname "$0")/gpus.sh"

for node in $NODES; do offer "$node" 0; done

s3_up
random_files 2 1000000 train
secret keys "$S3_KEY" "$S3_SECRET"
s3_node=$(jsonpath pod/s3 '{.spec.nodeName}')

step "no node has a GPU"
dataset data
n wait --for=condition=Ready dataset/data --timeout=90s >/dev/null || fail "$(ready_message data)"
first=$(n get pod data-cache-0 -o jsonpath='{.spec.nodeName}')
mapfile -t others < <(grep -vxF "$first" <<<"$NODES")
has_none() { [ -z "$(n get pod data-cache-0 -o jsonpath='{.metadata.annotations.millrace\.dev/offered}')" ]; }
has_none || fail "the worker was offered a node"

step "${others[0]} has one: the worker goes there from $first"
gpu "${others[0]}"
expect 150 "it is there: $(node_of data-cache-0)" is_on data-cache-0 "${others[0]}"
expect 30 "an Event says so" moves "leaves node $first: ${others[0]} has GPUs"

step "a job uses the data beside the GPU of ${others[1]}: the worker follows it"
gpu "${others[1]}"
is_on data-cache-0 "${others[0]}" || fail "one node with a GPU is as good as another: $(node_of data-cache-0)"
restricted data 'cd /mnt/fuse; while [ ! -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out || { cat /tmp/out; exit 1; }; sleep 0.5; done' main |
    jq -c --arg node "${others[1]}" '.containers[0].resources = {limits: {"nvidia.com/gpu": "1"}} | {apiVersion: "v1", kind: "Pod", metadata: {name: "job"},
        spec: (. + {restartPolicy: "Never", nodeSelector: {"kubernetes.io/hostname": $node}, tolerations: [{key: "nvidia.com/gpu", operator: "Exists"}]})}' |
    n apply -f - >/dev/null
expect 120 "the job runs" has_text Running jsonpath pod/job '{.status.phase}'
expect 150 "the worker is beside it: $(node_of data-cache-0)" is_on data-cache-0 "${others[1]}"
expect 30 "an Event says so" moves "leaves node ${others[0]}: ${others[1]} has GPUs, and pods there use the data"
[ "$(jsonpath pod/job '{.status.phase}')" = Running ] || fail "a read failed: $(n logs job)"

step "two workers of another dataset"
dataset pair >/dev/null
n patch dataset pair --type=merge -p '{"spec": {"cache": {"replicas": 2}}}' >/dev/null
pair() { for i in 0 1; do echo "$(node_of "pair-cache-$i")"; done | sort; }
apart() { [ "$(pair)" = "$(printf '%s True\n' "${others[@]}" | sort)" ]; }
expect 120 "each is beside a GPU of its own: $(pair)" apart

step "one that is to be alone, and one that cannot be"
for name in alone lonely; do
    dataset "$name" >/dev/null
    n patch dataset "$name" --type=merge -p '{"spec": {"cache": {"exclusive": true}}}' >/dev/null
done
exclusive() { for name in alone lonely; do echo "$(node_of "$name-cache-0")"; done | sort | tr '\n' ';'; }
one_of_two() { [ "$(exclusive)" = " ;$first True;" ]; }
expect 120 "one is on $first, the other one waits: $(exclusive)" one_of_two
words() { n get dataset alone lonely -o jsonpath='{.items[*].status.conditions[?(@.type=="WorkersReady")].message}' | grep -q "anti-affinity"; }
expect 60 "its Dataset says why" words
echo "s3 on $s3_node, workers: $(n get pods -l millrace.dev/component=worker -o jsonpath='{range .items[*]}{.metadata.name}={.spec.nodeName} {end}')"
