#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# A pod reads and checks without a pause while the serving process, the client's pod and the node plugin are killed under it:
# not one read may fail, and none may wait for long.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 4 2000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
# shellcheck disable=SC2016
pod reader data 'cd /mnt/fuse; exec 3<sums.txt; n=0
    while [ ! -e /tmp/stop ]; do
        read -r a _ </proc/uptime
        sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }
        read -r b _ </proc/uptime
        n=$((n + 1)); echo "$n $(( ${b%.*}${b#*.} - ${a%.*}${a#*.} ))"; sleep 0.05
    done
    cat <&3 >/dev/null; echo done'
expect 90 "the pod runs" has_text Running jsonpath pod/reader '{.status.phase}'
node=$(jsonpath pod/reader '{.spec.nodeName}')

rounds() { n logs reader --tail=1 | cut -d ' ' -f 1; }
# It still runs, and reads further; since the call before no round took longer than three times what a kill may be felt at most, a second.
goes_on() # [WHAT is over]
{
    local was worst
    was=$(rounds)
    expect 90 "the reader goes on after round $was" test_further "$was"
    [ "$(jsonpath pod/reader '{.status.phase}')" = Running ] || fail "the reader has failed: $(n logs reader --tail=5)"
    worst=$(n logs reader | awk -v seen="$seen" '$1 > seen && $2 > worst { worst = $2 } END { print worst + 0 }')
    seen=$was
    [ $# = 0 ] || echo "the longest round with $1: ${worst}0 ms"
    [ $# = 0 ] || [ "$worst" -lt 1000 ] || fail "the pod waited for ${worst}0 ms with $1"
}
seen=0
test_further() { [ "$(rounds)" -gt "$(($1 + 2))" ]; }

kill_serving() # the client that is a child of a client: the other one is its supervisor
{
    "$ROOT/hack/cluster" exec "$node" sh -c '
        is_client() { [ "$(tr "\0" " " <"/proc/$1/cmdline" | cut -d " " -f 1)" = /usr/bin/millrace-fuse ]; }
        for p in /proc/[0-9]*; do
            p=${p#/proc/}
            is_client "$p" && is_client "$(sed -n "s/^PPid:[^0-9]*//p" "/proc/$p/status")" && kill -9 "$p" && exit 0
        done 2>/dev/null
        exit 1'
}

goes_on
read_ahead() # of the dataset's mount on the reader's node, in KiB
{
    "$ROOT/hack/cluster" exec "$node" sh -c 'cat "/sys/class/bdi/$(awk "/ fuse.millrace /{print \$3; exit}" /proc/self/mountinfo)/read_ahead_kb"'
}
[ "$(read_ahead)" = 4096 ] || fail "the mount's read-ahead is $(read_ahead) KiB"
step "who waited for data is told by pod"
client_status() # of the client on the reader's node
{
    n exec reader -- /bin/busybox wget -qO- \
        "http://$(n get pod -l millrace.dev/component=client --field-selector "spec.nodeName=$node" -o 'jsonpath={.items[0].status.podIP}'):9400/status"
}
tries=0
reads_of_pod() # of a file that nobody has read yet: what is known is read without the client
{
    tries=$((tries + 1))
    put "$WORK/sums.txt" "fresh-$tries/sums.txt"
    n exec reader -- /bin/busybox cat "/mnt/fuse/fresh-$tries/sums.txt" >/dev/null
    [ "$(client_status | jq --arg uid "$(jsonpath pod/reader '{.metadata.uid}')" '[.stalls[] | select(.caller == $uid).reads] | add')" -gt 0 ]
}
expect 60 "the client counts the reader's reads" reads_of_pod
goes_on # what came before is nobody's death
for i in 1 2 3; do
    step "kill -9 of the serving process ($i)"
    expect 60 "there is one to kill" kill_serving
    goes_on "its serving process killed"
done
step "the client's pod is deleted"
expect 60 "the API server deletes it" n delete pod -l millrace.dev/component=client --grace-period=0 --force
sleep 1
goes_on "its client's pod deleted"
step "the node plugin is deleted"
k -n "$SYSTEM" delete pod -l millrace.dev/component=csi --field-selector "spec.nodeName=$node" --wait
goes_on "the node plugin deleted"
k -n "$SYSTEM" rollout status daemonset/millrace-csi --timeout=60s
step "the client's process after that"
expect 60 "the API server deletes it" n delete pod -l millrace.dev/component=client --grace-period=0 --force
sleep 1
goes_on "the client deleted after the plugin"
n exec reader -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 60 "the reader has ended well" has_text Succeeded jsonpath pod/reader '{.status.phase}'
step "$(n logs reader --tail=2 | head -n 1) rounds, no failure"
