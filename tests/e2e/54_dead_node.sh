#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# A node with a reader of a dataset, and with another one's cache worker, loses its power: readers elsewhere go on, a new spec reaches their
# clients, new pods mount, the worker is made again elsewhere, and what cannot go on says why. When the node is back it has one client, and
# nothing is left over.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 2 1000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
n wait --for=condition=Ready dataset/data --timeout=90s >/dev/null
# neither the server, nor the cache worker, nor an operator is on it, if there is such a node
busy=$({ n get pods -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}'; k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}'; } | sort -u)
all=$(k get nodes -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}')
s3_node=$(jsonpath pod/s3 '{.spec.nodeName}')
dead=$(grep -vxF "$busy" <<<"$all" | head -n 1 || true)
[ -n "$dead" ] || dead=$(grep -vxF "$s3_node" <<<"$all" | head -n 1)
others=$(grep -vxF "$dead" <<<"$all")
is_back() { k wait --for=condition=Ready "node/$dead" --timeout=1s; }
power_on()
{
    is_back >/dev/null 2>&1 || "$ROOT/hack/cluster" start "$dead" >&2 || true
    within 120 is_back || true
}
uncordon() { for node in $others; do k uncordon "$node" >/dev/null || true; done; }
leave()
{
    uncordon
    power_on
}
at_end leave

step "a dataset whose only worker is on $dead"
for node in $others; do k cordon "$node" >/dev/null; done
dataset lonely >/dev/null
n patch dataset lonely --type=merge -p '{"spec": {"cache": {"worker": {"tolerations": [
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]}}}}' >/dev/null
worker_on() { n get pod lonely-cache-0 -o "jsonpath={.spec.nodeName} {.status.conditions[?(@.type=='Ready')].status} {.spec.tolerations[*].tolerationSeconds}"; }
is_on_dead() { [ "$(worker_on)" = "$dead True 5 5" ]; }
expect 120 "its worker serves there: $(worker_on)" is_on_dead
for node in $others; do k uncordon "$node" >/dev/null; done
lonely_uid=$(jsonpath pod/lonely-cache-0 '{.metadata.uid}')

# shellcheck disable=SC2016
reader='cd /mnt/fuse; n=0; while [ ! -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }; n=$((n + 1)); echo $n; sleep 0.2; done'
for node in $all; do pod "on-$node" data "$reader" "$node"; done
for node in $all; do expect 120 "the pod on $node runs" has_text Running jsonpath "pod/on-$node" '{.status.phase}'; done
clients() { n get pods -l millrace.dev/component=client -o "jsonpath={range .items[*]}{.spec.nodeName} {.metadata.uid} {.spec.containers[0].resources.requests.cpu}{\"\\n\"}{end}"; }
on_all() { [ "$(clients | wc -l)" = "$(wc -l <<<"$all")" ]; }
expect 60 "a client a node" on_all

step "$dead loses its power"
"$ROOT/hack/cluster" stop "$dead"
is_dead() { [ "$(k get node "$dead" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" != True ]; }
expect 120 "it is noticed" is_dead
clients_say() { has_text "${1}" n get dataset data -o jsonpath='{.status.conditions[?(@.type=="ClientsReady")].message}'; }
expect 90 "ClientsReady says that one is missing" clients_say "$(($(wc -l <<<"$all") - 1)) of $(wc -l <<<"$all")"

step "a new spec reaches the clients of the others"
n patch dataset data --type=merge -p '{"spec":{"cache":{"client":{"resources":{"requests":{"cpu":"60m"}}}}}}' >/dev/null
have_new() { for node in $others; do grep -q "^$node .* 60m$" <<<"$(clients)" || return 1; done; }
expect 120 "they have it" have_new
grep -q "^$dead .* 50m$" <<<"$(clients)" || fail "the client of the dead node was touched: $(clients)"
first=${others%%$'\n'*}
pod late data 'cd /mnt/fuse; sha256sum -c sums.txt' "$first"
expect 120 "a new pod mounts and reads" has_text Succeeded jsonpath pod/late '{.status.phase}'
goes_on() # POD
{
    local was now
    was=$(n logs "$1" --tail=1)
    further() { now=$(n logs "$1" --tail=1) && [ "$now" -gt "$was" ]; }
    expect 60 "$1 reads on after round $was" further "$1"
    [ "$(jsonpath "pod/$1" '{.status.phase}')" = Running ] || fail "$1 has failed: $(n logs "$1" --tail=5)"
}
for node in $others; do goes_on "on-$node"; done

step "the worker that was on $dead is made again elsewhere"
serves_elsewhere() { local now; now=$(worker_on) && [ "${now#* }" = "True 5 5" ] && [ "${now%% *}" != "$dead" ]; }
expect 240 "it serves: $(worker_on)" serves_elsewhere
[ "$(jsonpath pod/lonely-cache-0 '{.metadata.uid}')" != "$lonely_uid" ] || fail "it is the same pod"
expect 60 "its Dataset says so" n wait --for=condition=WorkersReady dataset/lonely --timeout=5s
given_up() { n get events --field-selector reason=PodGivenUp -o jsonpath='{.items[*].message}' | grep -q "Pod lonely-cache-0 .*$dead"; }
expect 30 "an Event says why" given_up

step "$dead is back"
"$ROOT/hack/cluster" start "$dead"
expect 120 "the node is ready" is_back
n delete pod "on-$dead" --wait=false --ignore-not-found >/dev/null # its mount died with the node
has_all() { [ "$(clients | cut -d ' ' -f 1 | sort)" = "$(sort <<<"$others")" ]; }
gone() { [ -z "$(n get pod "on-$dead" --ignore-not-found -o name)" ]; }
expect 180 "the pod of the node that died is gone" gone
expect 180 "its volume is unmounted, and the client went: $(clients)" has_all
pod again data 'cd /mnt/fuse; sha256sum -c sums.txt' "$dead"
expect 180 "a pod mounts and reads there again" has_text Succeeded jsonpath pod/again '{.status.phase}'
mounts() { "$ROOT/hack/cluster" exec "$dead" sh -c 'grep -c "fuse.millrace" /proc/self/mountinfo || true'; }
n delete pod again --wait >/dev/null
none_left() { [ "$(mounts)" = 0 ]; }
expect 120 "nothing is stacked there: $(mounts) mounts" none_left
for node in $others; do goes_on "on-$node"; done
expect 60 "ClientsReady is true again" n wait --for=condition=ClientsReady dataset/data --timeout=5s
