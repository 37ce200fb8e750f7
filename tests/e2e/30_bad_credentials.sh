#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A Dataset with wrong keys says so in words, in its condition and in the events of the pod that wants it; nothing crash-loops;
# when the Secret is mended everything goes on by itself.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 1 1000 train
secret keys "$S3_KEY" "wrong-secret-0123456789"
dataset data
pod reader data 'cd /mnt/fuse; sha256sum -c sums.txt'
denied() { message=$(ready_message data) && grep -qF AccessDenied <<<"$message"; }
expect 60 "the condition names the refusal" denied
step "$message"
for word in False s3://data keys; do
    grep -qF "$word" <<<"$message" || fail "the condition does not say '$word': $message"
done
expect 60 "the pod's events say why" has_text AccessDenied n get events --field-selector involvedObject.name=reader
expect 60 "the dataset's events say why" has_text AccessDenied n get events --field-selector involvedObject.name=data
n describe dataset data | tail -n 25
! n get events,pods,pvc,dataset -o yaml | grep -F "wrong-secret-0123456789" >/dev/null || fail "a secret is in the objects"
! n logs -l millrace.dev/component --tail=-1 | grep -F "wrong-secret-0123456789" >/dev/null || fail "a secret is in the logs"
sleep 8
restarts=$(n get pods -l millrace.dev/component -o jsonpath='{range .items[*]}{.status.containerStatuses[*].restartCount} {end}')
[ -z "${restarts//[0 ]/}" ] || fail "pods were restarted: $restarts"

step "mending the Secret"
secret keys "$S3_KEY" "$S3_SECRET"
expect 150 "the dataset is Bound" has_text Bound jsonpath dataset/data '{.status.phase}'
expect 120 "the pod has read its data" has_text Succeeded jsonpath pod/reader '{.status.phase}'
