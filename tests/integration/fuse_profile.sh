#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 240
# tsan
# The profile fits the files and stays what it is when the serving process is killed; a sealed mount sees what changes in the store, too;
# who walks through a directory finds the next files fetched already, who reads at random only after a good part of it.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

MILLRACE=$BUILD/bin/millrace
skipped=''

status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }

restart() # an empty cache
{
    [ -z "$SUPERVISOR" ] || fuse_umount
    rm -rf "$CACHE"
    fuse_mount "$@"
}

profile_is() # PROFILE WHAT
{
    [ "$(status .profile)" = "$1" ] || die "$2: the profile is $(status .profile), not $1"
    "$MILLRACE" stat "$MNT" >"$WORK/stat.out"
    grep -qE "^profile: +$1\$" "$WORK/stat.out" || die "$2: $(cat "$WORK/stat.out")"
}

fuse_source s3
make_small() { for i in $(seq -w 0 199); do echo "content of $1-$i" >"$DATA/$1/f$i"; done; }
mkdir -p "$DATA/a" "$DATA/b"
make_small a
make_small b

echo "# which profile"
fuse_config
restart --metadata-sync 1s
profile_is open "a mount that can be written"
fuse_config readOnly=true
restart --metadata-sync 1s
profile_is sealed "small files, read-only"
kill -9 "$(served)"
wait_for "the next process" is_served
profile_is sealed "small files, after a kill"
fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":2000000000}]}' immutable=false
restart
profile_is open "small files, told to"
head -c 60000000 /dev/urandom >"$DATA/large1"
for i in 2 3 4 5 6 7 8 9; do cp "$DATA/large1" "$DATA/large$i"; done
fuse_config readOnly=true
restart
profile_is open "mostly large files"
cmp "$DATA/large1" "$MNT/large1" || die "a large file differs"
cmp "$DATA/large1" "$MNT/large1"
asks_nobody() # a reader of the large file
{
    local before
    before=$(status .reads.cacheBytes)
    cat "$MNT/large1" >/dev/null
    [ "$(status .reads.cacheBytes)" = "$before" ] || [ "$(id -u)" != 0 ]
}
# It is registered by an open that finds it complete, and no other open: the last bytes may land, and a close be told, a little later.
wait_for "a complete file to be read by the kernel itself" asks_nobody
wait_for "the backing file to be kept" eval ': <"$MNT/large1"; [ "$(status .backingFiles)" = 1 ] || [ "$(id -u)" != 0 ]'
rm "$DATA"/large*

echo "# which profile, told on the command line"
mkdir "$WORK/few" "$WORK/many"
cp "$DATA"/a/f00* "$WORK/few"
cp "$DATA"/a/* "$WORK/many"
cli_mount() # IMMUTABLE DIR
{
    fuse_umount
    rm -rf "$CACHE"
    PATH="$BUILD/fuse:$PATH" "$MILLRACE" mount --foreground --read-only ${1:+--immutable="$1"} --cache-dir "$CACHE" --http "$HTTP" --metrics "$METRICS" "file://$2" "$MNT" \
        >>"$WORK/fuse.log" 2>&1 &
    SUPERVISOR=$!
    wait_for "the mount" is_served
}
cli_mount '' "$WORK/few"
profile_is open "too few files, told nothing"
cli_mount true "$WORK/few"
profile_is sealed "too few files, told to"
cli_mount '' "$WORK/many"
profile_is sealed "small files, told nothing"
sum_of() { timeout 60 bash -c 'cat "$1"/* | sha256sum' - "$1" || echo "no answer"; } # DIR
for _ in 1 2; do [ "$(sum_of "$MNT")" = "$(sum_of "$WORK/many")" ] || die "wrong content"; done
kill -STOP "$(served)" # who is sealed asks nobody for what was read before: not for names, not to open, not for bytes
[ "$(sum_of "$MNT")" = "$(sum_of "$WORK/many")" ] || die "the kernel does not serve a sealed mount by itself"
kill -CONT "$(served)"
cli_mount false "$WORK/many"
profile_is open "small files, told to"
cmp "$MNT/f001" "$DATA/a/f001"

echo "# a sealed mount, and the store changes"
restart --metadata-sync 1s
profile_is sealed "small files again"
all_reads() { "$MILLRACE" stat --json "$MNT" | jq '[.stalls[].reads] | add // 0'; }
for i in 1 2; do
    before=$(all_reads)
    [ "$(cat "$MNT"/a/* "$MNT"/b/* | sha256sum)" = "$(cat "$DATA"/a/* "$DATA"/b/* | sha256sum)" ] || die "wrong content, pass $i"
    echo "# pass $i: $(($(all_reads) - before)) reads"
done
[ $(($(all_reads) - before)) -le 20 ] || die "what was read before is read again: $(($(all_reads) - before)) reads that the kernel does not serve by itself"
[ "$before" -ge 400 ] || die "$before reads of 400 files"
[ "$(find "$MNT" -type f | wc -l)" = 400 ] || die "the listing is not complete"
kill -9 "$(served)"
[ "$(cat "$MNT"/b/* | sha256sum)" = "$(cat "$DATA"/b/* | sha256sum)" ] || die "wrong content after a kill"
echo "a new version" >"$DATA/a/.new" && mv "$DATA/a/.new" "$DATA/a/f000"
echo "a new file" >"$DATA/a/g"
rm "$DATA/a/f001"
mkdir "$DATA/c" && echo x >"$DATA/c/x"
wait_for "the new version" eval '[ "$(cat "$MNT/a/f000")" = "a new version" ]'
wait_for "the new file in the listing" eval 'ls "$MNT/a" | grep -qx g'
wait_for "the removed file" eval '! ls "$MNT/a" | grep -x f001 >/dev/null'
wait_for "the new directory" eval 'ls "$MNT" | grep -qx c'
[ "$(cat "$MNT/a/g" "$MNT/c/x")" = $'a new file\nx' ] || die "wrong content of what is new"

echo "# the metadata sync interval begins when the store was asked, not when the kernel was told"
sync=20
echo "the first version" >"$DATA/a/aged"
restart --metadata-sync ${sync}s
asked=$SECONDS
[ -e "$MNT/a/f000" ] # the directory is listed for it
while [ $((SECONDS - asked)) -lt $((sync * 7 / 10)) ]; do sleep 0.2; done
[ "$(stat -c %s "$MNT/a/aged")" = 18 ] || die "the first version is not there"
[ ! -e "$MNT/a/later" ] || die "a file is there that was not made yet"
echo "another version, and longer" >"$DATA/a/.new" && mv "$DATA/a/.new" "$DATA/a/aged"
echo x >"$DATA/a/later"
wait_for "the changed file and the new one" eval '[ -e "$MNT/a/later" ] && [ "$(stat -c %s "$MNT/a/aged")" != 18 ]'
# counted from the kernel's questions it would be 34 s
[ $((SECONDS - asked)) -lt $((sync * 3 / 2)) ] || die "changes were seen after $((SECONDS - asked)) s, not $sync"
rm "$DATA/a/aged" "$DATA/a/later"

echo "# in order, and at random"
read_some() { for i in $(seq -w 199 -7 000); do cat "$MNT/b/f$i"; done >/dev/null; } # more than an eighth of them
for how in sealed open; do
    fuse_config readOnly=true "cache={\"tiers\":[{\"medium\":\"SSD\",\"quota\":2000000000}]}" immutable="$(immutable_of $how)"
    restart
    for i in 010 190 050 150 090 110 030 170; do cat "$MNT/b/f$i"; done >/dev/null
    wait_for "$how: the files in the cache" eval '[ "$(status .cache.files)" -ge 8 ]'
    sleep 0.5
    [ "$(status .cache.files)" = 8 ] || die "$how: $(status .cache.files) files were fetched for 8 that were read at random"
    for i in 000 001 002 003; do cat "$MNT/a/f$i" 2>/dev/null || true; done >/dev/null
    for i in 004 005 006 007; do cat "$MNT/a/f$i"; done >/dev/null
    wait_for "$how: the next files" eval '[ "$(status .cache.files)" -ge 24 ]'
    sleep 0.5
    before=$(status .cache.files)
    [ "$before" -lt 175 ] || die "$how: far too many files were fetched"
    read_some
    wait_for "$how: the rest of the directory" eval '[ "$(status .cache.files)" -ge $((before + 192)) ]'
    [ "$(cat "$MNT"/a/* "$MNT"/b/* "$MNT"/c/* | sha256sum)" = "$(cat "$DATA"/a/* "$DATA"/b/* "$DATA"/c/* | sha256sum)" ] || die "$how: wrong content"
done

echo "# at random, and the cache has little room"
fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":409600}]}' # a page for each file: 100
restart
read_some
wait_for "what there is room for" eval '[ "$(status .cache.files)" -ge 50 ]'
sleep 0.5
[ "$(status .cache.usedBytes)" -le 358400 ] || die "the last eighth of the cache was filled for nobody"
curl -sf "http://$METRICS/metrics" | grep -x 'millrace_cache_evicted_bytes_total 0' >/dev/null || die "something was evicted for nobody"

echo "# at random, and the cache is cold"
fuse_config readOnly=true
restart
read_some
wait_for "the rest of the directory" eval '[ "$(status .cache.files)" -ge 200 ]'
in_memory() { find "$CACHE/blocks" -type f -size -2 -links 1 -path '*/ssd/*' -exec fincore -b -n -o PAGES {} + | grep -c '[1-9]'; }
if [ "$(stat -f -c %T "$CACHE")" = tmpfs ]; then
    skipped="the cache lies on a tmpfs, which is never cold: set TMPDIR"
elif [ ! -w /proc/sys/vm/drop_caches ]; then
    skipped="the caches of this machine cannot be dropped: needs its root"
else
    wait_for "what was fetched to be in memory" eval '[ "$(in_memory)" -ge 200 ]'
    sync -f "$CACHE"
    fuse_umount
    find "$CACHE/blocks" -type f -exec touch -d '5 minutes ago' {} + # what is younger may have to be written yet, and stays
    fuse_mount
    echo 3 >/proc/sys/vm/drop_caches
    [ "$(in_memory)" -lt 50 ] || die "the caches do not go: $(in_memory) of 200"
    echo 3 >/proc/sys/vm/drop_caches # looking has made the names known again
    read_some
    # but for the 29 that were read: the kernel has those in the page cache of the mount
    wait_for "the rest of the directory in memory" eval '[ "$(in_memory)" -ge 171 ]'
    cat "$MNT/b"/* >/dev/null
    [ "$(in_memory)" -lt 60 ] || die "$(in_memory) of 200 files are in memory twice"
fi

echo "# the store goes away"
ls "$MNT/a" >/dev/null
kill -9 "$S3_PID"
pids=()
for i in $(seq -w 199 -7 000); do
    timeout 1 cat "$MNT/a/f$i" >/dev/null 2>&1 &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || true; done # the kernel's requests stay
begun=$SECONDS
fuse_umount
[ $((SECONDS - begun)) -lt 15 ] || die "the client took $((SECONDS - begun)) s to end while its store was gone"
if [ -n "$skipped" ]; then
    echo "SKIP: all else is well, but $skipped"
    exit 77
fi
