#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# Gangs: the CRDs of volcano and of scheduler-plugins, and this test in the scheduler's place. No pod before the gang is admitted.
. "$(dirname "$0")/lib.sh"
start_test

operator_with() # GANG_SCHEDULER: until none with another one is left; helm does not wait for the last one's end
{
    helm upgrade "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --reuse-values --set "operator.gangScheduler=$1" --wait --timeout 2m >/dev/null &&
        within 60 no_other_operators
}

no_other_operators()
{
    [ "$(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o name | wc -l)" = "$(k -n "$SYSTEM" get deployment millrace-operator -o 'jsonpath={.spec.replicas}')" ]
}

restore()
{
    operator_with ""
    k delete --ignore-not-found --wait --timeout=60s -f "$ROOT/tests/asset/gang" >/dev/null
}
at_end restore

gang() # NAME POLICY SCHEDULER
{
    restricted none 'sleep 3' tensorflow | jq -c --arg name "$1" --argjson policy "$2" --arg scheduler "$3" '
        del(.volumes, .containers[].volumeMounts) | .schedulerName = $scheduler | .containers[0].resources.requests = {cpu: "10m"} | . as $pod
        | {apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name}, spec: {runPolicy: {schedulingPolicy: $policy},
            tfReplicaSpecs: {Worker: {replicas: 3, template: {spec: $pod}}}}}' | n apply -f - >/dev/null
}

waiting() { jsonpath "tfjob/$1" '{.status.conditions[?(@.type=="WaitingForGang")].message}'; }
pods() { n get pods -l "training.kubeflow.org/job-name=$1" -o name | wc -l; }

k apply -f "$ROOT/tests/asset/gang" >/dev/null
k wait --for=condition=Established crd/podgroups.scheduling.volcano.sh crd/podgroups.scheduling.x-k8s.io --timeout=30s >/dev/null

step "volcano"
operator_with volcano
gang held '{"queue": "training", "minAvailable": 3}' default-scheduler
expect 60 "it waits for the scheduler" has_text "waiting for 3 of 3 pods" waiting held
group=podgroups.scheduling.volcano.sh/held
expect 30 "its group is made" n get $group # after the job says that it waits
[ "$(jsonpath $group '{.spec.minMember} {.spec.queue} {.spec.minResources.cpu}')" = "3 training 30m" ] || fail "$(n get $group -o yaml)"
[ "$(pods held)" = 0 ] || fail "there are pods before the gang is admitted"
before=$(jsonpath $group '{.metadata.resourceVersion}')
n annotate tfjob held look=again >/dev/null
n patch $group --type=merge --subresource=status -p '{"status": {"phase": "Pending"}}' >/dev/null 2>&1 ||
    n patch $group --type=merge -p '{"status": {"phase": "Pending"}}' >/dev/null
expect 30 "the phase is told" has_text "its phase is Pending" waiting held
[ "$(pods held)" = 0 ] || fail "there are pods while the gang is Pending"
n patch $group --type=merge --subresource=status -p '{"status": {"phase": "Inqueue"}}' >/dev/null 2>&1 ||
    n patch $group --type=merge -p '{"status": {"phase": "Inqueue"}}' >/dev/null
expect 60 "it has succeeded" job_is held Succeeded
n get pod held-worker-0 -o jsonpath='{.metadata.annotations}' | grep -q '"scheduling.k8s.io/group-name":"held"' || fail "the pod does not name its group"
[ -z "$(waiting held)" ] || fail "it still waits"
expect 30 "the group goes with the end" has_text NotFound n get $group
[ -n "$before" ] || fail "the group had no version"

step "scheduler-plugins"
operator_with coscheduling
gang loose '{"scheduleTimeoutSeconds": 60}' default-scheduler
expect 60 "its group is made" n get podgroups.scheduling.x-k8s.io/loose
expect 60 "its pods are not held" job_is loose Succeeded
[ "$(jsonpath pod/loose-worker-0 '{.metadata.labels.scheduling\.x-k8s\.io/pod-group}')" = loose ] || fail "the pod does not name its group"
gang stuck '{}' nobody
expect 60 "pods without nodes are told" has_text "waiting for 3 of 3 pods: those of PodGroup stuck have no node yet" waiting stuck
