#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A Dataset that is deleted while a pod reads it stays until the pod is gone, says what it waits for, and the pod keeps reading.
# A namespace that is deleted under such a pod is gone soon, though no client can come back in it.
. "$(dirname "$0")/lib.sh"
start_test

reading() # NAME DATASET: a pod that reads on and on
{
    pod "$1" "$2" 'cd /mnt/fuse; while sha256sum -c sums.txt >/dev/null; do sleep 0.2; done; echo broken; exit 1'
    expect 90 "pod $1 runs" has_text Running jsonpath "pod/$1" '{.status.phase}'
}

s3_up
random_files 2 2000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
reading user data
pv=$(jsonpath pvc/data '{.spec.volumeName}')
n delete dataset data --wait=false
expect 30 "the condition names the pod" has_text user n get dataset data -o "jsonpath={.status.conditions[*].message}"
[ "$(jsonpath dataset/data '{.status.phase}')" = Deleting ] || fail "the phase is $(jsonpath dataset/data '{.status.phase}')"
sleep 5
has_text Running jsonpath pod/user '{.status.phase}' || fail "the pod was disturbed: $(n logs user)"
n delete pod user --wait --timeout=60s
expect 60 "the dataset is gone" has_text "not found" n get dataset data
expect 30 "the claim is gone" has_text "not found" n get pvc data
expect 30 "the volume is gone" has_text "not found" k get pv "$pv"
expect 60 "its pods are gone" has_text "No resources" n get pods -l millrace.dev/component

dataset more
reading reader more
step "the namespace is deleted"
k delete namespace "$NS" --wait=false
expect 100 "the namespace is gone" has_text "not found" k get namespace "$NS"
step "it is gone"
