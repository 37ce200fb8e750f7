#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# The leading operator is killed with SIGKILL while a job runs, then its pod is deleted: each time another takes the lease, the job ends
# well, and no pod runs twice.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 1 100000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
tfjob long data 'cd /mnt/fuse; sha256sum -c sums.txt; until [ -e /tmp/stop ]; do sleep 0.2; done; sha256sum -c sums.txt' 1 2
expect 90 "the job runs" has_text True jsonpath tfjob/long '{.status.conditions[?(@.type=="Running")].status}'
three() { [ "$(n get pods -l training.kubeflow.org/job-name=long -o name | wc -l)" = 3 ]; }
expect 60 "all its pods are there" three
before=$(n get pods -l training.kubeflow.org/job-name=long -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}')

holder() { k -n "$SYSTEM" get lease millrace-operator -o jsonpath='{.spec.holderIdentity}'; }
leading_pod() # sets leader and pod
{
    leader=$(holder)
    pod=$(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o name | sed 's|pod/||' | while read -r name; do
        case $leader in *"$name"*) echo "$name" ;; esac
    done)
    [ -n "$pod" ] || fail "no operator pod holds the lease ($leader)"
}
system_pod() { k -n "$SYSTEM" get pod "$pod" -o jsonpath="$1"; }
restarted() { [ "$(system_pod '{.status.containerStatuses[0].restartCount}')" = $((restarts + 1)) ]; }
changed() { local now; now=$(holder); [ -n "$now" ] && [ "$now" != "$leader" ]; }

leading_pod
restarts=$(system_pod '{.status.containerStatuses[0].restartCount}')
step "kill -9 of the leader in $pod"
"$ROOT/hack/cluster" exec "$(system_pod '{.spec.nodeName}')" sh -c 'for p in /proc/[0-9]*; do
    [ "$(tr "\0" " " <$p/cmdline 2>/dev/null | cut -d " " -f 1)" = /usr/bin/millrace-operator ] && kill -9 ${p#/proc/}; done; true'
expect 60 "the operator is started again" restarted
expect 60 "an operator leads that is not the one that was killed" changed
step "$(holder) leads"

leading_pod
step "the leader's pod $pod is deleted"
expect 60 "the API server deletes it" k -n "$SYSTEM" delete pod "$pod" --grace-period=0 --force --ignore-not-found
expect 60 "another operator leads" changed
step "$(holder) leads"
[ "$(jsonpath tfjob/long '{.status.conditions[?(@.type=="Running")].status}')" = True ] || fail "the job ended before the operators did"
for name in worker-0 worker-1 chief-0; do
    n exec "long-$name" -c tensorflow -- touch /tmp/stop || true # it may have ended before the answer came
done
expect 120 "the job has succeeded" job_is long Succeeded
after=$(n get pods -l training.kubeflow.org/job-name=long -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}')
[ "$before" = "$after" ] || fail "pods have changed: '$before', then '$after'"
for name in chief-0 worker-0 worker-1; do
    [ "$(n get pod "long-$name" -o jsonpath='{.status.containerStatuses[0].restartCount}')" = 0 ] || fail "long-$name was restarted"
done
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=60s
