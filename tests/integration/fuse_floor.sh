#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# The free space of the cache's disk: the cache does not use it up, and gives back what others need.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

MIB=1048576
status() { curl -sf "http://$HTTP/status"; }
readyz() { curl -s -o /dev/null -w '%{http_code}' "http://$HTTP/readyz"; }
reason_is() { [ "$(status | jq -r .reason)" = "$1" ]; }
fuse_source posix
mkdir -p "$CACHE"
mount -t tmpfs -o size=256m tmpfs "$CACHE"
for i in $(seq 40); do head -c $((4 * MIB)) /dev/urandom >"$DATA/f$i"; done
free_mib() { df -m --output=avail "$CACHE" | tail -n 1 | tr -d ' '; }
cached() { status | jq .cache.usedBytes; }

echo "# 160 MiB are read, 40 % of 256 MiB are to stay free: 103 MiB"
fuse_config 'cache={"keepFree":40,"tiers":[{"medium":"SSD","quota":1000000000}]}'
fuse_mount
for i in $(seq 40); do
    cmp "$DATA/f$i" "$MNT/f$i" || die "f$i is not read well"
    sleep 0.1
done
wait_for "what is read to be in the cache" eval '[ "$(cached)" -gt $((80 * MIB)) ]'
wait_for "the free space" eval '[ "$(free_mib)" -ge 100 ]'
wait_for "the reason" reason_is CacheDiskFull
[ "$(readyz)" = 200 ] || die "a disk with little room must not stop the readers"
grep -q '40 % of the disk of .* is kept free' "$WORK/fuse.log" || die "the log says nothing of it"
before=$(cached)

echo "# somebody writes 80 MiB to the disk: the cache gives them back, not less, not all"
head -c $((80 * MIB)) /dev/zero >"$CACHE/other"
wait_for "the free space" eval '[ "$(free_mib)" -ge 100 ]'
sleep 3
now=$(cached)
[ "$now" -lt $((before - 50 * MIB)) ] || die "the cache had $before bytes, and has $now"
[ "$now" -gt $((20 * MIB)) ] || die "there is hardly a cache any more: $now bytes"
for i in $(seq 40); do cmp "$DATA/f$i" "$MNT/f$i" || die "f$i is not read well"; done
wait_for "the free space" eval '[ "$(free_mib)" -ge 100 ]'

echo "# it goes away: the cache grows again"
rm "$CACHE/other"
grown() { for i in $(seq 40); do cmp "$DATA/f$i" "$MNT/f$i" || die "f$i is not read well"; done && [ "$(cached)" -gt $((now + 50 * MIB)) ]; }
wait_for "what is read to be in the cache" grown
fuse_umount

echo "# few inodes count as little space"
umount "$CACHE"
mount -t tmpfs -o size=256m,nr_inodes=2000 tmpfs "$CACHE"
for i in $(seq 1500); do echo "$i" >"$DATA/small$i"; done
fuse_mount
left() { df --output=iavail "$CACHE" | tail -n 1 | tr -d ' '; }
for round in 1 2 3; do
    cat "$MNT"/small* >/dev/null || die "round $round: small files are not read well"
    sleep 1
done
wait_for "free inodes" eval '[ "$(left)" -ge 400 ]'
fuse_umount
umount "$CACHE"

echo "# a disk is full, and the index is gone: the cache gives it room, also at the start"
mount -t tmpfs -o size=24m tmpfs "$CACHE"
mkdir "$DATA/full"
for i in $(seq 9); do head -c 2000000 /dev/urandom >"$DATA/full/f$i"; done
fuse_mount
cat "$MNT"/full/* >/dev/null
wait_for "what is read to be in the cache" eval '[ "$(cached)" -gt $((6 * MIB)) ]'
fuse_umount
rm "$CACHE/index"
cat /dev/zero >"$CACHE/others" 2>/dev/null || true
[ "$(df --output=avail "$CACHE" | tail -n 1 | tr -d ' ')" = 0 ] || die "it is not full: $(df "$CACHE")"
fuse_mount
for i in $(seq 9); do cmp "$DATA/full/f$i" "$MNT/full/f$i" || die "f$i is not read well"; done
fuse_umount
umount "$CACHE"
rm -r "$DATA/full"

echo "# writers leave half of it: 20 % of a disk of 200 MiB, and a cache that fills the rest"
truncate -s 200M "$WORK/disk"
if mkfs.ext4 -q -F -m 0 "$WORK/disk" && mount -o loop "$WORK/disk" "$CACHE"; then
    fuse_mount
    for i in $(seq 40); do cat "$MNT/f$i" >/dev/null; done
    wait_for "what is read to be in the cache" eval '[ "$(cached)" -gt $((40 * MIB)) ]'
    head -c $((90 * MIB)) /dev/urandom >"$DATA/../want"
    cat "$DATA/../want" >"$MNT/large" || die "the cache does not make room for what is written"
    cmp "$DATA/../want" "$MNT/large" || die "it is not what was written"
    rc=0
    cat "$DATA/../want" "$DATA/../want" 2>"$WORK/full.out" >"$MNT/larger" || rc=$?
    [ "$rc" != 0 ] || die "180 MiB are staged on a disk of 200 MiB"
    grep -q 'No space left' "$WORK/full.out" || die "$(cat "$WORK/full.out")"
    [ "$(free_mib)" -ge 20 ] || die "$(free_mib) MiB are left of 200"
    wait_for "the reason" reason_is CacheDiskFull
    grep -q 'what is written is refused' "$WORK/fuse.log" || die "the log says nothing of it"
    getfattr --only-values --absolute-names -n user.millrace.error "$MNT/larger" | grep -q 'less than 20.0 % of the disk' || die "no cause in the xattr"
    cmp "$DATA/f1" "$MNT/f1" || die "f1 is not read well"
    rm "$MNT/larger"
    again() { cat "$DATA/../want" >"$MNT/again"; }
    wait_for "room for a writer" again
    cmp "$DATA/../want" "$DATA/again" || die "it is not what was written"
    rm "$MNT/large" "$MNT/again"
    fuse_umount
    umount "$CACHE"
else
    echo "no ext4 on a loop device here"
fi

echo "# what is no percentage"
fuse_config 'cache={"keepFree":95,"tiers":[{"medium":"SSD","quota":1000000000}]}'
if "$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" >"$WORK/refused.out" 2>&1; then die "95 % are taken"; fi
grep -q 'cache.keepFree: must be a percentage from 0 to 90' "$WORK/refused.out" || die "$(cat "$WORK/refused.out")"
