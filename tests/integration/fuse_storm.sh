#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# tsan
# 64 threads read at random and check every byte while blocks are evicted, the store answers with 503, 500, half the bytes or not at all, the
# disk of the cache fills up, and the serving process is killed; each of these must have happened. Then what readers waited for is told.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
SECONDS_EACH=${MILLRACE_HAMMER_SECONDS:-10}
FAULTS=(slowdown:1 slow:20 error:3 truncated:3 hang:1 reset:2 short:2)

metric() { curl -sf "http://$METRICS/metrics" | sed -n "s/^millrace_$1 //p"; }
# Whether this mount has met a full disk, by its log.
met_full() { [ "$(grep -c 'no room left on' "$WORK/fuse.log")" -gt "$met" ]; }
has_struck() { [ "$(tell faults "$1")" -gt "$2" ]; } # KIND BEFORE
# The next requests meet each of the faults, that of this round first: those at the end may have to wait for their round.
misbehave() # ROUND
{
    local i
    tell clear >/dev/null
    for i in "${!FAULTS[@]}"; do
        tell "GET:${FAULTS[($1 + i) % ${#FAULTS[@]}]}" >/dev/null
        tell GET:fine:7 >/dev/null
    done
}
another()
{
    evicted=$((evicted + $(metric cache_evicted_bytes_total || true) + 0))
    pid=$(served)
    [ -z "$pid" ] || ! kill -9 "$pid" || kills=$((kills + 1))
    wait_for "another process" is_served
}

fake_start
mkdir -p "$WORK/source"
for i in $(seq 0 9); do head -c $((100000 + i * 333333)) /dev/urandom >"$WORK/source/r$i"; done
fuse_mount
cp "$WORK"/source/r* "$MNT/"
for i in {1..40}; do tell put "more/f$i" 3000000 >/dev/null; done
fuse_umount
rm -rf "$CACHE"

for profile in sealed open; do
    mkdir -p "$CACHE"
    mount -t tmpfs -o size=40m tmpfs "$CACHE"
    fuse_config readOnly=true 'cache={"keepFree":0,"tiers":[{"medium":"SSD","quota":7000000}]}' immutable="$(immutable_of $profile)"
    fuse_mount
    met=$(grep -c 'no room left on' "$WORK/fuse.log" || true)
    cat /dev/zero >"$CACHE/full" 2>/dev/null || true
    timeout 150 "$BUILD/bin/fuse_hammer" "$MNT" "$WORK/source" 200 64 0 >"$WORK/hammer.out" 2>&1 &
    hammer=$!
    round=0 kills=0 evicted=0 until=$((SECONDS + SECONDS_EACH))
    # Nothing is cached yet, so nothing can be evicted to make room.
    wait_for "a full disk" met_full
    rm "$CACHE/full"
    another # one that does not know of it
    timeout 60 cat "$MNT"/r? >/dev/null || die "reading $profile" # twice as much as the cache may hold
    while [ $SECONDS -lt $until ] || [ $round -lt ${#FAULTS[@]} ]; do
        kind=${FAULTS[round % ${#FAULTS[@]}]%:*}
        before=$(tell faults "$kind")
        misbehave $round
        sleep 0.7
        wait_for "$profile: a request that meets $kind" has_struck "$kind" "$before"
        round=$((round + 1))
        case $round in
        1) # no room for anything any more, and something new to keep
            head -c 40000000 /dev/zero >"$CACHE/full" 2>/dev/null || true
            timeout 20 cat "$MNT/more/f$round" >/dev/null 2>&1 || true
            ;;
        3) rm -f "$CACHE/full" ;;
        5 | 11) another ;;
        esac
    done
    tell clear >/dev/null
    rm -f "$CACHE/full"
    [ $profile = open ] || another # who reads an open mount waits until the client gives up an answer that does not come
    kill $hammer
    wait $hammer || {
        cat "$WORK/hammer.out"
        die "readers of a $profile mount"
    }
    evicted=$((evicted + $(metric cache_evicted_bytes_total)))
    echo "# $profile: $(cat "$WORK/hammer.out"); killed $kills times, $evicted bytes evicted"
    [ "$kills" -gt 0 ] && [ "$evicted" -gt 0 ] || die "nothing happened to it"
    fuse_umount
    umount "$CACHE"
done

echo "# who waited, and for what"
tell put slow 2000000 >/dev/null
fuse_config readOnly=true
fuse_mount
tell GET:fine:1 >/dev/null # the listing
tell GET:slowdown:1 >/dev/null # come back in a second
head -c 1000 "$MNT/slow" >/dev/null
me=$(jq -r .stalls[0].caller <<<"$(curl -sf "http://$HTTP/status")")
[ "$(curl -sf "http://$HTTP/status" | jq '.stalls[0].storeMs >= 900 and .stalls[0].waitingMs >= 900 and .stalls[0].workerMs == 0')" = true ] \
    || die "$(curl -sf "http://$HTTP/status")"
group=$(cut -d : -f 3 /proc/self/cgroup | grep -m 1 -v '^/$' || true)
[ "$me" = "${group:-unknown}" ] || die "$me waited, not $group"
"$BUILD/bin/millrace" stat "$MNT" >"$WORK/stat.out"
grep -qF "  $me: " "$WORK/stat.out" || die "$(cat "$WORK/stat.out")"
for name in 'read_waiting_seconds_total{caller="'"$me"'"}' 'read_wait_seconds_total{caller="'"$me"'",for="store"}'; do
    [ "$(metric "${name//\//\\/}" | awk '{ print ($1 >= 0.9) }')" = 1 ] || die "$name $(metric "${name//\//\\/}")"
done
fuse_umount
