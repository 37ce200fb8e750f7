#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# Ten million keys: usable at once, large directories are listed page by page while they are read, an inode takes at most 100 bytes and its
# name, ids outlive the process, an index that cannot be trusted is not. MILLRACE_INDEX_ENTRIES: files in the directory that is listed as a whole (100000).
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
ENTRIES=${MILLRACE_INDEX_ENTRIES:-100000}
# What is given back is counted as such, and not kept to see whether somebody still uses it.
ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=0:thread_local_quarantine_size_kb=0

fake_start keys
requests() { tell requests GET; }
status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
memory() # resident KiB of the mapped index, and of all that is not mapped from a file
{
    awk '/^[0-9a-f]+-/ { index_ = $6 ~ /\/index$/ } /^Rss:/ { if (index_) i += $2 } /^Anonymous:/ { a += $2 } END { print i + 0, a + 0 }' \
        "/proc/$(served)/smaps"
}
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f s", b - a }'; }
at_once() # BEGAN WHAT: to list all of it would take longer
{
    local took
    took=$(since "$1")
    [ "${took%.*}" -lt 20 ] || die "$2 took $took"
}

tell synth keys 10 1000000 1000 >/dev/null
fuse_config readOnly=true
began=$EPOCHREALTIME
fuse_mount
[ "$(find "$MNT" -mindepth 1 -maxdepth 1 | wc -l)" = 10 ]
[ "$(stat -c %s "$MNT/d0007/f00654321")" = 1000 ]
[ "$(head -c 21 "$MNT/d0003/f00999999")" = keys/d0003/f00999999k ]
if stat "$MNT/d0003/f01000000" 2>/dev/null; then die "a file that is not there"; fi
at_once "$began" "the first look at 10 million keys"
echo "# of 10 million keys, one read $(since "$began") after the mount was begun, with $(requests) requests"
[ "$(requests)" -lt 20 ] || die "that were many requests: $(requests)"
ino=$(stat -c %i "$MNT/d0007/f00654321")

echo "# the first names of a directory of a million come with its first pages"
before=$(requests)
began=$EPOCHREALTIME
python3 -c '
import os, sys
with os.scandir(sys.argv[1]) as names:
    print(sum(1 for _, name in zip(range(2000), names)))' "$MNT/d0001" >"$WORK/names"
[ "$(cat "$WORK/names")" = 2000 ]
at_once "$began" "2000 names of a million"
echo "# 2000 names: $(since "$began"), $(($(requests) - before)) requests"
[ $(($(requests) - before)) -lt 8 ] || die "$(($(requests) - before)) pages for 2000 names"

echo "# a large directory as a whole"
tell synth keys 10 "$ENTRIES" 1000 >/dev/null
read -r index_before anon_before < <(memory)
names_before=$(status .index.nameBytes)
before=$(requests)
began=$EPOCHREALTIME
find "$MNT/d0005" -type f -printf '%i\n' >"$WORK/inos"
took=$(since "$began")
[ "$(wc -l <"$WORK/inos")" = "$ENTRIES" ] || die "$(wc -l <"$WORK/inos") names"
[ "$(sort -u "$WORK/inos" | wc -l)" = "$ENTRIES" ] || die "ids come twice"
read -r index_after anon_after < <(memory)
per=$(((index_after - index_before) * 1024 / ENTRIES))
echo "# $ENTRIES names in $took, $(($(requests) - before)) requests; $per bytes each in the index (a name takes 16), other memory $anon_before -> $anon_after KiB"
# A record is 96 bytes and its hash bucket 4 (fuse/index/format.h asserts it), a name of these 16. What is resident is counted in whole
# folios, up to 2 MiB in each of the three regions of the file, as the kernel pleases.
[ $(((index_after - index_before) * 1024)) -le $(((100 + 16) * ENTRIES + 3 * 2097152)) ] || die "$per bytes an inode"
[ $(($(status .index.nameBytes) - names_before)) = $((16 * ENTRIES)) ] || die "$(status .index) after $names_before bytes of names"
# Nothing else grows with them. Of 100000 it is a few hundred KiB, whoever listed them; a pointer more for each would be seen.
[ $(((anon_after - anon_before) * 1024 / ENTRIES)) -le 16 ] || die "$(((anon_after - anon_before) * 1024 / ENTRIES)) bytes an inode beside the index"

echo "# another process knows the same ids, and asks for nothing"
first=$(sort -n "$WORK/inos" | sed -n 1p)
kill -9 "$(served)"
wait_for "another process" is_served
before=$(requests)
[ "$(stat -c %i "$MNT/d0007/f00654321")" = "$ino" ] || die "another id"
find "$MNT/d0005" -type f -printf '%i\n' | sort -n | sed -n 1p >"$WORK/first"
[ "$(cat "$WORK/first")" = "$first" ]
[ "$(requests)" = "$before" ] || die "$(($(requests) - before)) requests for what was known"
fuse_umount
fuse_mount # and so does one that mounts it anew
[ "$(find "$MNT/d0005" -type f | wc -l)" = "$ENTRIES" ]
[ $(($(requests) - before)) -le 2 ] || die "$(($(requests) - before)) requests for what was known"

echo "# an index that is damaged, or of another version, is made anew"
fuse_umount
byte_at() { od -An -tu1 -j "$1" -N 1 "$CACHE/index" | tr -d ' '; } # OFFSET
write_at() { printf '%b' "\\x$(printf %x "$2")" | dd of="$CACHE/index" bs=1 seek="$1" conv=notrunc status=none; } # OFFSET BYTE
made_anew() # WHAT WHY: of the index that was changed
{
    local before said
    before=$(requests)
    said=$(grep -c 'the index is made anew' "$WORK/fuse.log" || true)
    fuse_mount
    [ "$(stat -c %s "$MNT/d0007/f00000017")" = 1000 ] || die "$1: the index was trusted"
    [ "$(head -c 21 "$MNT/d0004/f00000042")" = keys/d0004/f00000042k ]
    [ "$(find "$MNT" -mindepth 1 -maxdepth 1 | sort | sed -n 1p)" = "$MNT/d0000" ]
    fuse_umount
    [ "$(grep 'the index is made anew' "$WORK/fuse.log" | tail -n +$((said + 1)) | grep -c "$2")" = 1 ] || die "$1: not made anew because $2"
    [ $(($(requests) - before)) -ge 4 ] || die "$1: $(($(requests) - before)) requests: the index was trusted"
}
version=$(byte_at 16)
write_at 16 $((version - 1))
made_anew "an older version" "its format is another one"
[ "$(byte_at 16)" = "$version" ] || die "what is made anew is of version $(byte_at 16), not $version"
write_at 16 $((version + 1))
made_anew "one whose mounts were edited" "its mounts were edited"
write_at 16 $((version + 2))
made_anew "a newer version" "a newer release made it"
write_at 20 $(($(byte_at 20) - 4))
made_anew "another size of a record" "its format is another one"
write_at 1048900 $(($(byte_at 1048900) ^ 99))
made_anew "a record" "its checksum is wrong"
dd if=/dev/urandom of="$CACHE/index" bs=4096 seek=256 count=16 conv=notrunc status=none
made_anew "the records" "its checksum is wrong"
dd if=/dev/urandom of="$CACHE/index" bs=4096 seek=0 count=16 conv=notrunc status=none
made_anew "the head" "its format is another one"
before=$(requests)
fuse_mount # and what was made anew is trusted
[ "$(stat -c %s "$MNT/d0007/f00000017")" = 1000 ]
fuse_umount
[ $(($(requests) - before)) -le 2 ] || die "$(($(requests) - before)) requests for what was known"
