#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# The number of cache workers changes under a pod that reads: 1, 3, 2, 0, 1. No other pod of the Dataset is restarted or made again, not
# one read fails, and the client asks the workers that there are.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 24 3000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
n wait --for=condition=Ready dataset/data --timeout=120s >/dev/null || fail "$(ready_message data)"
# neither the client's cache nor the pod's memory has room for the files: workers are asked again and again
n patch dataset data --type merge -p '{"spec": {"cache": {"client": {"tiers": [{"medium": "SSD", "quota": "8Mi"}]}}}}' >/dev/null
# shellcheck disable=SC2016
restricted data 'cd /mnt/fuse; n=0
    while [ ! -e /tmp/stop ]; do
        sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }
        n=$((n + 1)); echo $n
    done; echo done' main | jq -c '.containers[0].resources = {limits: {memory: "24Mi"}} |
    {apiVersion: "v1", kind: "Pod", metadata: {name: "reader"}, spec: (. + {restartPolicy: "Never"})}' | n apply -f - >/dev/null
expect 120 "the pod runs" has_text Running jsonpath pod/reader '{.status.phase}'
rounds() { n logs reader --tail=1; }
further() { [ "$(rounds)" -gt "$(($1 + 2))" ]; }
goes_on()
{
    local was
    was=$(rounds)
    expect 90 "the reader goes on after round $was" further "$was"
    [ "$(jsonpath pod/reader '{.status.phase}')" = Running ] || fail "a read failed: $(n logs reader --tail=5)"
}
# uid and restarts of the pods that stay
lives() { n get pods -l millrace.dev/dataset=data -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[0].restartCount}{"\n"}{end}' | grep -E "^data-(client-|cache-($1) )" | sort; }
pods_of() { n get pods -l "millrace.dev/dataset=data,millrace.dev/component=$1" -o jsonpath='{.items[*].metadata.name}'; }
asks() { n logs "$client" | grep "cache workers now" | tail -1 | grep -q "there are $1 cache workers now"; }
serving() { [ "$(jsonpath dataset/data '{.status.workers.ready}/{.status.workers.desired}')" = "$1/$1" ] && [ "$(pods_of worker | wc -w)" = "$1" ]; }
served() { n get --raw "/api/v1/namespaces/$NS/pods/data-cache-$1:9402/proxy/metrics" | sed -n 's/^millrace_served_bytes_total //p'; }
has_served() { [ "$(served "$1")" -gt "$2" ]; }
scale() # NUMBER STAY: how many there are to be; which workers stay, as a regular expression
{
    local was i
    step "$1 workers"
    was=$(lives "$2")
    n scale dataset data --replicas "$1" >/dev/null
    expect 180 "there are $1 workers" serving "$1"
    expect 120 "the client knows of $1" asks "$1"
    goes_on
    for ((i = 0; i < $1; i++)); do
        expect 60 "worker $i sends bytes" has_served "$i" "$(served "$i")"
    done
    [ "$(lives "$2")" = "$was" ] || fail "pods were restarted: was $was, is $(lives "$2")"
}
client=$(pods_of client)
goes_on
scale 3 0
scale 2 '0|1'
scale 0 none
scale 1 none
step "an autoscaler sees its workers"
selected=$(n get --raw "/apis/millrace.dev/v1alpha1/namespaces/$NS/datasets/data/scale" | jq -r '.status.selector')
[ "$(n get pods -l "$selected" -o name)" = pod/data-cache-0 ] || fail "the scale's selector is $selected: $(n get pods -l "$selected" -o name)"
n exec reader -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 60 "the reader ends well: $(n logs reader --tail=3)" has_text Succeeded jsonpath pod/reader '{.status.phase}'
echo "$(n logs reader --tail=2 | head -1) rounds of 72 MB, 0 failed reads, 0 restarts"
