#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw posix
# timeout: 300
# Others' programs that write at random and know what must be there: fsx, on S3 while the serving process is killed every second, and
# fio with checksums in what it writes; and single calls of docs/reference/posix.md.
#   MILLRACE_FSX_OPS=N   of each; 3000 unless told, where hack/bench posix takes a million
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
FSX=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/posix/bin/fsx
OPS=${MILLRACE_FSX_OPS:-3000}
SEED=${MILLRACE_FSX_SEED:-$RANDOM}

cat >"$WORK/fsx.toml" <<'T'
[weights]
close_open = 0.5
fdatasync = 0.1
fsync = 0.1
invalidate = 0.5
mapread = 5
mapwrite = 5
read = 10
write = 10
truncate = 5
posix_fadvise = 1
posix_fallocate = 5
punch_hole = 5
sendfile = 5
copy_file_range = 5
T

fsx()
{
    "$FSX" -N "$OPS" -S "$SEED" -f "$WORK/fsx.toml" -P "$WORK" "$MNT/fsx" >"$WORK/fsx.out" 2>&1 ||
        die "fsx, seed $SEED: $(tail -n 40 "$WORK/fsx.out")"
}

killer() # until killed itself
{
    local pid
    while sleep 1; do
        pid=$(served)
        [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    done
}

for kind in posix s3; do
    fuse_source $kind
    rm -rf "$CACHE"
    fuse_mount
    mkdir "$MNT/calls"
    python3 "$(dirname "$(readlink -f "$0")")/posix_calls.py" "$MNT/calls" || die "$kind: a call does something else"
    began=$SECONDS
    if [ $kind = s3 ]; then
        killer &
        killer=$!
        fsx
        kill $killer
        wait $killer 2>/dev/null || true
        wait_for "the client" is_served
    else
        fsx
    fi
    echo "$kind: fsx did $OPS in $((SECONDS - began)) s, seed $SEED"
    cmp "$MNT/fsx" "$DATA/fsx" || die "the store has something else"
    (cd "$WORK" && fio --name=verify --directory="$MNT" --size=16m --rw=randrw --bsrange=512-64k --ioengine=psync --fallocate=keep \
        --verify=crc32c --verify_fatal=1 --do_verify=1 --minimal >fio.out 2>&1) || die "fio: $(cat "$WORK/fio.out")"
    fuse_umount
done
