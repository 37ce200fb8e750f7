#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# kubectl drain takes a node from under a job, its client and a cache worker: it comes to its end, nothing is left there but what belongs
# to the node, and the job goes on elsewhere with the same data. A PodDisruptionBudget holds the drain back, and the job runs on.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 2 1000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
tfjob moved data 'cd /mnt/fuse; until [ -e /tmp/stop ]; do sha256sum -c sums.txt; sleep 0.2; done' 0 2
worker() { jsonpath "pod/moved-worker-$1" "$2"; }
runs() # INDEX [UID that it no longer has]
{
    [ "$(worker "$1" '{.status.phase}')" = Running ] && [ "$(worker "$1" '{.metadata.uid}')" != "${2:-}" ]
}
for i in 0 1; do expect 120 "worker $i runs" runs "$i"; done
node=$(worker 0 '{.spec.nodeName}')
leave() { k uncordon "$node" >/dev/null; }
at_end leave
was=$(worker 0 '{.metadata.uid}')
drain() # SECONDS: of this test's pods
{
    k drain "$node" --ignore-daemonsets --delete-emptydir-data --force --timeout="$1s" \
        --pod-selector='training.kubeflow.org/job-name=moved' 2>&1
}

step "a budget holds it back"
n apply -f - >/dev/null <<YAML
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all}, spec: {minAvailable: 2, selector: {matchLabels: {training.kubeflow.org/job-name: moved}}}}
YAML
budget_counts() { [ "$(jsonpath pdb/all '{.status.currentHealthy}')" = 2 ]; }
expect 60 "the budget counts" budget_counts
if answer=$(drain 10); then fail "the drain did not care: $answer"; fi
grep -q "violate the pod's disruption budget" <<<"$answer" || fail "$answer"
[ "$(worker 0 '{.metadata.uid}')" = "$was" ] || fail "the worker is another"
n delete pdb all >/dev/null

step "the node is drained"
answer=$(drain 120) || fail "$answer"
expect 120 "the worker runs again" runs 0 "$was"
[ "$(worker 0 '{.spec.nodeName}')" != "$node" ] || fail "it is on $node again"
runs 1 || fail "the other worker: $(worker 1 '{.status}')"
has_text moved-worker-0 n get events --field-selector involvedObject.kind=TFJob || fail "no event names it: $(n get events)"

step "then the rest of it: the client there, a cache worker, the store"
answer=$(k drain "$node" --ignore-daemonsets --delete-emptydir-data --force --timeout=120s \
    --pod-selector="millrace.dev/dataset=data" 2>&1) || fail "$answer"
none_there() { [ -z "$(n get pods -l millrace.dev/dataset=data --field-selector "spec.nodeName=$node" -o name)" ]; }
if [ "$(worker 1 '{.spec.nodeName}')" != "$node" ]; then expect 120 "nothing of the Dataset is on $node: $(n get pods -o wide)" none_there; fi
is_ready() { ready_message data | grep -q '^True'; }
expect 120 "the Dataset is ready: $(ready_message data)" is_ready
for i in 0 1; do expect 60 "worker $i runs" runs "$i"; done

step "the job ends well"
for i in 0 1; do n exec "moved-worker-$i" -- touch /tmp/stop; done
expect 120 "it succeeds: $(jsonpath tfjob/moved '{.status.conditions}')" job_is moved Succeeded
