#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 600
# Two nodes of one store, and the machine of one loses its power while both write the same files: fuse_history's steps go over both,
# the disk with cache and staging of node A ends in the middle of them as in a power cut, its processes are killed, and it comes back as another
# boot; node B goes on. What either was told is saved is there, on both, and nothing that was cut off or failed comes back over it.
#   MILLRACE_CUTS=4 rounds a store; MILLRACE_CUT_SEED=N the same steps again (when the power goes is never the same)
set -euo pipefail
# shellcheck source=tests/integration/power_lib.sh
. "$(dirname "$(readlink -f "$0")")/power_lib.sh"
CUTS=${MILLRACE_CUTS:-4}
SEED=${MILLRACE_CUT_SEED:-$RANDOM}
STEPS=${HISTORY_STEPS:-80} # after the power is back
A=$WORK/a B=$WORK/b OUT=$WORK/out
mkdir "$A" "$B"
port() { echo "127.0.0.1:$(($1 + RANDOM % 5000))"; }

node_b() # its processes end with the test
{
    MNT=$B CACHE=$B.cache HTTP=$HTTP_B METRICS=$(port 30000)
    fuse_mount --metadata-sync 1s
    KEEPER=$SUPERVISOR SUPERVISOR=''
}

node_a()
{
    MNT=$A CACHE=$DISK/cache HTTP=$HTTP_A METRICS=$METRICS_A
    fuse_mount --metadata-sync 1s
}

# Every other time all that is written is on the disk, and nobody has asked to save it; else, it is not, and what is known of it may be.
power_is_cut()
{
    sleep "$((RANDOM % 2)).$((RANDOM % 10))" # it comes unforeseen
    : >"$OUT"
    [ $((round % 2)) = 0 ] || sync -f "$DISK"
    power_goes
    for _ in {1..1800}; do
        if says alone; then break; fi
        sleep 0.05
    done
    says alone || {
        ps -eLo pid,ppid,stat,wchan:30,etimes,args | grep -E '[m]illrace-|[f]use_history|[v]ersitygw' | cut -c 1-120 || true
        die "$kind, cut $round: MILLRACE_CUT_SEED=$SEED: in vain: the other node saving something: $(cat "$WORK/history.out")"
    }
    power_comes
    node_a
    rm "$OUT"
}

is_seen() { [ -d "$B/$round" ]; }

# One that has ended says why by its status.
says() { grep -qs "$1" "$WORK/history.out" || ! kill -0 "$HISTORY" 2>/dev/null; }

HTTP_A=$(port 10000) HTTP_B=$(port 15000) METRICS_A=$(port 20000)
disk_make
echo "seed $SEED"
for kind in posix s3; do
    fuse_source $kind
    rm -rf "$DISK/cache" "$B.cache"
    node_b
    node_a
    for round in $(seq "$CUTS"); do
        mkdir "$A/$round"
        wait_for "the other node to see the directory" is_seen
        rm -f "$WORK/history.out" # a process in the background may be slow to make its own
        timeout 250 "$BUILD/bin/fuse_history" "$A/$round" "$B/$round" $((SEED + round)) "$STEPS" "$OUT" >"$WORK/history.out" 2>&1 &
        HISTORY=$!
        wait_for "the first files" says begun
        power_is_cut
        wait $HISTORY || die "$kind, cut $round: MILLRACE_CUT_SEED=$SEED: $(cat "$WORK/history.out")"
        echo "$kind, cut $round: $(tail -n 1 "$WORK/history.out")"
        # what B made last may not be in the listing that A has: that is a second old at most
        wait_for "the directory being removed" rm -rf "${A:?}/$round" 2>/dev/null
    done
    umount "$A" "$B"
    for pid in $SUPERVISOR $KEEPER; do wait "$pid" || die "millrace-fuse ended with $?"; done
    SUPERVISOR='' KEEPER=''
done
umount "$DISK"
