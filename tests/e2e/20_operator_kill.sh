#!/bin/bash
# timeout: 300
# alone
# The leading operator is killed while a job runs: the other replica takes the lease, the job ends well, no pod runs twice.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 1 100000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
tfjob long data 'cd /mnt/fuse; sha256sum -c sums.txt; sleep 25; sha256sum -c sums.txt' 1 2
expect 90 "the job runs" has_text True jsonpath tfjob/long '{.status.conditions[?(@.type=="Running")].status}'
before=$(n get pods -l training.kubeflow.org/job-name=long -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}')

holder() { k -n "$SYSTEM" get lease millrace-operator -o jsonpath='{.spec.holderIdentity}'; }
leader=$(holder)
pod=$(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o name | sed 's|pod/||' | while read -r name; do
    case $leader in *"$name"*) echo "$name" ;; esac
done)
[ -n "$pod" ] || fail "no operator pod holds the lease ($leader)"
step "killing the leader $pod"
k -n "$SYSTEM" delete pod "$pod" --grace-period=0 --force >/dev/null 2>&1
changed() { local now; now=$(holder); [ -n "$now" ] && [ "$now" != "$leader" ]; }
expect 60 "another operator leads" changed
step "$(holder) leads"
expect 120 "the job has succeeded" job_is long Succeeded
after=$(n get pods -l training.kubeflow.org/job-name=long -o jsonpath='{range .items[*]}{.metadata.name}={.metadata.uid} {end}')
[ "$before" = "$after" ] || fail "pods have changed: '$before', then '$after'"
for name in chief-0 worker-0 worker-1; do
    [ "$(n get pod "long-$name" -o jsonpath='{.status.containerStatuses[0].restartCount}')" = 0 ] || fail "long-$name was restarted"
done
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=60s
