#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# The CustomResourceDefinition of TFJobs is another's, as where the training operator was: its schema drops what is remembered of jobs.
# Jobs are held still and say so with the remedy; after that command they go on, and end well.
. "$(dirname "$0")/lib.sh"
start_test
crd=crd/tfjobs.kubeflow.org

restore() { k apply --server-side --force-conflicts -f "$ROOT/crds/" >/dev/null; }
at_end restore

job() # NAME: it ends once it is told to
{
    restricted none 'while [ ! -e /tmp/end ]; do sleep 0.2; done' tensorflow | jq -c --arg name "$1" 'del(.volumes, .containers[].volumeMounts)
        | {apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name}, spec: {tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: .}}}}}' |
        n apply -f - >/dev/null
}

# What a schema without our fields keeps: the object's own, Helm's notes in its metadata stay.
foreign()
{
    k get "$crd" -o json | jq '
        def open: {type: "object", "x-kubernetes-preserve-unknown-fields": true};
        def text: {type: "string"};
        del(.status, .metadata.managedFields) | .spec.versions[0] |= (del(.additionalPrinterColumns) | .subresources = {status: {}}
            | .schema.openAPIV3Schema = {type: "object", properties: {apiVersion: text, kind: text, metadata: {type: "object"}, spec: open,
                status: {type: "object", properties: {startTime: text, completionTime: text, lastReconcileTime: text,
                    replicaStatuses: {type: "object", additionalProperties: open}, conditions: {type: "array", items: open}}}}})'
}

stalled() { [ "$(jsonpath "tfjob/$1" '{.status.conditions[?(@.type=="Stalled")].reason}')" = CRDNotOurs ]; }
not_stalled() { ! has_text CRDNotOurs jsonpath "tfjob/$1" '{.status.conditions}'; }
runs() { [ "$(jsonpath "pod/$1-worker-0" '{.status.phase}')" = Running ]; }
uid() { jsonpath "pod/$1" '{.metadata.uid}'; }

step "a job of before"
job before
expect 60 "it runs" runs before
pod=$(uid before-worker-0)

step "another's definition, and an operator that starts"
foreign | k replace -f - >/dev/null
k -n "$SYSTEM" rollout restart deployment/millrace-operator >/dev/null
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=60s >/dev/null
job new
for name in before new; do
    expect 60 "job $name is held still" stalled "$name"
    has_text "CRDNotOurs" n get events --field-selector "involvedObject.name=$name" || fail "no Event says so of $name"
done
[ "$(n get pods -o name)" = pod/before-worker-0 ] || fail "pods: $(n get pods)"
[ "$(uid before-worker-0)" = "$pod" ] || fail "the pod of before was replaced"
remedy=$(jsonpath tfjob/new '{.status.conditions[?(@.type=="Stalled")].message}' | grep -oE 'kubectl apply [-a-z /]*crds/') || fail "the message has no command"

step "$remedy"
(cd "$ROOT" && eval "$remedy" >/dev/null)
for name in before new; do
    expect 90 "job $name goes on" not_stalled "$name"
    expect 60 "job $name runs" runs "$name"
done
[ "$(uid before-worker-0)" = "$pod" ] || fail "the pod of before was replaced"
for name in before new; do
    n exec "$name-worker-0" -- touch /tmp/end
    expect 60 "job $name ends well" job_is "$name" Succeeded
    [ "$(jsonpath "tfjob/$name" '{.status.indexes.Worker.completed}')" = 0 ] || fail "$name does not remember its worker"
done
