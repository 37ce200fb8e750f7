#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A bit of a cached file flips on the disk while the kernel reads it by itself: it is right again within a minute, by itself.
# shellcheck disable=SC2016 # expressions that wait_for evaluates
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
metric() { curl -sf "http://$METRICS/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }
cached() { find "$CACHE" -path '*/ssd/*' -type f -size +9000000c; }
is_right() { cmp -s "$DATA/hot" /proc/self/fd/5 5<"$MNT/hot" && cmp -s "$DATA/hot" "/proc/$READER/fd/5"; }
flip() # FILE OFFSET: no sign of it but the byte
{
    python3 - "$@" <<'PY'
import os, sys
fd, at = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2])
st, byte = os.fstat(fd), os.pread(fd, 1, at)
os.pwrite(fd, bytes([byte[0] ^ 4]), at)
os.fsync(fd)
os.utime(fd, ns=(st.st_atime_ns, st.st_mtime_ns))
PY
}

fuse_source posix
head -c 10000000 /dev/urandom >"$DATA/hot"
fuse_config readOnly=true
fuse_mount
cat "$MNT/hot" >/dev/null
wait_for "the file in the cache" eval '[ "$(status .cache.completeFiles)" = 1 ]'
wait_for "the kernel to read it by itself" eval ': <"$MNT/hot"; [ "$(status .backingFiles)" = 1 ] || [ "$(id -u)" != 0 ]'
sleep 300 5<"$MNT/hot" &
READER=$!
is_right || die "other bytes"
file=$(cached)
[ -f "$file" ] || die "no cached file: $(find "$CACHE")"
for at in 3 7500000; do
    flip "$file" "$at"
    [ "$(status .backingFiles)" = 0 ] || ! is_right || die "the reader does not see the cached file"
    began=$SECONDS
    wait_for "the right byte at $at" is_right
    [ $((SECONDS - began)) -le 60 ] || die "that took $((SECONDS - began)) s"
done
wait_for "the metric" eval '[ "$(metric millrace_cache_rotten_blocks_total)" -ge 1 ]'
[ "$(metric millrace_cache_scrubbed_bytes_total)" -gt 0 ] || die "nothing is scrubbed"
grep -q 'has other bytes than were written' "$WORK/fuse.log" || die "nothing in the log"
kill "$READER"
wait "$READER" || true
fuse_umount
