#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# What the API server itself says about TFJobs: good ones pass, whatever their age; mistakes are refused with the field and the
# remedy. Nothing is stored, but for the fields that cannot be changed.
. "$(dirname "$0")/lib.sh"
start_test

# A good job, changed by a jq program in which $r is its worker.
manifest() # NAME PROGRAM
{
    jq -nc --arg name "$1" '
        {replicas: 2, restartPolicy: "OnFailure", template: {metadata: {creationTimestamp: null, labels: {a: "b"}}, spec: {
            containers: [{name: "tensorflow", image: "busybox", env: [{name: "A", value: "b"}]}],
            volumes: [{name: "d", persistentVolumeClaim: {claimName: "x"}}]}}} as $r
        | {apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name}, spec: {tfReplicaSpecs: {Worker: $r}}} | '"$2"
}

takes() # NAME PROGRAM
{
    manifest "$1" "$2" | n apply --dry-run=server -f - >"$WORK/answer" 2>&1 || fail "$1, $2: $(cat "$WORK/answer")"
}

refuses() # NAME PROGRAM TEXT…
{
    local name=$1 program=$2 text
    shift 2
    if manifest "$name" "$program" | n apply --dry-run=server -f - >"$WORK/answer" 2>&1; then fail "accepted: $program"; fi
    for text; do grep -qF -- "$text" "$WORK/answer" || fail "$program: no '$text' in: $(cat "$WORK/answer")"; done
}

step "good ones"
takes plain .
takes policy '.spec.runPolicy = {cleanPodPolicy: "Running", suspend: true, backoffLimit: 0, ttlSecondsAfterFinished: 0,
    activeDeadlineSeconds: 3, managedBy: "kubeflow.org/training-operator", schedulingPolicy: {minAvailable: 3, queue: "q",
    minResources: {cpu: 1, memory: "1Gi"}, priorityClass: "high", scheduleTimeoutSeconds: 60}}
    | .spec.successPolicy = "AllWorkers" | .spec.enableDynamicWorker = true'
takes failure-policy '.spec.runPolicy.podFailurePolicy.rules = [{action: "Ignore", onPodConditions: [{type: "DisruptionTarget"}]},
    {action: "FailJob", onExitCodes: {containerName: "tensorflow", operator: "NotIn", values: [0, 42]}},
    {action: "Count", onReasons: ["OOMKilled"], replicaTypes: ["Worker", "ps"]}]'
takes letter-case '.spec.tfReplicaSpecs += {ps: $r, CHIEF: $r, evaluator: $r}'
takes from-before-1-2 '.spec += {cleanPodPolicy: "All", backoffLimit: 3, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 0}'
takes defaults 'del(.spec.tfReplicaSpecs.Worker | .replicas, .restartPolicy)'
takes sidecar '.spec.tfReplicaSpecs.Worker.template.spec.containers += [{name: "proxy", image: "proxy"}]'
takes none-for-now '.spec.tfReplicaSpecs.Worker.replicas = 0'
takes a-name-of-49-characters-is-not-too-long-for-ten-wor '.spec.tfReplicaSpecs.Worker.replicas = 1000'

step "mistakes"
types='Chief, Master, Worker, PS or Evaluator'
refuses t '.spec.tfReplicaSpecs.Wrker = $r' "unknown replica type 'Wrker'" "$types"
refuses t '.spec.tfReplicaSpecs = {}' spec.tfReplicaSpecs 'at least one of'
refuses t 'del(.spec.tfReplicaSpecs)' spec.tfReplicaSpecs Required
refuses t 'del(.spec)' spec Required
refuses t '.spec.tfReplicaSpecs.Worker = null' spec.tfReplicaSpecs
refuses t '.spec.tfReplicaSpecs += {Chief: $r, master: $r}' 'Chief and Master' 'keep one'
refuses t '.spec.tfReplicaSpecs.worker = $r' 'twice' 'keep one'
containers=.spec.tfReplicaSpecs.Worker.template.spec.containers
refuses t "${containers}[0].name = \"main\"" 'spec.tfReplicaSpecs[Worker].template.spec.containers' "no container named 'tensorflow'"
refuses t "$containers = []" 'template.spec.containers' 'at least 1'
refuses t "del($containers)" 'template.spec.containers' Required
refuses t "del(${containers}[0].image)" 'containers[0].image' Required
refuses t "${containers}[0].image = \"\"" 'containers[0].image'
refuses t '.spec.tfReplicaSpecs.Worker.replicas = -1' spec.tfReplicaSpecs.Worker.replicas 'greater than or equal to 0'
refuses t '.spec.tfReplicaSpecs.Worker.restartPolicy = "Sometimes"' restartPolicy '"Always", "OnFailure", "Never", "ExitCode"'
refuses t '.spec.runPolicy.cleanPodPolicy = "Some"' spec.runPolicy.cleanPodPolicy '"All", "Running", "None"'
refuses t '.spec.successPolicy = "First"' spec.successPolicy AllWorkers
refuses t '.spec.runPolicy.managedBy = "other-job-controller"' spec.runPolicy.managedBy kueue.x-k8s.io/multikueue
refuses t '.spec.runPolicy.backoffLimit = -1' spec.runPolicy.backoffLimit
refuses t '.spec.runPolicy.activeDeadlineSeconds = -1' spec.runPolicy.activeDeadlineSeconds
rules=.spec.runPolicy.podFailurePolicy.rules
refuses t "$rules"' = [{action: "Stop", replicaTypes: ["PS"]}]' 'podFailurePolicy.rules[0].action' '"FailJob", "FailIndex", "Ignore", "Count"'
refuses t "$rules"' = [{action: "Ignore", onExitCodes: {operator: "Is", values: [1]}}]' 'onExitCodes.operator' '"In", "NotIn"'
refuses t "$rules"' = [{action: "Ignore", onExitCodes: {operator: "In", values: [0]}}]' 'onExitCodes' '0 is no failure'
refuses t "$rules"' = [{action: "Ignore"}]' 'rules[0]' 'fits everything' 'onReasons'
refuses t "$rules"' = [{action: "Ignore", replicaTypes: ["Wrker"]}]' replicaTypes 'unknown replica type'
refuses 00test . 'metadata.name must begin with a letter' 'choose another name'
refuses a.dot . 'metadata.name must begin with a letter'
refuses a-name-that-is-just-a-little-too-long-for-its-many-worke . 'metadata.name is too long' 'at most 63' 'shorten it'
refuses a-name-of-56-characters-fits-for-one-worker-but-not-two0 '.spec.tfReplicaSpecs.Worker.replicas = 11' 'metadata.name is too long'

step "fields that cannot be changed"
stored() { manifest stored '.spec.runPolicy = {suspend: true, managedBy: "kueue.x-k8s.io/multikueue", schedulingPolicy: {queue: "a"}} | '"$1"; }
stored . | n apply -f - >/dev/null
for change in '.spec.runPolicy.managedBy = "kubeflow.org/training-operator"' 'del(.spec.runPolicy.managedBy)' 'del(.spec.runPolicy)' \
    '.spec.runPolicy.schedulingPolicy.queue = "b"'; do
    if stored "$change" | n replace -f - >"$WORK/answer" 2>&1; then fail "changed: $change"; fi
    grep -q 'cannot be changed' "$WORK/answer" || fail "$change: $(cat "$WORK/answer")"
done
stored '.spec.runPolicy.cleanPodPolicy = "All"' | n replace -f - >/dev/null

step "what kubectl shows"
[ "$(n get tfjob stored | awk 'NR == 1 { print $1, $2, $3 }')" = "NAME STATE AGE" ] || fail "other columns: $(n get tfjob)"
