#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# The main job with a small trainer: S3 → Dataset → TFJob of a chief and two workers that check every byte, meet each other by
# name and write a checkpoint back, in a namespace of the restricted profile.
. "$(dirname "$0")/lib.sh"
start_test

step "data"
s3_up
random_files 6 3000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
expect 60 "the dataset is Bound" has_text Bound jsonpath dataset/data '{.status.phase}'
[ "$(jsonpath dataset/data '{.metadata.generation}')" = "$(jsonpath dataset/data '{.status.observedGeneration}')" ] ||
    fail "observedGeneration is behind"

step "job"
# shellcheck disable=SC2016 # the script is the container's
tfjob train data '
    cd /mnt/fuse; sha256sum -c sums.txt
    echo "TF_CONFIG=$TF_CONFIG"
    for peer in train-chief-0 train-worker-0 train-worker-1; do
        i=0; until nslookup $peer.'"$NS"'.svc.cluster.local >/dev/null 2>&1; do i=$((i+1)); [ $i -lt 100 ] || exit 9; sleep 0.2; done
    done
    case "$TF_CONFIG" in *"\"type\":\"chief\""*)
        mkdir -p out/ckpt_temp
        head -c 5000000 /dev/zero | tr "\0" "c" > out/ckpt_temp/part.tmp
        mv out/ckpt_temp/part.tmp out/data-00000
        sha256sum out/data-00000
        echo first > out/checkpoint.tmp; mv out/checkpoint.tmp out/checkpoint
        echo second > out/checkpoint.tmp; mv out/checkpoint.tmp out/checkpoint
        rmdir out/ckpt_temp
        [ "$(cat out/checkpoint)" = second ]
    esac
    sleep 3' 1 2
expect 120 "the job runs, or has run" has_text Running jsonpath tfjob/train '{.status.conditions[*].type}' # it may be short
expect 120 "the job has succeeded" job_is train Succeeded
n get dataset,tfjob,pods -o wide

step "what the pods saw"
read_all() { [ "$(n logs "train-$1" | grep -c ': OK$')" = 6 ]; }
for pod in chief-0 worker-0 worker-1; do # the chief's end is the job's: a worker may still read
    within 60 read_all "$pod" || fail "train-$pod has not read 6 good files: $(n logs "train-$pod")"
done
s=svc:2222
want="{\"cluster\":{\"chief\":[\"train-chief-0.$NS.$s\"],\"worker\":[\"train-worker-0.$NS.$s\",\"train-worker-1.$NS.$s\"]},\"task\":{\"type\":\"worker\",\"index\":1},\"environment\":\"cloud\"}"
its_config() { local log; log=$(n logs train-worker-1) && grep -qxF "TF_CONFIG=$want" <<<"$log"; }
within 30 its_config || fail "TF_CONFIG is not '$want': $(n logs train-worker-1)"

step "what came back to the bucket"
[ "$(in_bucket cat /srv/data/out/checkpoint)" = second ] || fail "the renamed file is not in the bucket"
[ "$(in_bucket sha256sum /srv/data/out/data-00000 | cut -d ' ' -f 1)" = "$(head -c 5000000 /dev/zero | tr '\0' c | sha256sum | cut -d ' ' -f 1)" ] ||
    fail "the checkpoint in the bucket has other bytes"
! in_bucket ls /srv/data/out/ckpt_temp 2>/dev/null | grep . >/dev/null || fail "temporary files were left in the bucket"

step "status"
counted() { [ "$(jsonpath dataset/data '{.status.cacheStates.cachedBytes}')" -gt 18000000 ]; }
expect 40 "what was read is counted as cached" counted
[ "$(jsonpath tfjob/train '{.status.replicaStatuses.Worker.succeeded}')" = 2 ] || fail "replicaStatuses are wrong"
[ -n "$(jsonpath tfjob/train '{.status.completionTime}')" ] || fail "no completionTime"

step "deletion leaves nothing"
n delete tfjob train --wait --timeout=60s
expect 60 "clients are gone when nobody reads" has_text "No resources" n get pods -l millrace.dev/component=client
n delete dataset data --wait --timeout=60s
expect 30 "cache workers are gone" has_text "No resources" n get pods -l millrace.dev/component
expect 60 "the claim is gone" has_text "not found" n get pvc data
