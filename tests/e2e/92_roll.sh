#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# alone
# helm upgrade to another image and back, MILLRACE_ROLLS times (1), while a pod reads, lists, writes and removes: every program is
# replaced under it, and not one call may fail. Says how long the pod waited at most.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 4 2000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
# shellcheck disable=SC2016
pod user data 'cd /mnt/fuse; mkdir w; n=0 worst=0
    while [ ! -e /tmp/stop ]; do
        read -r a _ </proc/uptime
        sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }
        n=$((n + 1)); echo "$n" >w/$n; [ "$(cat w/$n)" = $n ]; ls w >/tmp/out; [ $n -lt 6 ] || rm w/$((n - 5))
        read -r b _ </proc/uptime
        t=$(( ${b%.*}${b#*.} - ${a%.*}${a#*.} )); [ $n -le 3 ] || [ $t -le $worst ] || worst=$t # first, all comes from the store
        echo "$n $worst"; sleep 0.05
    done
    echo "$n $worst done"'
expect 120 "the pod runs" has_text Running jsonpath pod/user '{.status.phase}'
rounds() { n logs user --tail=1 | cut -d ' ' -f 1; }
further() { [ "$(rounds)" -gt "$(($1 + 3))" ]; }
goes_on()
{
    local was
    was=$(rounds)
    expect 90 "it goes on after round $was" further "$was"
    [ "$(jsonpath pod/user '{.status.phase}')" = Running ] || fail "a call failed: $(n logs user --tail=5)"
}

images() { k get pods -A -l millrace.dev/component -o jsonpath='{range .items[*]}{.spec.containers[*].image}{"\n"}{end}' | tr ' ' '\n' | grep '/millrace:' | sort -u; }
all_have() { [ "$(images)" = "$1" ]; }
all_serve() { n wait --for=condition=Ready dataset/data --timeout=5s && n wait --for=condition=ClientsReady dataset/data --timeout=5s; }
roll() # TAG: "": the chart's own
{
    helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-then-reuse-values --set "image.tag=$1" --wait --timeout 3m >/dev/null
    expect 180 "every pod of ours has the image with the tag '$1': $(images)" all_have "${image%:*}:${1:-${image##*:}}"
    expect 90 "all serve" all_serve
    goes_on
}

image=$(images)
[ "$(wc -l <<<"$image")" = 1 ] || fail "there are several images: $image"
for node in $(k get nodes -o jsonpath='{.items[*].metadata.name}'); do
    "$ROOT/hack/cluster" exec "$node" ctr -n k8s.io images tag --force "$image" "${image%:*}:roll" >/dev/null
done
goes_on
key() { k -n "$SYSTEM" get secret millrace-key -o jsonpath='{.data.key}' | sha256sum; }
was=$(key)
lost() { k -n "$SYSTEM" logs -l millrace.dev/component=csi --tail=-1 | grep -c "the mount was lost" || true; }
for i in $(seq "${MILLRACE_ROLLS:-1}"); do
    step "forward ($i)"
    roll roll
    step "back ($i)"
    roll ""
done
n exec user -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 60 "the pod has ended well: $(n logs user --tail=3)" has_text Succeeded jsonpath pod/user '{.status.phase}'
last=$(n logs user --tail=1)
[ "${last##* }" = "done" ] || fail "it says: $last"
[ "$(key)" = "$was" ] || fail "the installation has another key"
[ "$(lost)" = 0 ] || fail "a mount was made again"
worst=$(cut -d ' ' -f 2 <<<"$last")
echo "rounds $(cut -d ' ' -f 1 <<<"$last"), 0 failed; the longest took $((worst / 100)).$(printf %02d $((worst % 100))) s"
[ "$worst" -lt 1000 ] || fail "the pod waited for ${worst}0 ms; the goal is a second" # ten times of it, on a busy machine
