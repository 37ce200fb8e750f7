#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# A Dataset is edited to pods that the API server refuses: the worker keeps its bytes, the client serves a pod that reads, and the
# conditions say what to correct. Once that is done they are replaced, and the pod reads on.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 2 300000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
n wait --for=condition=Ready dataset/data --timeout=90s >/dev/null
pod reader data 'cd /mnt/fuse; n=0
    while [ ! -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }; n=$((n+1)); echo $n; sleep 0.05; done; echo done'
expect 120 "the pod reads" has_text 3 n logs reader
rounds() { n logs reader --tail=1; }
test_later() { [ "$(rounds)" -gt "$(($1 + 2))" ]; }
goes_on() { expect 60 "the pod reads on" test_later "$(rounds)"; }
uid() { n get pod -l "millrace.dev/component=$1" -o 'jsonpath={.items[0].metadata.uid}'; } # COMPONENT
says() # TYPE STATUS TEXT: the condition has it
{
    [ "$(jsonpath dataset/data "{.status.conditions[?(@.type==\"$1\")].status}")" = "$2" ] &&
        has_text "$3" jsonpath dataset/data "{.status.conditions[?(@.type==\"$1\")].message}"
}
edit() { n patch dataset data --type merge -p "{\"spec\": {\"cache\": {\"$1\": $2}}}" >/dev/null; } # COMPONENT JSON
n patch dataset data --type merge -p '{"spec": {"cache": {"preload": [{"path": "/train"}]}}}' >/dev/null
expect 120 "it is preloaded" says Preloaded True "in 2 files of 1 path are in the cache"
worker=$(uid worker) client=$(uid client) loader=$(uid loader)

step "a priority class that is not there"
edit loader '{"priorityClassName": "nope"}'
expect 60 "Preloaded says so, and stays" says Preloaded True "no PriorityClass with name nope was found"
says Preloaded True "correct spec.cache.loader.priorityClassName" || fail "it does not name the field"
[ "$(uid loader)" = "$loader" ] || fail "the pod that preloads was deleted"
edit loader '{"priorityClassName": null}'
edit client '{"priorityClassName": "nope"}'
expect 60 "ClientsReady says so" says ClientsReady False "no PriorityClass with name nope was found"
says ClientsReady False "correct spec.cache.client.priorityClassName" || fail "it does not name the field"
edit worker '{"priorityClassName": "nope"}'
expect 60 "WorkersReady says so" says WorkersReady False "no PriorityClass with name nope was found"
says WorkersReady False "correct spec.cache.worker.priorityClassName" || fail "it does not name the field"
says Ready True "pods can mount" || fail "Ready has gone: $(ready_message data)"
has_text "no PriorityClass with name nope" n get events --field-selector involvedObject.kind=Dataset,reason=ApplyFailed -o jsonpath='{.items[*].message}' ||
    fail "no Event on the Dataset"
goes_on
[ "$(uid worker)" = "$worker" ] || fail "the worker was deleted"
[ "$(uid loader)" = "$loader" ] || fail "the pod that preloads was deleted though it is made as before"
[ "$(uid client)" = "$client" ] || fail "the client was deleted"

step "it is corrected"
is_another() { local now && now=$(uid "$1") && [ -n "$now" ] && [ "$now" != "$2" ]; }
n create quota full --hard=pods="$(n get pods -o name | wc -l)" >/dev/null # the old ones count in it
edit client '{"priorityClassName": null, "labels": {"team": "a"}}'
edit worker '{"priorityClassName": null, "labels": {"team": "a"}}'
expect 120 "the worker is replaced" is_another worker "$worker"
expect 120 "the client is replaced" is_another client "$client"
expect 120 "all workers are ready" says WorkersReady True "1 of 1"
expect 120 "all clients serve" says ClientsReady True "1 of 1"
goes_on
n exec reader -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 60 "the pod has ended well" has_text Succeeded jsonpath pod/reader '{.status.phase}'
