#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 400
# The machine loses its power in the middle of a load: the disk with cache and staging is an ext4 of its own that is shut down as a
# power cut does it (what was not flushed is lost), all processes are killed, and what comes back is another boot. Then the serving
# process is killed once more, as the first start after a boot may leave behind what the second believes. Nothing that was
# acknowledged is lost, no byte is read that nobody wrote.
#   MILLRACE_CUTS=8 rounds a store; MILLRACE_CUT_SEED=N the same load again (when the power goes is never the same)
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/power_lib.sh
. "$(dirname "$(readlink -f "$0")")/power_lib.sh"
CUTS=${MILLRACE_CUTS:-4}
SEED=${MILLRACE_CUT_SEED:-$RANDOM}
CACHE=$DISK/cache

cut_power()
{
    # The worst order: what is known of the cached files is on the disk, and what is in them is not.
    [ $((round % 3)) != 0 ] || sync "$CACHE/blocks/table"
    echo C >>"$JOURNAL"
    power_goes
    wait "$LOAD" || true
    power_comes
}

# What was read before the cut is right after it, from wherever it comes, in pieces and as a whole.
check_reads() # WHEN
{
    local f
    for f in "$WORK"/source/*; do
        timeout 120 dd if="$MNT/data/${f##*/}" bs=3000 status=none | cmp - "$f" || die "$1: ${f##*/} is another one"
    done
}

nothing_waits() { [ "$(curl -sf "http://$HTTP/status" | jq .writes.pendingFiles)" = 0 ]; }

load() # SECONDS
{
    "$BUILD/bin/fuse_cut" load "$MNT/out" "$JOURNAL" "$1" 3 $((SEED + round)) >"$WORK/load.out" 2>&1 &
    LOAD=$!
    cat "$MNT"/data/* >/dev/null 2>&1 || true
}

disk_make
echo "seed $SEED"
mkdir "$WORK/source"
for kind in posix s3; do
    fuse_source $kind
    fuse_config 'cache={"tiers":[{"medium":"SSD","quota":200000000}]}'
    mkdir -p "$DATA/data" "$DATA/out"
    JOURNAL=$WORK/journal.$kind
    : >"$JOURNAL"
    rm -rf "$CACHE"
    for round in $(seq "$CUTS"); do
        head -c $((1234567 * (round % 5 + 1))) /dev/urandom >"$WORK/source/$kind$((round % 5))"
        cp "$WORK"/source/* "$DATA/data/"
        fuse_mount --store-deadline 2s --metadata-sync 1s
        load 30
        sleep "0.$((RANDOM % 9 + 1))"
        # Every other time the store goes first: what it did not get was promised to be kept.
        if [ $kind = s3 ] && [ $((round % 2)) = 0 ]; then
            sleep 1
            kill "$S3_PID"
            wait "$S3_PID" 2>/dev/null || true
            S3_PID=''
            wait "$LOAD" || true
        else
            sleep "$((RANDOM % 3)).$((RANDOM % 10))"
        fi
        cut_power
        [ -n "$S3_PID" ] || [ $kind = posix ] || s3_start
        fuse_mount --store-deadline 20s --metadata-sync 1s
        [ $((round % 3)) = 0 ] || check_reads "$kind, cut $round"
        wait_for "what was kept being in the store" nothing_waits
        kill -9 "$(served)"
        wait_for "another process" is_served
        check_reads "$kind, killed after cut $round"
        "$BUILD/bin/fuse_cut" check "$DATA/out" "$JOURNAL" || die "$kind, cut $round: in the store (journal: $(tail -n 40 "$JOURNAL"))"
        timeout 120 "$BUILD/bin/fuse_cut" settle "$MNT/out" "$JOURNAL" || die "$kind, cut $round: in the mount"
        echo "$kind, cut $round: $(cat "$WORK/load.out")"
        fuse_umount
    done
done
umount "$DISK"
