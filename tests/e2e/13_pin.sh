#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# What a DataLoad pins stays in the cache workers, more than may be pinned is refused in words, and another DataLoad lets it go. A pod
# pins files in its node's cache with nothing but the mount.
. "$(dirname "$0")/lib.sh"
start_test

load() # NAME MEMBERS OF SPEC
{
    n apply -f - >/dev/null <<YAML
{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: $1}, spec: {dataset: {name: data}, $2}}
YAML
}

phase_is() { [ "$(jsonpath "dataload/$1" '{.status.phase}')" = "$2" ]; }
condition() { jsonpath "dataload/$1" "{.status.conditions[?(@.type==\"$2\")].message}"; }

pinned() # POD
{
    k get --raw "/api/v1/namespaces/$NS/pods/$1:9402/proxy/metrics" | sed -n 's/^millrace_cache_pinned_files //p'
}
pinned_are() { [ "$(pinned "$1")" = "$2" ]; }

s3_up
random_files 4 1000000 train
head -c 30000000 /dev/urandom >"$WORK/large"
put "$WORK/large" large/part
secret keys "$S3_KEY" "$S3_SECRET"
n apply -f - >/dev/null <<YAML
apiVersion: millrace.dev/v1alpha1
kind: Dataset
metadata: {name: data}
spec:
  mounts:
    - mountPoint: s3://data
      options: {endpoint: "http://s3.$NS.svc.cluster.local:7070", region: us-east-1}
      encryptOptions:
        - {name: access-key-id, valueFrom: {secretKeyRef: {name: keys, key: access}}}
        - {name: secret-access-key, valueFrom: {secretKeyRef: {name: keys, key: secret}}}
  accessModes: [ReadOnlyMany]
  cache: {replicas: 1, tiers: [{medium: SSD, quota: 40Mi}]}
YAML

step "a DataLoad pins"
load kept 'pin: true, target: [{path: /train}]'
expect 120 "it is complete: $(condition kept Failed)" phase_is kept Complete
worker=$(n get pods -l millrace.dev/component=worker -o jsonpath='{.items[0].metadata.name}')
[ "$(pinned "$worker")" = 4 ] || fail "$(pinned "$worker") files are pinned"
if n patch dataload kept --type merge -p '{"spec":{"pin":false}}' >"$WORK/patch.out" 2>&1; then fail "spec.pin was changed"; fi
grep -q 'spec.pin cannot be changed: make a new DataLoad' "$WORK/patch.out" || fail "$(cat "$WORK/patch.out")"

step "a pod pins"
pod user data 'sleep 3600'
expect 90 "the pod runs" has_text Running jsonpath pod/user '{.status.phase}'
restricted data '' main | jq -c --arg node "$(jsonpath pod/user '{.spec.nodeName}')" '{apiVersion: "v1", kind: "Pod",
    metadata: {name: "pin"}, spec: (. + {restartPolicy: "Never", nodeName: $node} | .containers[0].image = "localhost/millrace:0.1.0"
    | .containers[0].command = ["millrace", "pin", "/mnt/fuse/train"])}' | n apply -f - >/dev/null
expect 90 "it has pinned: $(n logs pin 2>&1)" has_text Succeeded jsonpath pod/pin '{.status.phase}'
[ "$(n logs pin)" = "pinned 4 files, 3.81MiB" ] || fail "it says $(n logs pin)"
client=$(n get pods -l millrace.dev/component=client -o jsonpath='{.items[0].metadata.name}')
[ "$(pinned "$client")" = 4 ] || fail "the client has $(pinned "$client") pinned"

step "more than half of the cache"
load greedy 'pin: true, target: [{path: /large}]'
expect 90 "it fails: $(jsonpath dataload/greedy '{.status}')" phase_is greedy Failed
condition greedy Failed | grep -q "^load failed: pins may take half of a cache worker's quota" || fail "$(condition greedy Failed)" # at once
has_text /large/part jsonpath dataload/greedy '{.status.failures[0].path}' || fail "$(jsonpath dataload/greedy '{.status}')"

step "a path that is not there"
load nowhere 'target: [{path: /trian}]'
expect 90 "it fails: $(jsonpath dataload/nowhere '{.status}')" phase_is nowhere Failed
condition nowhere Failed | grep -q "^load failed: .*/trian.*correct spec.target" || fail "$(condition nowhere Failed)"
[ "$(jsonpath dataload/nowhere '{.status.conditions[?(@.type=="Failed")].reason}')" = PathNotFound ] || fail "$(jsonpath dataload/nowhere '{.status}')"

step "so much a second"
load slow 'bandwidth: 1Mi, target: [{path: /train}]'
expect 120 "it is complete: $(condition slow Failed)" phase_is slow Complete

step "a loader that the quota refuses"
n apply -f - >/dev/null <<YAML
{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, spec: {hard: {pods: "1"}}}
YAML
load refused 'target: [{path: /train}]'
expect 60 "it says so: $(condition refused Stalled)" has_text "exceeded quota: full" condition refused Stalled
n delete resourcequota full >/dev/null
expect 120 "it goes on: $(jsonpath dataload/refused '{.status}')" phase_is refused Complete

step "and lets it go"
load freed 'pin: false'
expect 120 "it is complete: $(condition freed Failed)" phase_is freed Complete
expect 10 "nothing is pinned" pinned_are "$worker" 0

step "by a schedule"
load often 'policy: Cron, schedule: "* * * * *", target: [{path: /train}]'
loaded_twice() { [ "$(jsonpath dataload/often '{.status.history[0].phase} {.status.phase}')" = "Complete Complete" ]; }
expect 200 "it has loaded twice: $(jsonpath dataload/often '{.status}')" loaded_twice
[ "$(jsonpath dataload/often '{.status.history[0].lastScheduleTime}')" \< "$(jsonpath dataload/often '{.status.lastScheduleTime}')" ] ||
    fail "$(jsonpath dataload/often '{.status}')"
