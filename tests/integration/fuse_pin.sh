#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 300
# What a user brings into the cache, keeps there and lets go: under pressure, over kill -9 and a new mount, with either profile, on a
# read-only mount, as nobody too. What cannot be done is said.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
MILLRACE=$BUILD/bin/millrace

status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
is() { [ "$(status "$1")" = "$2" ]; }
fetched() { status .reads.storeBytes; }
press() { cat "$MNT"/other/* >/dev/null; } # more than the cache holds
# The same bytes, and none of them from the store.
kept() # DIR…
{
    local before dir
    before=$(fetched)
    for dir; do diff -r "$DATA/$dir" "$MNT/$dir" >&2 || die "other bytes in $dir"; done
    [ "$(fetched)" = "$before" ] || die "$* was fetched again: $(fetched) after $before"
}
says() # TEXT COMMAND…: fails, and says it
{
    local text=$1
    shift
    if "$@" >"$WORK/out" 2>&1; then die "this went well: $*"; fi
    grep -qF -- "$text" "$WORK/out" || die "$*: $(cat "$WORK/out")"
}
ask() # OP PATH [NAME [FLAGS [LEN]]]: by hand; prints the answer, or the error
{
    python3 - "$@" <<'PY'
import errno, fcntl, os, struct, sys
op, path, name, flags, length = (sys.argv[1:] + ["", "", "0", "1048576"][len(sys.argv) - 2:])[:5]
fd = os.open(path, os.O_RDONLY)
msg = bytearray(struct.pack("=IIQQQQQQII256s", int(op), int(flags), 0, int(length), 0, 0, 0, 0, 0, 0, name.encode()))
try:
    fcntl.ioctl(fd, 3 << 30 | 320 << 16 | ord("m") << 8 | 0x49, msg)
    print("size %d cached %d state %d" % (struct.unpack_from("=QQ", msg, 24) + struct.unpack_from("=I", msg, 56)))
except OSError as e:
    print(errno.errorcode[e.errno])
PY
}

asks() { [ "$(ask "$1" "$2" "$3")" = "$4" ]; }
# A file for which there was no room at once is not kept; the next time that it is read, it is.
read_is_kept() { cat "$MNT/other/9" >/dev/null && asks 1 "$MNT/other" 9 "size 1000000 cached 1000000 state 0"; }

fuse_source s3
mkdir -p "$DATA/keep/deep" "$DATA/other" "$DATA/more"
for i in $(seq 0 11); do head -c $((300000 + i * 1000)) /dev/urandom >"$DATA/keep/$i"; done
head -c 1500000 /dev/urandom >"$DATA/keep/deep/blocks"
head -c 777 /dev/urandom >"$DATA/keep/deep/"$'two\nlines \xc3\xa4 "x"'
: >"$DATA/keep/deep/empty"
for i in $(seq 0 59); do head -c 1000000 /dev/urandom >"$DATA/other/$i"; done
for i in $(seq 0 11); do head -c 100000 /dev/urandom >"$DATA/more/$i"; done
head -c 21000000 /dev/urandom >"$DATA/large"
size=$(find "$DATA/keep" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')

for profile in open sealed; do
    echo "# $profile: pinned files stay"
    fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":40000000}]}' immutable="$(immutable_of $profile)"
    fuse_mount --allow-other
    "$MILLRACE" pin "$MNT/keep" >"$WORK/out" 2>&1 || die "$(cat "$WORK/out")"
    grep -q '^pinned 15 files, 4.93MiB$' "$WORK/out" || die "$(cat "$WORK/out")"
    [ "$(fetched)" = "$size" ] || die "$(fetched) bytes were fetched for $size"
    is .cache.pinnedFiles 14 || die "$(status .cache)"
    "$MILLRACE" stat "$MNT" >"$WORK/out"
    grep -qE '^  pinned +4.9[0-9]MiB in 14 files, of at most 19.07MiB$' "$WORK/out" || die "$(cat "$WORK/out")"
    curl -sf "http://$METRICS/metrics" >"$WORK/out"
    grep -q '^millrace_cache_pinned_files 14$' "$WORK/out" || die "no metric"
    press
    press
    wait_for "what was read last in the cache" read_is_kept
    is ".cache.usedBytes < 40000000 and .cache.files < 60" true || die "nothing was evicted: $(status .cache)"
    kept keep
    echo "# … when the process is killed, and when it is mounted again"
    kill -9 "$(served)"
    wait_for "another process" is_served
    is .cache.pinnedFiles 14 || die "$(status .cache)"
    press
    kept keep
    fuse_umount
    fuse_mount --allow-other
    press
    kept keep
    is .cache.pinnedFiles 14 || die "$(status .cache)"

    echo "# $profile: pins have half of the cache at most"
    before=$(fetched)
    says "large (20.03MiB) is not pinned: pinned files may have 19.07MiB, half of the cache, and have 4.9" "$MILLRACE" pin "$MNT/large"
    grep -q 'unpin something (millrace unpin)' "$WORK/out" || die "$(cat "$WORK/out")"
    [ "$(fetched)" = "$before" ] || die "it was fetched all the same"
    says "is not pinned: pinned files may have" "$MILLRACE" pin "$MNT/other"
    is '.cache.pinnedBytes <= 20000000' true || die "$(status .cache)"
    press
    cmp "$DATA/large" "$MNT/large"
    kept keep
    "$MILLRACE" unpin "$MNT/other" >"$WORK/out"
    grep -qE '^unpinned 1[0-9] files$' "$WORK/out" || die "$(cat "$WORK/out")"
    is .cache.pinnedFiles 14 || die "$(status .cache)"

    says "files are not in the cache any more: it has no room for all of them at once; pin them, or raise its quota" "$MILLRACE" load "$MNT/other"
    grep -q '^loaded 60 files, 57.22MiB$' "$WORK/out" || die "$(cat "$WORK/out")"
    kept keep

    echo "# $profile: free lets go what is not pinned"
    before=$(fetched)
    "$MILLRACE" load "$MNT/more" "$MNT/more/3" >"$WORK/out"
    [ "$(cat "$WORK/out")" = "loaded 13 files, 1.24MiB" ] || die "$(cat "$WORK/out")"
    [ "$(fetched)" = $((before + 1200000)) ] || die "$(fetched) after $before"
    kept more
    backing=$(status .backingFiles) # that the kernel could read by itself when they are opened again
    "$MILLRACE" free "$MNT/more" "$MNT/keep" >"$WORK/out"
    [ "$(cat "$WORK/out")" = "freed 12 files, 1.14MiB"$'\n'"14 pinned files were left: millrace unpin lets them go" ] || die "$(cat "$WORK/out")"
    if [ "$backing" -gt 0 ]; then
        before=$(fetched)
        cmp "$DATA/more/5" "$MNT/more/5"
        [ "$(fetched)" -gt "$before" ] || die "the kernel reads what was freed"
        "$MILLRACE" free "$MNT/more/5" >"$WORK/out"
    fi
    kept keep
    before=$(fetched)
    "$MILLRACE" free "$MNT/more" >"$WORK/out"
    [ "$(cat "$WORK/out")" = "freed 0 files, 0B" ] || die "$(cat "$WORK/out")"
    sleep 0.5
    [ "$(fetched)" = "$before" ] || die "to free something fetched it"
    [ "$(ask 1 "$MNT/more" 3)" = "size 100000 cached 0 state 0" ] || die "$(ask 1 "$MNT/more" 3)"
    [ "$(ask 2 "$MNT/more" 3)" = "size 100000 cached 100000 state 0" ] || die "not loaded"

    echo "# $profile: what is unpinned may go"
    "$MILLRACE" unpin "$MNT/keep/3" >"$WORK/out"
    [ "$(cat "$WORK/out")" = "unpinned 1 files" ] || die "$(cat "$WORK/out")"
    "$MILLRACE" unpin "$MNT/keep" >"$WORK/out"
    [ "$(cat "$WORK/out")" = "unpinned 13 files" ] || die "$(cat "$WORK/out")"
    is .cache.pinnedBytes 0 || die "$(status .cache)"
    umount "$MNT" && wait "$SUPERVISOR" && fuse_mount --allow-other # the kernel has the bytes no more
    press
    press
    before=$(fetched)
    diff -r "$DATA/keep" "$MNT/keep"
    [ "$(fetched)" -gt $((before + size / 2)) ] || die "nothing of it went"

    echo "# $profile: what is no request is refused"
    [ "$(ask 7 "$MNT/large")" = ENOTTY ] && [ "$(ask 0 "$MNT" large)" = ENOTTY ] || die "an unknown operation"
    [ "$(ask 2 "$MNT/large" "" 1)" = EINVAL ] && [ "$(ask 2 "$MNT/large" large)" = EINVAL ] || die "flags, or a name on a file"
    [ "$(ask 2 "$MNT/large" "" 0 16777217)" = EINVAL ] && [ "$(ask 3 "$MNT" ../large)" = EINVAL ] || die "too much, or a path"
    [ "$(ask 2 "$MNT")" = EISDIR ] && [ "$(ask 2 "$MNT" keep)" = EISDIR ] && [ "$(ask 2 "$MNT" absent)" = ENOENT ] || die "directories"
    ask 2 "$MNT/large" "" 0 16777216 >"$WORK/out"
    grep -qE "^size 21000000 cached [0-9]+ state 0$" "$WORK/out" || die "$(cat "$WORK/out")"
    is_served || die "it is served no more"

    echo "# $profile: as nobody, on a mount that is read-only for him; a new version is another file"
    mkdir -p "$WORK/ro"
    chmod 711 "$WORK"
    mount --bind "$MNT" "$WORK/ro"
    mount -o remount,bind,ro "$WORK/ro"
    setpriv --reuid 65534 --regid 65534 --clear-groups "$MILLRACE" pin "$WORK/ro/more" >"$WORK/out" 2>&1 || die "$(cat "$WORK/out")"
    is .cache.pinnedFiles 12 || die "$(status .cache)"
    umount "$WORK/ro"
    rm "$DATA/more/3"
    "$MILLRACE" unpin --all "$MNT" || die "not all"
    is .cache.pinnedFiles 0 || die "$(status .cache)"
    head -c 100000 /dev/urandom >"$DATA/more/3"
    fuse_umount
    rm -rf "$CACHE"
done

echo "# pinned bytes are on disk, if there is one"
fuse_config readOnly=true 'cache={"tiers":[{"medium":"MEM","quota":40000000},{"medium":"SSD","quota":40000000}]}'
fuse_mount --allow-other
cat "$MNT/keep/1" "$MNT/keep/2" "$MNT/keep/deep/blocks" >/dev/null
"$MILLRACE" pin "$MNT/keep" >"$WORK/out" 2>&1 || die "$(cat "$WORK/out")"
kill -9 "$(served)"
wait_for "another process" is_served
is .cache.pinnedFiles 14 || die "$(status .cache)"
kept keep
fuse_umount
rm -rf "$CACHE"

echo "# what is being written is not pinned, and not freed"
fuse_config 'cache={"tiers":[{"medium":"SSD","quota":40000000}]}'
fuse_mount --allow-other
exec 5>"$MNT/more/new"
printf precious >&5
says "new is being written: pin it once it is closed" "$MILLRACE" pin "$MNT/more"
is .cache.pinnedFiles 12 || die "the others: $(status .cache)"
"$MILLRACE" free "$MNT/more" >"$WORK/out"
grep -q '^freed 0 files' "$WORK/out" || die "$(cat "$WORK/out")"
"$MILLRACE" load "$MNT/more/new" >"$WORK/out" || die "$(cat "$WORK/out")"
exec 5>&-
[ "$(cat "$MNT/more/new" "$DATA/more/new")" = preciousprecious ] || die "it is lost"
"$MILLRACE" pin "$MNT/more/new" >"$WORK/out" || die "$(cat "$WORK/out")"
is .cache.pinnedFiles 13 || die "$(status .cache)"
rm "$MNT/more/new"
is .cache.pinnedFiles 12 || die "a removed file has a pin: $(status .cache)"
mv "$MNT/more/1" "$MNT/more/renamed"
is .cache.pinnedFiles 11 || die "a renamed file has a pin: $(status .cache)"
printf other >"$MNT/more/2"
is .cache.pinnedFiles 10 || die "new content is pinned: $(status .cache)"
cmp "$MNT/more/renamed" "$DATA/more/renamed"

echo "# what is wrong is said"
says "is not on a mount of millrace" "$MILLRACE" load "$WORK/config.json"
says "is not on a mount of millrace" "$MILLRACE" unpin --all "$WORK"
says "No such file" "$MILLRACE" pin "$MNT/absent"
if "$MILLRACE" free >"$WORK/out" 2>&1; then die "nothing to free"; else [ $? = 2 ]; fi
if "$MILLRACE" pin s3://bucket/x >"$WORK/out" 2>&1; then die "a URL"; else [ $? = 2 ]; fi
fuse_umount
