#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# Pods that got a volume of the driver in spite of the policy (its binding is taken away here), as user 65532 and as root without
# capabilities: what they try against the node plugin (tests/fake/hostile.c) harms no other pod, no other file and not the plugin.
. "$(dirname "$0")/lib.sh"
start_test
BINDING=validatingadmissionpolicybinding/$RELEASE-inline-volumes
PLUGIN_DIR=/var/lib/kubelet/plugins/csi.millrace.dev VICTIM=/var/lib/kubelet/plugins/csi.millrace.dev/victim
NODE=$(k get nodes -l '!node-role.kubernetes.io/control-plane' -o jsonpath='{.items[0].metadata.name}')
on_node() { "$ROOT/hack/cluster" exec "$NODE" "$@" </dev/null; }

leave()
{
    k apply -f "$WORK/binding.yaml" >/dev/null 2>&1 || fail "the binding is not there again"
    on_node rm -rf "$VICTIM"
}
k get "$BINDING" -o json | jq 'del(.metadata.resourceVersion, .metadata.uid)' >"$WORK/binding.yaml"
at_end leave
k delete "$BINDING" >/dev/null
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null

# --- who must not be harmed -----------------------------------------------------------------------------------------------

plugin_pod() { k -n "$SYSTEM" get pods -l millrace.dev/component=csi --field-selector "spec.nodeName=$NODE" -o jsonpath="{.items[0]$1}"; }
restarts() { k -n "$SYSTEM" get pods -l 'millrace.dev/component in (csi, operator)' -o json | jq '[.items[].status.containerStatuses[].restartCount] | add'; }
s3_up
random_files 3 300000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
pod reader data 'cd /mnt/fuse; while [ ! -e /tmp/stop ]; do cat sums.txt train/part-* >/dev/null; sha256sum -c sums.txt >/dev/null; sleep 0.2; done' "$NODE"
expect 90 "the reader runs" has_text Running jsonpath pod/reader '{.status.phase}'
PLUGIN=$(plugin_pod .metadata.name)
before=$(restarts)
on_node sh -c "mkdir -m 700 $VICTIM && cd $VICTIM && for i in \$(seq 40); do echo precious >f\$i; done && chmod 600 f*"
open_files() { on_node find /var/lib/kubelet -xdev -path /var/lib/kubelet/pods -prune -o -type f -perm 0666 -print | sort; }
open_files >"$WORK/open-before"

# --- the attack -----------------------------------------------------------------------------------------------------------

hostile() # NAME USER VOLUMES COMMAND: a volume is its Dataset's uid, and is at /UID
{
    jq -nc --arg name "$1" --argjson user "$2" --arg volumes "$3" --arg command "$4" --arg node "$NODE" --arg image "$TEST_IMAGE" '($volumes | split(" ")) as $uids |
        {apiVersion: "v1", kind: "Pod", metadata: {name: $name, labels: {hostile: "yes"}}, spec: {nodeSelector: {"kubernetes.io/hostname": $node},
        automountServiceAccountToken: false, terminationGracePeriodSeconds: 1, restartPolicy: "Never",
        containers: [{name: "c", image: $image, command: ["/bin/sh", "-c", $command], volumeMounts: [$uids[] | {name: ., mountPath: "/\(.)"}],
            securityContext: {runAsUser: $user, runAsGroup: 65532, allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}}],
        volumes: [$uids[] | {name: ., csi: {driver: "csi.millrace.dev", volumeAttributes: {"millrace.dev/kind": "client", "millrace.dev/dataset-uid": .}}}]}}' | n create -f -
}
has_begun() { n logs "$1" >"$WORK/said" 2>&1 && grep -q "^begun: $2" "$WORK/said"; }

step "hostile pods on $NODE"
hostile sink 65532 "" "exec hostile sink 7000" >/dev/null
expect 30 "a pod that has a volume of the driver is admitted" hostile deep 65532 hd "exec hostile deep /hd/cache"
hostile hang 65532 hh "mkdir /hh/cache/m; exec hostile hang /hh/fuse.sock /hh/cache/m" >/dev/null
hostile race 65532 hz "exec hostile race-rm /hz/cache/s $VICTIM" >/dev/null
hostile give 65532 "hz hx" "exec hostile give /hx/cache /hz/cache/s" >/dev/null
hostile chmod 0 hc "exec hostile race-chmod /hc $VICTIM/f1" >/dev/null
hostile backing 65532 hb "exec hostile backing /hb/fuse.sock /hb/cache/f" >/dev/null
hostile flood 65532 hf "exec hostile flood /hf/fuse.sock" >/dev/null
operator=$(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o jsonpath='{.items[0].status.podIP}')
hostile stall 65532 "" "hostile stall $operator 8080 & hostile stall $(plugin_pod .status.podIP) 9402 & exec hostile stall $(plugin_pod .status.podIP) 9401" >/dev/null
expect 60 "there is somebody to wait for" has_begun sink sink
hostile linger 65532 hl "exec hostile linger /hl/fuse.sock $(jsonpath pod/sink '{.status.podIP}') 7000" >/dev/null
for what in deep hang:hang race:race-rm give chmod:race-chmod backing flood stall linger; do
    expect 60 "$what has begun" has_begun "${what%:*}" "${what#*:}"
    step "$(cat "$WORK/said")"
done
began=$SECONDS

# --- meanwhile ------------------------------------------------------------------------------------------------------------

goes_on() # NAME: another Dataset is staged, published, read; and goes
{
    dataset "$1" >/dev/null
    pod "$1" "$1" 'cd /mnt/fuse; sha256sum -c sums.txt' "$NODE"
    expect 60 "$1 is read" has_text Succeeded jsonpath "pod/$1" '{.status.phase}'
    n delete pod "$1" --wait --timeout=30s >/dev/null
    step "$1 was read"
}
answers() { k -n "$SYSTEM" get --raw "/api/v1/namespaces/$SYSTEM/pods/$1:$2/proxy$3" --request-timeout=5s; }
goes_on other
expect 10 "the plugin tells its health" answers "$PLUGIN" 9401 /healthz
expect 10 "the operator, too" answers "$(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o jsonpath='{.items[0].metadata.name}')" 8080 /healthz

step "a worker, asked without its Dataset's key"
worker=$(jsonpath pod/data-cache-0 '{.status.podIP}')
ask_worker() # ARGUMENT…: curl's; a status
{
    n exec sink -- curl -s -m 10 -o /dev/null -w '%{http_code}' "$@"
}
refuses() # WHAT ARGUMENT…
{
    local what=$1 status
    shift
    status=$(ask_worker "$@") || fail "$what: no answer: $status"
    [[ $status = 4[0-9][0-9] ]] || fail "$what: $status"
}
[ "$(ask_worker "http://$worker:9400/healthz")" = 200 ] || fail "the worker is not there"
refuses "read" "http://$worker:9400/v1/data?mount=0&path=sums.txt&version=&size=10"
refuses "unpin" -X POST "http://$worker:9400/v1/unpin"
refuses "load" -X POST "http://$worker:9400/v1/load?pin=1"
refuses "a request in the request" "http://$worker:9400/v1/data?mount=0&path=sums.txt&version=a%0d%0a%0d%0aGET%20/x%20HTTP/1.1%0d%0aHost:x%0d%0a%0d%0a&size=10"

step "who sent what does not close goes; its volume, too"
n delete pod linger hang give deep backing --wait --timeout=30s >/dev/null
goes_on another
k -n "$SYSTEM" logs "$PLUGIN" >"$WORK/plugin.log"

step "the plugin ends, removes what nobody has, makes the sockets of others; both against races"
k -n "$SYSTEM" delete pod "$PLUGIN" --wait --timeout=60s >/dev/null
expect 60 "there is another" has_text true plugin_pod '.status.containerStatuses[0].ready'
is_gone() { ! on_node test -e "$1"; }
for uid in hd hx hl hb; do expect 30 "the directory of $uid is gone" is_gone "$PLUGIN_DIR/volumes/$NS/$uid"; done
goes_on third
k -n "$SYSTEM" logs "$(plugin_pod .metadata.name)" >>"$WORK/plugin.log"

# --- the harm -------------------------------------------------------------------------------------------------------------

[ "$(on_node sh -c "cat $VICTIM/f* | grep -c precious; stat -c %a $VICTIM")" = $'40\n700' ] || fail "the victim: $(on_node ls -la "$VICTIM")"
open_files >"$WORK/open-after"
made=$(comm -13 "$WORK/open-before" "$WORK/open-after")
[ -z "$made" ] || fail "everybody may write $made"
[ "$(restarts)" = "$before" ] || fail "containers of operator or plugin were started again: $(restarts), $before before"
[ "$(jsonpath pod/reader '{.status.phase}')" = Running ] || fail "the reader has failed: $(n logs reader)"
jq -rR 'fromjson? | select(.msg == "answered" and (.method | test("^Node(Stage|Publish|Unpublish|Unstage)Volume$"))) | [.method, .ms] | @tsv' "$WORK/plugin.log" |
    sort -k1,1 -k2,2n >"$WORK/rpcs"
[ "$(grep -c NodePublishVolume "$WORK/rpcs")" -ge 3 ] || fail "the log tells no times: $(tail -n 3 "$WORK/plugin.log")"
slow=$(awk '$1 != "NodeStageVolume" && $2 >= 1000' "$WORK/rpcs") # a stage waits for its client's start
[ -z "$slow" ] || fail "pods have waited: $slow"
step "$(wc -l <"$WORK/rpcs") calls of kubelet, the longest: $(awk '$1 != "NodeStageVolume"' "$WORK/rpcs" | sort -k2,2n | tail -n 1); attacked for $((SECONDS - began)) s"
n exec reader -- /bin/busybox touch /tmp/stop
