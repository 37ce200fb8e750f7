#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# alone
# Quotas on pods, on limits and on storage, a LimitRange, a network that keeps the caches' port shut: what is refused is said with the
# server's words on the object that waits, goes on by itself once there is room, and holds nobody else up.
. "$(dirname "$0")/lib.sh"
start_test

FREE=$NS FULL=$NS-full
k delete namespace "$FULL" --ignore-not-found --wait --timeout=120s >/dev/null
k create namespace "$FULL" >/dev/null
k label namespace "$FULL" pod-security.kubernetes.io/enforce=restricted >/dev/null
RULES=()
open_again()
{
    local rule
    # shellcheck disable=SC2086 # the words of a rule
    for rule in "${RULES[@]}"; do "$ROOT/hack/cluster" exec ${rule%% *} iptables -D ${rule#* } >/dev/null 2>&1 || true; done
    RULES=()
}
leave()
{
    open_again
    NS=$FULL
    if [ "$1" != 0 ]; then n get dataset,dataload,tfjob,pods,quota,limitrange -o wide 2>&1 | cut -c 1-400 || true; fi
    [ -n "${KEEP:-}" ] || k delete namespace "$FULL" --wait=false >/dev/null
    NS=$FREE
}
at_end leave
says() # OBJECT TYPE STATUS TEXT: the condition has it
{
    [ "$(jsonpath "$1" "{.status.conditions[?(@.type==\"$2\")].status}")" = "$3" ] &&
        has_text "$4" jsonpath "$1" "{.status.conditions[?(@.type==\"$2\")].message}"
}
said() { jsonpath "$1" '{range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}'; }
shut() # POD: nobody from another address reaches its port; kubelet does, as with a NetworkPolicy
{
    local node ip rule
    node=$(jsonpath "pod/$1" '{.spec.nodeName}') ip=$(jsonpath "pod/$1" '{.status.podIP}')
    rule="$node FORWARD -d $ip -p tcp --dport 9400 -j DROP"
    RULES+=("$rule")
    # shellcheck disable=SC2086
    "$ROOT/hack/cluster" exec "$node" iptables -I ${rule#* }
}

s3_up
random_files 2 300000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset shut >/dev/null
# shellcheck disable=SC2016
pod reader shut 'cd /mnt/fuse; n=0; while [ ! -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }; n=$((n + 1)); echo $n; sleep 0.2; done'
expect 120 "the pod reads" has_text 2 n logs reader

step "the ports of a Dataset's pods are shut"
shut shut-cache-0
shut "$(n get pods -l millrace.dev/component=client -o jsonpath='{.items[0].metadata.name}')"

step "a namespace whose quotas are used up, and allow little storage"
NS=$FULL
n create quota room --hard=pods=0,requests.storage=5Gi >/dev/null
secret keys "$S3_KEY" "$S3_SECRET"
dataset data s3://data "http://s3.$FREE.svc.cluster.local:7070" >/dev/null
tfjob waits data 'cd /mnt/fuse; sha256sum -c sums.txt' 0 1
expect 60 "the Dataset names the quota: $(said dataset/data)" has_text "exceeded quota: room" said dataset/data
expect 60 "and what to do" has_text "raise the quota, or ask for fewer or smaller pods" said dataset/data
expect 60 "its claim is bound all the same" has_text Bound jsonpath pvc/data '{.status.phase}'

step "elsewhere a job comes to its end meanwhile"
NS=$FREE
tfjob goes shut 'cd /mnt/fuse; sha256sum -c sums.txt' 0 1
expect 120 "the job of another namespace ends well" job_is goes Succeeded

step "there is room, but for one pod only"
NS=$FULL
n patch quota room --type=merge -p '{"spec": {"hard": {"pods": "1"}}}' >/dev/null
expect 120 "the worker is made, and the Dataset is ready: $(said dataset/data)" says dataset/data Ready True "pods can mount"
expect 90 "the job's quota is named in an Event" has_text "exceeded quota: room" n get events --field-selector involvedObject.kind=TFJob -o jsonpath='{.items[*].message}'
[ "$(jsonpath dataset/data '{.status.conditions[?(@.type=="Ready")].status}')" = True ] || fail "the Dataset is not ready any more: $(said dataset/data)"
n patch quota room --type=merge -p '{"spec": {"hard": {"pods": "20"}}}' >/dev/null
expect 120 "there is room: the job ends well" job_is waits Succeeded

step "a quota on limits refuses the pods of a load, which have none; a LimitRange gives them some"
n create quota limits --hard=limits.cpu=4 >/dev/null
n apply -f - >/dev/null <<YAML
{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: warm}, spec: {dataset: {name: data}, target: [{path: /train}]}}
YAML
expect 60 "the load names the quota: $(said dataload/warm)" has_text "quota: limits: must specify limits.cpu" said dataload/warm
expect 60 "and the field" has_text "spec.cache.loader.resources" said dataload/warm
n apply -f - >/dev/null <<YAML
{apiVersion: v1, kind: LimitRange, metadata: {name: usual}, spec: {limits: [{type: Container, default: {cpu: 500m}, defaultRequest: {cpu: 10m}}]}}
YAML
expect 120 "it is loaded: $(said dataload/warm)" says dataload/warm Complete True ""
n delete quota limits >/dev/null

step "a LimitRange that allows less memory than a worker asks for"
n apply -f - >/dev/null <<YAML
{apiVersion: v1, kind: LimitRange, metadata: {name: usual}, spec: {limits: [{type: Container, max: {memory: 16Mi}}]}}
YAML
dataset big s3://data "http://s3.$FREE.svc.cluster.local:7070" >/dev/null
expect 60 "the Dataset says what is too much: $(said dataset/big)" has_text memory said dataset/big
expect 30 "and the field: $(said dataset/big)" has_text "cache.worker.resources" said dataset/big
says dataset/data Ready True "pods can mount" || fail "another one suffers: $(said dataset/data)"
n delete limitrange usual >/dev/null
expect 120 "it is ready once the range is gone: $(said dataset/big)" says dataset/big Ready True "pods can mount"

step "what the shut ports did"
NS=$FREE
expect 120 "the Dataset says who keeps them shut: $(said dataset/shut)" has_text "is there a NetworkPolicy that keeps port 9400 shut?" said dataset/shut
was=$(n logs reader --tail=1)
further() { [ "$(n logs reader --tail=1)" -gt "$((was + 2))" ]; }
expect 60 "the pod reads on after round $was" further
pod late shut 'cd /mnt/fuse; sha256sum -c sums.txt'
expect 120 "a new pod mounts and reads" has_text Succeeded jsonpath pod/late '{.status.phase}'
open_again
heard() { ! has_text "keeps port 9400 shut" said dataset/shut; }
expect 120 "once they are open that is not said any more: $(said dataset/shut)" heard
n exec reader -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 60 "the reader has ended well: $(n logs reader --tail=3)" has_text Succeeded jsonpath pod/reader '{.status.phase}'
