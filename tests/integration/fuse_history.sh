#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# Two mounts of one store, as of two nodes, that write the same files: fuse_history says what it checks. HISTORY_SEED repeats a run.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

A=$WORK/a B=$WORK/b
mkdir -p "$A" "$B"
SEEDS=${HISTORY_SEED:-1 2 $((RANDOM % 100000 + 3))}
STEPS=${HISTORY_STEPS:-250}
SUPERVISORS=''

mount_at() # DIRECTORY
{
    MNT=$1 CACHE=$1.cache HTTP=127.0.0.1:$((10000 + RANDOM % 10000)) METRICS=127.0.0.1:$((20000 + RANDOM % 10000))
    fuse_mount --metadata-sync 1s
    SUPERVISORS+=" $SUPERVISOR"
    SUPERVISOR=$SUPERVISORS # all of them end with the test
}

for kind in posix fake s3; do
    case $kind in
    fake) fake_start prefix ;;
    *) fuse_source $kind ;;
    esac
    SUPERVISORS=''
    for node in "$A" "$B"; do mount_at "$node"; done
    for seed in $SEEDS; do
        echo "# $kind: HISTORY_SEED=$seed"
        mkdir "$A/$seed"
        is_seen() { [ -d "$B/$seed" ]; }
        wait_for "the other node to see the directory" is_seen
        timeout 200 "$BUILD/bin/fuse_history" "$A/$seed" "$B/$seed" "$seed" "$STEPS" || die "HISTORY_SEED=$seed on $kind"
    done
    umount "$A" "$B"
    for pid in $SUPERVISORS; do wait "$pid" || die "millrace-fuse ended with $?"; done
    SUPERVISOR=''
    rm -rf "$A.cache" "$B.cache"
    [ $kind != fake ] || { kill "$S3_PID"; wait "$S3_PID" || true; S3_PID=''; }
done
