#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# `millrace mount` of a bucket, as on a laptop.  s3_mount.sh DIRECTORY (with millrace and millrace-fuse in it)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
PATH=$1:$PATH
try() # COMMAND…: 0, or what it said
{
    if "$@" >"$WORK/try.log" 2>&1; then echo 0; else cat "$WORK/try.log"; fi
}

if [ ! -e /dev/fuse ] || [ "$(id -u)" != 0 ]; then
    echo "SKIP: needs /dev/fuse and root"
    exit 77
fi
s3_start
export AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123
export XDG_CACHE_HOME=$WORK/cache
cd "$WORK"
mkdir mnt mnt-ro
head -c 9000000 /dev/urandom >file
millrace cp file s3://data/set/one/file

is "mounts" "0" "$(try millrace mount s3://data/set mnt --cache-dir "$WORK/c1")"
is "what is in the store is there" "one" "$(ls mnt)"
is "and is the same" "$(sha256sum <file)" "$(sha256sum <mnt/one/file)"
cp file mnt/two
mkdir mnt/dir
echo text >mnt/dir/small
mv mnt/two mnt/dir/moved
is "what is written is in the store" $'dir/moved\ndir/small\none/file' "$(millrace ls --recursive s3://data/set | sort)"
millrace cp s3://data/set/dir/moved back
is "and the same" "$(sha256sum <file)" "$(sha256sum <back)"
status=$(millrace stat mnt)
has "stat: ready" "ready:     yes" "$status"
has "stat: where from" "store:     s3://data/set at /" "$status"
is "stat: as JSON" true "$(millrace stat mnt/dir --json | jq .serving)"
rm -r mnt/dir
is "what is removed is gone from the store" "one/file" "$(millrace ls --recursive s3://data/set)"
is "unmounts" "0" "$(millrace umount mnt && echo 0)"
is "its processes have ended then" "" "$(pgrep -f -- "--cache-dir $WORK/c1" || true)"
is "and is empty then" "" "$(ls mnt)"

is "mounts read-only" "0" "$(try millrace mount s3://data/set mnt-ro --read-only --cache-dir "$WORK/c2")"
is "reads" "$(sha256sum <file)" "$(sha256sum <mnt-ro/one/file)"
has "refuses writes" "Read-only file system" "$( (echo x >mnt-ro/x) 2>&1 || true)"
clients=0 leaks=0
for pid in $(pgrep -x millrace-fuse); do
    argv=$( (tr '\0' ' ' <"/proc/$pid/cmdline") 2>/dev/null) || continue
    clients=$((clients + 1))
    [[ $argv != *testsecret* ]] || leaks=$((leaks + 1))
done
is "no secret is on a client's command line" "0 leaks, some clients" "$leaks leaks, $([ $clients -gt 0 ] && echo some || echo no) clients"
is "unmounts it" "0" "$(millrace umount mnt-ro && echo 0)"

has "a missing bucket is said at once" "BucketNotFound" "$(millrace mount s3://nobucket mnt 2>&1 || true)"
has "so is a missing directory" "No such file" "$(millrace mount s3://data nowhere 2>&1 || true)"
has "and a prefix that is not there, if only to be read" "NotFound: bucket data has no object below typo/" \
    "$(millrace mount s3://data/typo mnt --read-only 2>&1 || true)"
has "what is not mounted is not unmounted" "nothing is mounted at mnt" "$(millrace umount mnt 2>&1 || true)"
has "nor what somebody else has mounted" "is no mount of millrace" "$(millrace umount / 2>&1 || true)"
mkdir other && mount -t tmpfs other other
has "whatever that is" "other is no mount of millrace, but of tmpfs: it is left alone" "$(millrace umount other --lazy 2>&1 || true)"
is "it is there still" 0 "$(try mountpoint -q other)"
umount other
is "sizes are taken as they are printed" 0 \
    "$(try millrace mount s3://data/set mnt --cache-dir "$WORK/c3" --cache-size 80.00MiB --memory-size 64MiB)"
is "a mount that nobody serves is unmounted, by a relative path with a slash" 0 \
    "$(kill -9 $(pgrep -f -- "--cache-dir $WORK/c3"); try millrace umount ./mnt/)"
echo "1..$count"
exit "$failed"
