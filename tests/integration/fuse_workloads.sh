#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 300
# tsan
# Workloads of training programs, and random operations against a shadow copy, on a directory and on a real S3 server.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

for kind in posix s3; do
    fuse_source $kind
    fuse_mount
    mkdir "$MNT/work" "$MNT/random"
    exec 9>"$MNT/live.log" # held open like TensorBoard's events, written now and then: others see it after half a minute
    echo "first line" >&9
    "$BUILD/bin/fuse_patterns" "$MNT/work"
    for file in train.tfrecord checkpoint ckpt-1.index model.keras weights.h5 memmap state.json events.out out/part-0; do
        wait_for "$file in the store" cmp -s "$MNT/work/$file" "$DATA/work/$file"
    done
    rm -rf "$WORK/shadow"
    mkdir "$WORK/shadow"
    "$BUILD/bin/fuse_random" "$MNT/random" "$WORK/shadow" "${MILLRACE_RANDOM_SECONDS:-15}" 3
    wait_for "what was written to an open file" grep -qs 'first line' "$DATA/live.log"
    echo "last line" >&9
    exec 9>&-
    grep -q 'last line' "$DATA/live.log" || die "a file is closed and not saved"
    wait_for "an empty staging directory" eval '! find "$CACHE/stage" -type f | tee "$WORK/staged.log" | grep . >/dev/null'
    fuse_umount
    # What is in the store now is what was written, seen by a process that knows nothing.
    rm -rf "$CACHE"
    fuse_mount
    diff -r "$WORK/shadow" "$MNT/random"
    fuse_umount
    rm -rf "$CACHE"
done

# 16 threads, a cache that holds a third of what they read, on disk and in memory.
fuse_source s3
mkdir -p "$WORK/source"
for i in $(seq 0 9); do head -c $((100000 + i * 333333)) /dev/urandom >"$WORK/source/r$i"; done
for medium in SSD MEM; do
    fuse_config "cache={\"tiers\":[{\"medium\":\"$medium\",\"quota\":6000000}]}"
    fuse_mount
    cp "$WORK"/source/r* "$MNT/"
    cat "$MNT"/r? >/dev/null
    timeout 100 "$BUILD/bin/fuse_hammer" "$MNT" "$WORK/source" "${MILLRACE_HAMMER_SECONDS:-10}" 13 3
    evicted=$(curl -sf "http://$METRICS/metrics" | sed -n 's/^millrace_cache_evicted_bytes_total //p')
    [ "$evicted" -gt 0 ] || die "nothing was evicted"
    fuse_umount
    rm -rf "$CACHE"
done
