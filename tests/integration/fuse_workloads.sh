#!/bin/bash
# timeout: 300
# Workloads of training programs, and random operations against a shadow copy, on a directory and on a real S3 server.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

for kind in posix s3; do
    fuse_source $kind
    fuse_mount
    mkdir "$MNT/work" "$MNT/random"
    "$BUILD/tests/fuse_patterns" "$MNT/work"
    for file in train.tfrecord checkpoint ckpt-1.index model.keras weights.h5 memmap state.json events.out out/part-0; do
        wait_for 10 "$file in the store" cmp -s "$MNT/work/$file" "$DATA/work/$file"
    done
    rm -rf "$WORK/shadow"
    mkdir "$WORK/shadow"
    "$BUILD/tests/fuse_random" "$MNT/random" "$WORK/shadow" "${MILLRACE_RANDOM_SECONDS:-15}" 3
    wait_for 10 "an empty staging directory" test -z "$(find "$CACHE/stage" -type f)"
    fuse_umount
    # What is in the store now is what was written, seen by a process that knows nothing.
    rm -rf "$CACHE"
    fuse_mount
    diff -r "$WORK/shadow" "$MNT/random"
    fuse_umount
    rm -rf "$CACHE"
done
