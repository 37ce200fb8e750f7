#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# Objects that a strict reader of JSON refuses, or that are huge as text, in each kind that the operator watches: whoever may make one of them
# must not stop it for all others, and an operator that starts with them in place becomes ready. That an object which cannot be read at all is
# passed over and named is for unit tests: this API server makes none. A slip in a pod template is refused by its name.
. "$(dirname "$0")/lib.sh"
start_test

NUL='{"metadata":{"annotations":{"poison":"a\u0000b"}}}'
CHANGED=()
poison() # OBJECT: of any namespace; what this test did not make is cleaned again
{
    kubectl --request-timeout=60s "$@" -p "$NUL" --type=merge >/dev/null || fail "the API server does not take NUL: kubectl $*"
}
clean()
{
    local object
    for object in "${CHANGED[@]}"; do k annotate "$object" poison- >/dev/null 2>&1; done
}
at_end clean

said() { jsonpath "tfjob/$1" "{.status.conditions[?(@.type==\"$2\")].message}"; }
operators() { k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o name; }
logs() { k -n "$SYSTEM" logs -l millrace.dev/component=operator --tail=2000 --prefix; }
plain() { restricted none "$1" tensorflow | jq -c 'del(.volumes, .containers[].volumeMounts)'; }
job() # NAME, its pod spec on stdin
{
    jq -c --arg name "$1" '{apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name},
        spec: {tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: .}}}}}' | n apply -f - >/dev/null
}

s3_up
random_files 1 1000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset before
n wait --for=condition=Ready dataset/before --timeout=90s >/dev/null
pod reads before 'cd /mnt/fuse; sha256sum -c sums.txt; sleep 600' # so that there is an attachment
n wait --for=jsonpath='{.status.phase}'=Running pod/reads --timeout=90s >/dev/null

step "one in each kind"
node=$(jsonpath pod/reads '{.spec.nodeName}')
CHANGED=("node/$node")
poison patch node "$node"
poison -n "$NS" patch dataset before
poison -n "$NS" patch pvc before
poison patch pv "$(jsonpath pvc/before '{.spec.volumeName}')"
for object in $(k get volumeattachment -o name); do
    CHANGED+=("$object")
    poison patch "$object"
done
for object in $(n get pods,services -l millrace.dev/component -o name); do poison -n "$NS" patch "$object"; done
plain 'sleep 600' | jq -c '.nodeSelector = {no: "node"}' | job nul
poison -n "$NS" patch tfjob nul
# 1.2 MB, which as text are six times as much; and a number that fits nowhere
plain true | jq -c '{apiVersion: "v1", kind: "Pod", metadata: {name: "huge", labels: {"training.kubeflow.org/job-name": "nul"}},
    spec: (. + {nodeSelector: {no: "node"}} | .containers[0].env = [{name: "X", value: ("<" * 1200000)}])}' >"$WORK/huge.json"
k create --raw "/api/v1/namespaces/$NS/pods" -f "$WORK/huge.json" >/dev/null # as it is: else kubectl makes it six times as long
plain true | jq -c '.terminationGracePeriodSeconds = "@"' | sed 's/"@"/10000000000000000000/' | job number

step "the others go on"
dataset after
plain true | job well
expect 30 "a job made after them ends" job_is well Succeeded
n wait --for=condition=Ready dataset/after --timeout=90s >/dev/null || fail "a Dataset made after them is not ready"
expect 10 "the job whose number fits nowhere says so" has_text terminationGracePeriodSeconds said number Stalled

step "an operator that starts with them in place"
operators | xargs kubectl -n "$SYSTEM" delete --wait >/dev/null
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=60s >/dev/null || fail "the operator does not become ready"
plain true | job again
expect 60 "a job made after that ends" job_is again Succeeded
if logs | grep -F "cache cannot follow"; then fail "an informer was held up"; fi

step "a slip in a template"
plain true | jq -c '.containers[0].resource = {limits: {cpu: 1}}' | job slip
expect 10 "it is named" has_text 'spec.containers[0].resource"' said slip Stalled
n delete tfjob slip >/dev/null
