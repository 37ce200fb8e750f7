#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# Node plugin and client are killed at the same moment, and nobody has the mount any more: pods that had it read errors instead of
# hanging, new ones on the node read soon, nothing is stacked, and the Dataset says what happened.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 2 200000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
reader='cd /mnt/fuse && sha256sum -c sums.txt && echo checked; cd /; while cat /mnt/fuse/sums.txt >/dev/null; do sleep 0.2; done; echo lost; sleep 1000'
pod first data "$reader"
expect 120 "the first pod reads" has_text checked n logs first
node=$(jsonpath pod/first '{.spec.nodeName}')
mounts() { "$ROOT/hack/cluster" exec "$node" grep -c ' fuse.millrace ' /proc/self/mountinfo; }
before=$(mounts)

step "kill -9 of both"
"$ROOT/hack/cluster" exec "$node" sh -c '
    pids=
    for p in /proc/[0-9]*; do
        case $(tr "\0" " " <"$p/cmdline" 2>/dev/null | cut -d " " -f 1) in
        /usr/bin/millrace-fuse | /usr/bin/millrace-csi) pids="$pids ${p#/proc/}" ;;
        esac
    done
    kill -STOP $pids # so that none sees another one go
    kill -9 $pids
    true' 2>/dev/null
began=$(date +%s%N)
expect 90 "the first pod is told" has_text lost n logs first
pod second data "$reader" "$node"
expect 90 "a new pod reads" has_text checked n logs second
took=$((($(date +%s%N) - began) / 1000000))
echo "a pod that came after it had read $took ms later"
[ "$took" -lt 40000 ] || fail "a new pod had read $took ms after both were killed; the goal is 10 s" # the rest is for a busy machine
[ "$(mounts)" = $((before + 1)) ] || fail "$(mounts) mounts, there were $before, and one pod more"
lost() { [ "$(n get dataset data -o json | jq -r '.status.conditions[] | select(.type == "ClientsReady") | .status + .reason')" = TrueMountLost ]; }
expect 90 "the condition says it" lost
n get dataset data -o json | jq -r '.status.conditions[] | select(.type == "ClientsReady").message' >"$WORK/message"
grep -qF "the mount on node $node was lost at" "$WORK/message" || fail "it says: $(cat "$WORK/message")"
grep -qF "restart the pods there that used it before" "$WORK/message" || fail "it does not say what to do: $(cat "$WORK/message")"
expect 60 "an Event says it" has_text "restart the pods there" n get events --field-selector reason=MountLost,type=Warning -o 'jsonpath={.items[*].message}'

step "what to do helps"
n delete pod first --now >/dev/null
pod first data "$reader" "$node"
expect 90 "the first pod reads again" has_text checked n logs first
n delete pod first second --now >/dev/null
