#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# spec.cache.preload is kept true: eight pods of a Job, and a TFJob, wait for it; a worker that lost its cache is filled again, so are
# files that changed and paths that were added; what cannot come is told in words. Runs what docs/guides/preload-and-pin.md and
# docs/guides/jobs.md say.
. "$(dirname "$0")/lib.sh"
start_test

preloaded() { jsonpath dataset/imagenet "{.status.conditions[?(@.type==\"Preloaded\")].$1}"; }
is_preloaded() # FILES: True, for the spec as it is, with that many
{
    [ "$(preloaded status) $(preloaded observedGeneration)" = "True $(jsonpath dataset/imagenet '{.metadata.generation}')" ] &&
        [ "$(jsonpath dataset/imagenet '{.status.preload.doneFiles} {.status.preload.percent}')" = "$1 100" ]
}
is_preloaded_since() { [ "$(preloaded lastTransitionTime)" != "$1" ] && is_preloaded "$2"; }
says_not() { [ "$(preloaded status) $(preloaded reason)" = "False $1" ]; }
worker_json() # POD
{
    k get --raw "/api/v1/namespaces/$NS/pods/$1:9400/proxy/status"
}
events_of() { n get events --field-selector "involvedObject.name=$1" -o jsonpath='{range .items[*]}{.reason}: {.message}{"\n"}{end}'; }
edit() { n patch dataset imagenet --type merge -p "$1" >/dev/null; }
uid() { jsonpath "$1" '{.metadata.uid}'; }
is_another() { local now; now=$(uid "$1" 2>/dev/null) && [ "$now" != "$2" ]; }
has_evicted() { [ "$(worker_json imagenet-cache-0 | jq .evictedLoadedBytes)" -gt 0 ]; }
has_looked_again() # FILES: after the last of it was evicted
{
    is_preloaded "$1" && [ "$(worker_json imagenet-preload | jq .load.evictedBytes)" = "$(worker_json imagenet-cache-0 | jq .evictedLoadedBytes)" ]
}
job_pods_are() { [ "$(job_pods -o name | wc -l)" = "$1" ]; }
pinned_are() { [ "$(worker_json imagenet-cache-0 | jq .cache.pinnedFiles)" = "$1" ]; }
job_pods() { n get pods -l job-name=train "$@"; }

# The example, with this test's bucket, image and namespace instead of its own.
example()
{
    sed "s#s3://my-bucket/imagenet#s3://data#; s#quota: 100Gi#quota: 64Mi#" "$ROOT/examples/dataset/job.yaml" |
        kubectl create --dry-run=client -o json -f - | jq -c --arg endpoint "http://s3.$NS.svc.cluster.local:7070" --argjson pod "$(restricted imagenet "$1" train)" '
            (if .kind == "List" then .items[] else . end) | del(.metadata.namespace)
            | if .kind == "Dataset" then .spec.mounts[0].options = {endpoint: $endpoint, region: "us-east-1"} | .spec.cache.metadataSyncSeconds = 5
              else .spec.template.spec |= (. + $pod) end'
}

s3_up
random_files 6 500000 train
n create secret generic s3-keys --from-literal="AWS_ACCESS_KEY_ID=$S3_KEY" --from-literal=AWS_SECRET_ACCESS_KEY=wrong-secret-key-0123456789 >/dev/null

step "two objects, in few lines"
[ "$(grep -cvE '^(#|---)' "$ROOT/examples/dataset/job.yaml")" -le 45 ] || fail "the example has grown"
[ "$(grep -c '^kind:' "$ROOT/examples/dataset/job.yaml")" = 2 ] || fail "the example has other objects"
example 'cd /mnt/fuse; sha256sum -c sums.txt' | n apply -f - >/dev/null

step "no pod starts before the data is there: the keys are wrong"
expect 60 "the Job has its pods" job_pods_are 8
expect 120 "the condition says so: $(preloaded message)" says_not AccessDenied
gated=$(job_pods -o jsonpath='{.items[0].metadata.name}')
expect 60 "the pod says so: $(events_of "$gated")" has_text "WaitingForData: Dataset imagenet is not ready: AccessDenied" events_of "$gated"
[ "$(job_pods -o jsonpath='{.items[*].status.phase}' | tr ' ' '\n' | sort -u)" = Pending ] || fail "some pod does not wait: $(job_pods)"

step "with the right keys it loads, and all eight start"
n create secret generic s3-keys --from-literal="AWS_ACCESS_KEY_ID=$S3_KEY" --from-literal="AWS_SECRET_ACCESS_KEY=$S3_SECRET" --dry-run=client -o yaml | n apply -f - >/dev/null 2>&1
# kubelet brings a changed Secret within a minute and a half, and the store is asked again after half a minute at most
expect 240 "it is preloaded: $(preloaded message)" is_preloaded 6
preloaded message | grep -q '^2.86MiB in 6 files of 1 path are in the cache$' || fail "$(preloaded message)"
reader bash -euc "$(page_block docs/guides/preload-and-pin.md 1)" >/dev/null || fail "kubectl does not see the condition"
n wait --for=condition=Complete job/train --timeout=180s >/dev/null || fail "the Job has not ended: $(job_pods)"
has_text "DataReady: Dataset imagenet is preloaded: 2.86MiB in 6 files" events_of "$gated" || fail "$(events_of "$gated")"
n delete job train --wait --timeout=60s >/dev/null

step "a file changes, and one comes"
head -c 700000 /dev/urandom >"$WORK/new"
put "$WORK/new" train/part-1
put "$WORK/new" train/part-7
expect 120 "they are loaded: $(preloaded message)" is_preloaded 7

step "a worker loses its cache"
edit '{"spec":{"cache":{"replicas":1}}}'
expect 180 "all is in the one that is left: $(preloaded message)" is_preloaded 7
was=$(uid pod/imagenet-cache-0) since=$(preloaded lastTransitionTime)
eval "$("$ROOT/hack/cluster" env)"
caches=/var/lib/kubelet/plugins/csi.millrace.dev/workers/$NS # ours alone: others run beside us, and what they remove makes find fail
gone=0
for node in $(k get nodes -o jsonpath='{.items[*].metadata.name}'); do # the next one may be where the second was
    emptied=$("$ROOT/hack/cluster" exec "$node" sh -c "[ ! -d '$caches' ] || find '$caches' -ignore_readdir_race -type f -print -delete") || fail "the cache on $node is not emptied"
    gone=$((gone + $(grep -c . <<<"$emptied" || true)))
done
[ "$gone" -gt 0 ] || fail "there is no cache in $caches of any node"
n delete pod imagenet-cache-0 --grace-period=0 --force >/dev/null 2>&1
expect 60 "it is made again" is_another pod/imagenet-cache-0 "$was"
expect 180 "it is not preloaded, then it is again: $(preloaded message)" is_preloaded_since "$since" 7
[ "$(worker_json imagenet-cache-0 | jq '.reads.storeBytes >= 3900000 and .cache.completeFiles >= 7')" = true ] ||
    fail "the worker has not fetched it again: $(worker_json imagenet-cache-0)"

step "the list is edited: a path that is not there, then one that is, pinned"
edit '{"spec":{"cache":{"preload":[{"path":"/val","pin":true},{"path":"/train"}]}}}'
expect 120 "it says which path: $(preloaded message)" says_not PathNotFound
preloaded message | grep -q 'list /val' || fail "$(preloaded message)"
put "$WORK/new" val/one
expect 150 "it is looked for again: $(preloaded message)" is_preloaded 8
expect 30 "it is pinned" pinned_are 1
edit '{"spec":{"cache":{"preload":[{"path":"/train"}]}}}'
expect 120 "it is preloaded: $(preloaded message)" is_preloaded 7
expect 30 "its pin has ended" pinned_are 0

step "a mistyped prefix has no file: it is not preloaded, until some are there"
condition_of() { jsonpath "dataset/$1" "{.status.conditions[?(@.type==\"$2\")].$3}"; }
example true | jq -c 'select(.kind == "Dataset") | .metadata.name = "typo" | .spec.mounts[0].mountPoint = "s3://data/trian"
    | .spec.cache.replicas = 1 | .spec.cache.preload = [{path: "/"}]' | n apply -f - >/dev/null
expect 120 "it says so: $(condition_of typo Ready message)" has_text NotFound condition_of typo Ready reason
condition_of typo Ready message | grep -q 'bucket data has no object below trian/: correct the prefix in mountPoint' || fail "$(condition_of typo Ready message)"
expect 20 "and warns" has_text "no object below trian/" events_of typo
expect 20 "it is not preloaded" has_text False condition_of typo Preloaded status
put "$WORK/new" trian/one
expect 150 "files are looked for again: $(condition_of typo Preloaded message)" has_text True condition_of typo Preloaded status
n delete dataset typo --wait --timeout=60s >/dev/null

step "a worker evicts some of it for what pods read"
head -c 15000000 /dev/urandom >"$WORK/other"
for i in 1 2 3 4 5 6 7 8; do put "$WORK/other" "other/part-$i"; done
pod reader imagenet 'while :; do cat /mnt/fuse/other/* >/dev/null; done'
expect 180 "some of it is evicted: $(worker_json imagenet-cache-0)" has_evicted
n delete pod reader --wait --timeout=60s >/dev/null
expect 240 "it has looked again, and loaded it: $(preloaded message)" has_looked_again 7

step "more than fits"
head -c 80000000 /dev/urandom >"$WORK/large"
put "$WORK/large" large/part
edit '{"spec":{"cache":{"preload":[{"path":"/large"}]}}}'
expect 120 "it says so: $(preloaded message)" says_not TooLarge
preloaded message | grep -q '76.29MiB in 1 files do not fit into the 64.00MiB of 1 cache worker: raise spec.cache.replicas' || fail "$(preloaded message)"

step "a TFJob waits in the same words"
restricted imagenet 'cd /mnt/fuse; sha256sum train/part-2' tensorflow | jq -c '{apiVersion: "kubeflow.org/v1", kind: "TFJob",
    metadata: {name: "fit", annotations: {"millrace.dev/data": "Preloaded", "millrace.dev/placement": "Require"}},
    spec: {tfReplicaSpecs: {Worker: {replicas: 1, restartPolicy: "Never", template: {spec: .}}}}}' | n apply -f - >/dev/null
expect 60 "it waits" has_text "Dataset imagenet is not preloaded: TooLarge" jsonpath tfjob/fit '{.status.conditions[?(@.type=="WaitingForDataset")].message}'
expect 20 "and warns" has_text "WaitingForDataset: Dataset imagenet is not preloaded: TooLarge" events_of fit
[ -z "$(n get pods -l training.kubeflow.org/job-name=fit -o name)" ] || fail "it has pods all the same"
edit '{"spec":{"cache":{"preload":[{"path":"/train"}]}}}'
expect 120 "it starts, and ends" job_is fit Succeeded
jsonpath pod/fit-worker-0 '{.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution}' | grep -q "$(jsonpath pod/imagenet-cache-0 '{.spec.nodeName}')" ||
    fail "it may run elsewhere: $(jsonpath pod/fit-worker-0 '{.spec.affinity}')"

step "pods are placed, and mistakes answered"
pod_with() # NAME LABELS GATES CLAIM
{
    restricted "$4" 'sleep 3600' main | jq -c --arg name "$1" --argjson labels "$2" --argjson gates "$3" '{apiVersion: "v1", kind: "Pod",
        metadata: {name: $name, labels: $labels}, spec: (. + {restartPolicy: "Never", schedulingGates: $gates})}' | n apply -f - >/dev/null
}
gate='[{"name":"millrace.dev/data"}]'
pod_with near '{"millrace.dev/data":"Preloaded","millrace.dev/placement":"Require"}' "$gate" imagenet
pod_with mistaken '{"millrace.dev/data":"preloaded"}' "$gate" imagenet
pod_with homeless '{"millrace.dev/data":"Ready"}' "$gate" nothing-like-it
pod_with loose '{"millrace.dev/data":"Ready"}' '[]' nothing-like-it
expect 90 "near runs: $(events_of near)" has_text Running jsonpath pod/near '{.status.phase}'
[ "$(jsonpath pod/near '{.spec.nodeName}')" = "$(jsonpath pod/imagenet-cache-0 '{.spec.nodeName}')" ] || fail "near runs elsewhere"
expect 30 "an unknown word is answered" has_text 'it must be Ready or Preloaded' events_of mistaken
expect 30 "so is a Dataset that is not there" has_text 'such as nothing-like-it, in namespace' events_of homeless
expect 30 "so is a label without a gate" has_text 'holds no pod back by itself' events_of loose
n label pod mistaken millrace.dev/data=Preloaded --overwrite >/dev/null
expect 90 "it runs once the word is right" has_text Running jsonpath pod/mistaken '{.status.phase}'

step "nothing is preloaded any more"
edit '{"spec":{"cache":{"preload":null}}}'
expect 60 "the pod goes" has_text NotFound n get pod imagenet-preload
[ -z "$(preloaded status)" ] || fail "the condition is still there"
