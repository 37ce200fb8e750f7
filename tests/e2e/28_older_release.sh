#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# helm upgrade from a release with the CustomResourceDefinitions of tests/e2e/older: what was stored under them is read as it was, or said
# in the words of docs/reference/compatibility.md; it can be mended in place; and a pod reads all the while, before, during and after. (The
# programs are the present ones: of older ones there is no image without a network.)
. "$(dirname "$0")/lib.sh"
start_test
OLDER=$WORK/older
cp -r "$ROOT/charts/millrace" "$OLDER"
cp "$ROOT"/tests/e2e/older/*.dev_*.yaml "$ROOT"/tests/e2e/older/kubeflow*.yaml "$OLDER/files/crds/"
release() { helm upgrade "$RELEASE" "$1" -n "$SYSTEM" --reset-then-reuse-values --wait --timeout 120s >/dev/null; }
back() { release "$ROOT/charts/millrace" || fail "the present release is not there again"; }
knows() { k get crd datasets.millrace.dev -o json | jq -e '.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.cache.properties.rules'; }

for kind in datasets.millrace.dev dataloads.millrace.dev tfjobs.kubeflow.org; do
    [ -z "$(k get "$kind" -A -o name)" ] || fail "$kind of other tests are there, and would be read by an older schema"
done
at_end back
step "the older release"
release "$OLDER"
if knows >/dev/null; then fail "the older schema knows spec.cache.rules: it is not older"; fi
s3_up
random_files 1 3000000 train
secret keys "$S3_KEY" "$S3_SECRET"
sed "s|@ENDPOINT@|http://s3.$NS.svc.cluster.local:7070|" "$ROOT/tests/e2e/older/objects.yaml" >"$WORK/objects.yaml"
older_takes_it() { n apply -f "$WORK/objects.yaml"; } # the API server may take a while to serve the older schema
expect 30 "the older schema takes what was written for it" older_takes_it
tfjob older plain 'cd /mnt/fuse; ls train; sleep 1000' 1 0
pod reader plain 'cd /mnt/fuse; while true; do sha256sum -c sums.txt; sleep 1; done'
expect 120 "the pod reads" has_text "part-1: OK" n logs reader
load_is() { [ "$(jsonpath "dataload.millrace.dev/$1" '{.status.phase}')" = "$2" ]; }
expect 60 "the load of that time is complete" load_is once Complete
job_runs() { [ "$(jsonpath tfjob.kubeflow.org/older '{.status.replicaStatuses.Chief.active}')" = 1 ]; }
expect 90 "the job of that time runs" job_runs
[ "$(jsonpath dataset/plain '{.spec.cache.writeType} {.spec.cache.profile}')" = "CacheThrough auto" ] ||
    fail "the older schema fills in nothing: $(jsonpath dataset/plain '{.spec}')"
client() { n get pods -l millrace.dev/dataset=plain -o json | jq -r '[.items[] | .metadata.name + "/" + .metadata.uid] | sort | join(" ")'; }
pods_before=$(client)

step "helm upgrade"
release "$ROOT/charts/millrace"
expect 30 "the schema is the present one" knows

step "what was stored is read as it was"
expect 60 "plain is ready" has_text "True Ready" ready_message plain
[ "$(client)" = "$pods_before" ] || fail "pods of a Dataset that nobody edited were replaced: $pods_before, now $(client)"
load_is once Complete || fail "the load that was complete is $(jsonpath dataload.millrace.dev/once '{.status}')"
job_runs || fail "the job does not run any more: $(jsonpath tfjob.kubeflow.org/older '{.status}')"
n apply -f - >/dev/null <<<"$(sed '/^---/,$d' "$WORK/objects.yaml")" || fail "its manifest of that time is refused, though nothing of it is gone"
n annotate dataset.millrace.dev/plain note=x >/dev/null

step "or said in words"
expect 30 "named says what is gone" has_text "InvalidSpec" ready_message named
said=$(ready_message named)
step "$said"
has_text "is gone" echo "$said" || has_text "is now" echo "$said" || fail "the words do not say so: $said"
refused() # WORDS COMMAND…
{
    local words=$1 answer
    shift
    if answer=$("$@" 2>&1); then fail "accepted: $*: $answer"; fi
    grep -qF -- "$words" <<<"$answer" || fail "no '$words' in: $answer"
}
again() { sed -n '/^metadata: {name: named}/,/^---/p' "$WORK/objects.yaml" | sed '/^---/d; s/name: named/name: new/' | cat <(printf 'apiVersion: millrace.dev/v1alpha1\nkind: Dataset\n') -; }
again >"$WORK/new.yaml"
refused "write path: /NAME" n create -f "$WORK/new.yaml"
[ "$(jsonpath dataload.millrace.dev/metadata '{.status.conditions[?(@.type=="Failed")].reason}')" = InvalidSpec ] ||
    fail "a load with loadMetadata: true says $(jsonpath dataload.millrace.dev/metadata '{.status}')"
refused "spec.loadMetadata is gone" n create -f - <<<'{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: new}, spec: {dataset: {name: plain}, loadMetadata: true}}'

step "and mended in place"
n patch dataset.millrace.dev/named --type=json -p '[{"op":"remove","path":"/spec/tolerations"},{"op":"remove","path":"/spec/nodeAffinity"},
    {"op":"remove","path":"/spec/cache/profile"},{"op":"remove","path":"/spec/cache/writeType"},
    {"op":"remove","path":"/spec/mounts/0/name"},{"op":"add","path":"/spec/mounts/0/path","value":"/train"},
    {"op":"remove","path":"/spec/mounts/1/name"},{"op":"add","path":"/spec/mounts/1/path","value":"/sums"}]' >/dev/null
expect 90 "named is ready" has_text "True Ready" ready_message named

step "all the while"
n logs reader | sort | uniq -c
! grep -qv ': OK$' <(n logs reader) || fail "a read failed"
[ "$(jsonpath pod/reader '{.status.containerStatuses[0].restartCount} {.status.phase}')" = "0 Running" ] || fail "the reader was restarted"
n delete pod reader --wait --timeout=60s >/dev/null
n delete tfjob.kubeflow.org/older --wait --timeout=60s >/dev/null
n delete dataload.millrace.dev/once dataload.millrace.dev/metadata datasets.millrace.dev/plain datasets.millrace.dev/named --wait --timeout=90s >/dev/null
