#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# A pod asks for all that its node has left, and is bound first: the client for which no room is left runs all the same, within ten
# seconds, and so does its successor.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 1 1000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
n wait --for=condition=Ready dataset/data --timeout=90s >/dev/null
node=$(k get nodes -o jsonpath='{.items[-1:].metadata.name}')

milli() { sed -E 's/^([0-9]+)$/\1000/; s/m$//'; } # of cpu
left() # of the node's cpu, in thousandths
{
    local all used
    all=$(k get node "$node" -o jsonpath='{.status.allocatable.cpu}' | milli)
    used=$(k get pods -A --field-selector "spec.nodeName=$node,status.phase!=Succeeded,status.phase!=Failed" \
        -o jsonpath='{range .items[*].spec.containers[*]}{.resources.requests.cpu}{"\n"}{end}' | grep . | milli | awk '{ n += $1 } END { print n + 0 }')
    echo $((all - used))
}
client() { n get pod -l millrace.dev/component=client -o "jsonpath=$1"; }

step "a pod asks for all of $node: $(left)m"
restricted data 'cd /mnt/fuse; sha256sum -c sums.txt; echo read; while [ ! -e /tmp/stop ]; do sleep 0.2; cat sums.txt >/tmp/out; done' main |
    jq -c --arg node "$node" --arg cpu "$(left)m" '.containers[0].resources.requests = {cpu: $cpu} |
        {apiVersion: "v1", kind: "Pod", metadata: {name: "hungry"}, spec: (. + {restartPolicy: "Never", nodeSelector: {"kubernetes.io/hostname": $node}})}' |
    n apply -f - >/dev/null
expect 30 "the pod has the node" has_text "$node" jsonpath pod/hungry '{.spec.nodeName}'
start=$SECONDS
expect 60 "there is a client" has_text client client '{.items[0].metadata.labels.millrace\.dev/component}'
serves() { n wait --for=condition=Ready pod -l millrace.dev/component=client --timeout=1s; }
expect 60 "the client serves" serves
step "it serves $((SECONDS - start)) s after the pod was bound"
[ "$(client '{.items[0].metadata.annotations.millrace\.dev/small}')" = true ] || fail "the client is not small: $(client '{.items[0].metadata.annotations}')"
[ "$(client '{.items[0].spec.containers[0].resources.requests.memory}')" = 0 ] || fail "it asks for memory"
has_text "has no room for the client" n get events --field-selector reason=NodeFull -o jsonpath='{.items[*].message}' || fail "no Event says that the node is full"
expect 120 "the pod reads" has_text read n logs hungry

step "its successor"
was=$(client '{.items[0].metadata.uid}')
expect 60 "the API server deletes the client" n delete pod -l millrace.dev/component=client --wait=false
is_another() { serves && [ "$(client '{.items[0].metadata.uid}')" != "$was" ]; }
expect 90 "another one serves" is_another
[ "$(client '{.items[0].metadata.annotations.millrace\.dev/small}')" = true ] || fail "the successor is not small"
[ "$(n get events --field-selector reason=NodeFull -o jsonpath='{.items[*].count}')" = 1 ] || fail "the second one was not small from the start"
n exec hungry -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 60 "the pod has ended well" has_text Succeeded jsonpath pod/hungry '{.status.phase}'
