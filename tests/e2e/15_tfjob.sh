#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# TFJobs as training-operator's own end-to-end tests drive them: every replica is a small HTTP server on its port 2222 that tells
# its TF_CONFIG and exits with the code it is told. No data, no TensorFlow; many jobs at once.
. "$(dirname "$0")/lib.sh"
start_test

# shellcheck disable=SC2016 # the script is the container's
SERVER='
    mkdir -p /tmp/www/cgi-bin
    printf %s "$TF_CONFIG" >/tmp/www/tfconfig
    printf "%s\n" "#!/bin/sh" "echo Content-type: text/plain" "echo" "echo bye" "echo \${QUERY_STRING#code=} >/tmp/code" >/tmp/www/cgi-bin/exit
    chmod +x /tmp/www/cgi-bin/exit
    httpd -f -p 2222 -h /tmp/www &
    while [ ! -s /tmp/code ]; do sleep 0.2; done
    i=0; while [ "$(pidof httpd | wc -w)" -gt 1 ] && [ $i -lt 100 ]; do i=$((i+1)); sleep 0.1; done # until the answer is sent
    exit $(cat /tmp/code)'

job() # NAME RUN_POLICY TYPE=COUNT:RESTART_POLICY…
{
    local name=$1 policy=$2
    shift 2
    restricted none "$SERVER" tensorflow | jq -c --arg name "$name" --argjson policy "$policy" --args '
        (del(.volumes, .containers[].volumeMounts)) as $pod
        | {apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name}, spec: {runPolicy: $policy, tfReplicaSpecs:
            ($ARGS.positional | map(capture("(?<key>[A-Za-z]+)=(?<n>[0-9]+)(:(?<restart>[A-Za-z]+))?")
                | {key, value: ({replicas: (.n | tonumber), template: {spec: $pod}}
                    + (if .restart then {restartPolicy: .restart} else {} end))}) | from_entries)}}' "$@" | n apply -f - >/dev/null
}

ask() # POD PATH: by the name that TF_CONFIG gives to peers, from a pod of the same namespace
{
    n exec asker -- curl -sS --max-time 5 --retry 20 --retry-delay 1 --retry-all-errors "http://$1.$NS.svc.cluster.local:2222/$2"
}

tell() # POD CODE: it exits with this code
{
    [ "$(ask "$1" "cgi-bin/exit?code=$2")" = bye ] || fail "$1 does not answer"
}

phase() { jsonpath "pod/$1" '{.status.phase}'; }
phase_is() { [ "$(phase "$1")" = "$2" ]; }
incarnation() { jsonpath "pod/$1" '{.metadata.uid} {.status.containerStatuses[0].restartCount}'; }
is_another() { local now; now=$(incarnation "$1" 2>/dev/null) && [ "$now" != "$2" ] && phase_is "$1" Running; }
gone() { has_text NotFound n get "$1"; } # another error says nothing of it
true_condition() { [ "$(jsonpath "tfjob/$1" "{.status.conditions[?(@.type==\"$2\")].status}")" = True ]; }
message() { jsonpath "tfjob/$1" "{.status.conditions[?(@.type==\"$2\")].message}"; }
restarted_once() { [ "$(jsonpath "tfjob/$1" '{.status.indexes.PS.restarts.0}')" = 1 ]; }

all_run() # the pods of all jobs but the one whose time is short
{
    local others
    others=$(n get pods -l 'training.kubeflow.org/job-name,training.kubeflow.org/job-name!=deadline' --field-selector 'status.phase!=Running' -o name) &&
        [ -z "$others" ]
}

step "jobs"
restricted none 'sleep 3600' main | jq -c 'del(.volumes, .containers[].volumeMounts) | {apiVersion: "v1", kind: "Pod",
    metadata: {name: "asker"}, spec: .}' | n apply -f - >/dev/null
job simple '{}' Chief=1 PS=2 Worker=2
job workers '{}' Worker=3
job estimator '{}' Chief=1 PS=1 Worker=1 Evaluator=1
for policy in All Running None; do job "clean-${policy,,}" "{\"cleanPodPolicy\": \"$policy\"}" Chief=1 PS=1; done
for policy in Always OnFailure Never ExitCode; do
    for code in 0 1; do job "r-${policy,,}-$code" '{}' Chief=1 "PS=1:$policy"; done
done
job r-exitcode-130 '{}' Chief=1 PS=1:ExitCode
job limit '{"backoffLimit": 2, "cleanPodPolicy": "All"}' Worker=1:ExitCode
job deadline '{"activeDeadlineSeconds": 25, "cleanPodPolicy": "All"}' Worker=2
job ttl '{"ttlSecondsAfterFinished": 5}' Worker=1
job paused '{"suspend": true}' Worker=2
for name in simple workers estimator clean-{all,running,none} r-{always,onfailure,never,exitcode}-{0,1} r-exitcode-130 limit ttl; do
    expect 180 "job $name runs" true_condition "$name" Running
done
expect 180 "so do all pods: a job runs when its chief or one worker does" all_run
expect 60 "the one that asks runs" phase_is asker Running

step "names, services, TF_CONFIG"
[ "$(n get pods -l training.kubeflow.org/job-name=simple -o 'jsonpath={.items[*].metadata.name}')" = \
    "simple-chief-0 simple-ps-0 simple-ps-1 simple-worker-0 simple-worker-1" ] || fail "other names"
[ "$(n get services -l training.kubeflow.org/job-name=simple -o name | wc -l)" = 5 ] || fail "not a service per pod"
[ "$(n get pods -l training.kubeflow.org/job-name=simple,training.kubeflow.org/job-role=master -o name)" = pod/simple-chief-0 ] || fail "no master"
s=$NS.svc:2222
want="{\"cluster\":{\"chief\":[\"estimator-chief-0.$s\"],\"evaluator\":[\"estimator-evaluator-0.$s\"],\"ps\":[\"estimator-ps-0.$s\"],\"worker\":[\"estimator-worker-0.$s\"]},\"task\":{\"type\":\"evaluator\",\"index\":0},\"environment\":\"cloud\"}"
[ "$(ask estimator-evaluator-0 tfconfig)" = "$want" ] || fail "the evaluator's TF_CONFIG is $(ask estimator-evaluator-0 tfconfig)"
ask estimator-ps-0 tfconfig | grep -qF '"task":{"type":"ps","index":0}' || fail "the PS's TF_CONFIG is $(ask estimator-ps-0 tfconfig)"
[ -z "$(ask ttl-worker-0 tfconfig)" ] || fail "a single worker has a TF_CONFIG"

step "the chief ends, others do not"
tell simple-chief-0 0
expect 60 "simple has succeeded" job_is simple Succeeded
[ "$(message simple Succeeded)" = "TFJob $NS/simple successfully completed." ] || fail "$(message simple Succeeded)"
[ "$(jsonpath tfjob/simple '{.status.replicaStatuses.Worker}')" = '{"succeeded":2}' ] || fail "$(jsonpath tfjob/simple '{.status.replicaStatuses}')"
expect 30 "idle servers are freed" gone pod/simple-ps-0
phase_is simple-chief-0 Succeeded && phase_is simple-worker-1 Running || fail "other pods were touched"

step "worker 0 ends, without a chief; a finished worker that is deleted does not run again"
tell workers-worker-1 0
expect 30 "its end is remembered" has_text 1 jsonpath tfjob/workers '{.status.indexes.Worker.completed}'
n delete pod workers-worker-1 --wait --timeout=30s >/dev/null
before=$(incarnation workers-worker-2)
n delete pod workers-worker-2 --wait=false >/dev/null
expect 60 "a running worker that is deleted is replaced" is_another workers-worker-2 "$before"
gone pod/workers-worker-1 || fail "a finished worker runs again"
tell workers-worker-0 0
expect 60 "workers has succeeded" job_is workers Succeeded

step "cleanPodPolicy"
for name in all running none; do tell "clean-$name-chief-0" 0; done
for name in all running none; do expect 60 "clean-$name has succeeded" job_is "clean-$name" Succeeded; done
expect 30 "All: the chief goes" gone pod/clean-all-chief-0
expect 30 "All: the PS goes" gone pod/clean-all-ps-0
expect 30 "All: services go" gone service/clean-all-ps-0
expect 30 "Running: the PS goes" gone pod/clean-running-ps-0
phase_is clean-running-chief-0 Succeeded || fail "Running: the chief's log is gone"
phase_is clean-none-ps-0 Running || fail "None: the PS is $(phase clean-none-ps-0)"

step "restart policies"
declare -A was
for name in always-0 always-1 onfailure-0 onfailure-1 never-0 never-1 exitcode-0 exitcode-1 exitcode-130; do
    was[$name]=$(incarnation "r-$name-ps-0")
    tell "r-$name-ps-0" "${name#*-}"
done
for name in always-0 always-1 onfailure-1 exitcode-130; do
    expect 60 "$name is restarted" is_another "r-$name-ps-0" "${was[$name]}"
    expect 60 "$name: the job runs on" true_condition "r-$name" Running
    within 60 restarted_once "r-$name" || fail "$name: $(jsonpath "tfjob/r-$name" '{.status}')"
done
for name in onfailure-0 never-0 exitcode-0; do
    expect 30 "$name is not restarted" phase_is "r-$name-ps-0" Succeeded
    true_condition "r-$name" Running || fail "$name: the job does not run on"
done
for name in never-1 exitcode-1; do
    expect 30 "$name: the job has failed" job_is "r-$name" Failed
    [ "$(incarnation "r-$name-ps-0")" = "${was[$name]}" ] || fail "$name was restarted"
    message "r-$name" Failed | grep -qF "Pod r-$name-ps-0 on node" || fail "$name: the condition does not say which pod"
    message "r-$name" Failed | grep -qF "exited with code 1" || fail "$name: the condition does not say the code"
done
message r-exitcode-1 Failed | grep -q '^job "r-exitcode-1" is failing because "PS" replica(s) failed\.' || fail "$(message r-exitcode-1 Failed)"
message r-never-1 Failed | grep -q "^TFJob $NS/r-never-1 has failed because 1 PS replica(s) failed\." || fail "$(message r-never-1 Failed)"

step "limits"
before=$(incarnation limit-worker-0)
tell limit-worker-0 137
expect 60 "the worker is restarted" is_another limit-worker-0 "$before"
tell limit-worker-0 137
expect 60 "the limit is reached" job_is limit Failed
[ "$(message limit Failed)" = "Job limit has failed because it has reached the specified backoff limit" ] || fail "$(message limit Failed)"
expect 60 "the deadline has passed" job_is deadline Failed
[ "$(message deadline Failed)" = "Job deadline has failed because it was active longer than specified deadline" ] || fail "$(message deadline Failed)"
expect 30 "its pods are gone" gone pod/deadline-worker-1
tell ttl-worker-0 0
expect 60 "a job with a time to live goes" gone tfjob/ttl

step "suspend"
gone pod/paused-worker-0 || fail "a suspended job has pods"
[ -z "$(jsonpath tfjob/paused '{.status.startTime}')" ] || fail "a suspended job has begun"
n patch tfjob paused --type=merge -p '{"spec":{"runPolicy":{"suspend":false}}}' >/dev/null
expect 60 "it runs" true_condition paused Running
n patch tfjob paused --type=merge -p '{"spec":{"runPolicy":{"suspend":true}}}' >/dev/null
expect 60 "its pods are gone" gone pod/paused-worker-1
expect 60 "it says so" job_is paused Suspended
[ "$(jsonpath tfjob/paused '{.status.conditions[?(@.type=="Running")].status}')" = False ] || fail "suspended, and running"

step "what the API server refuses is said in the job"
n create quota none --hard=pods=0 >/dev/null
job over '{}' Worker=1
expect 60 "the job is stalled" job_is over Stalled
message over Stalled | grep -q 'exceeded quota' || fail "$(message over Stalled)"
expect 60 "an event says so" has_text FailedCreatePod n get events --field-selector involvedObject.name=over
n delete quota none >/dev/null
n annotate tfjob over try=again >/dev/null
expect 60 "it runs then" true_condition over Running
[ -z "$(message over Stalled)" ] || fail "it is still stalled"

step "deletion"
n delete tfjob --all --wait --timeout=60s >/dev/null
expect 60 "pods are gone" has_text "No resources" n get pods -l training.kubeflow.org/operator-name
expect 60 "services are gone" has_text "No resources" n get services -l training.kubeflow.org/operator-name
