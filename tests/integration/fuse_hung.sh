#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# A directory whose file system does not answer any more, as NFS without its server: every call ends with EIO at its deadline, the cause is
# in the log and in an attribute, what is cached goes on being served, all is well when the file system is, and nobody waits for the end.
# The file system is another mount, of the directory behind it, whose serving process is stopped.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
# Who looks for leaks first stops all threads, and one that waits for a dead file system cannot be stopped.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0

cause() { getfattr --only-values --absolute-names -n user.millrace.error "$1" 2>/dev/null; }
fails_with_eio() # COMMAND…: within a few times the deadline
{
    local status=0
    timeout 60 "$@" >/dev/null 2>"$WORK/shell.out" || status=$?
    [ $status != 124 ] || die "$*: no end to it"
    [ $status != 0 ] || die "$*: a dead store, and no error"
    grep -q 'Input/output error' "$WORK/shell.out" || die "$*: $(cat "$WORK/shell.out")"
}

crowd_fails() # who asks for what is not cached, and who reads what is, do not wait for one another
{
    local i crowd=() begun=$SECONDS
    for i in {1..100}; do
        timeout 120 stat "$MNT/dir$i/none" >"$WORK/crowd.$i" 2>&1 &
        crowd+=($!)
    done
    [ "$(timeout 60 cat "$MNT/known/f1" | wc -c)" = 100000 ] || die "what is cached cannot be read beside a crowd"
    for i in "${crowd[@]}"; do ! wait "$i" || die "a dead store, and no error"; done
    [ "$(cat "$WORK"/crowd.* | grep -c 'Input/output error')" = 100 ] || die "not all got EIO: $(cat "$WORK"/crowd.*)"
    [ $((SECONDS - begun)) -lt 40 ] || die "a crowd waited $((SECONDS - begun)) s for a store with a deadline of 2 s"
}

stuck() { curl -sf "http://$METRICS/metrics" | sed -n 's/^millrace_store_stuck_calls //p'; }

# The file system that will hang, and whose serving process it is.
NAS=$WORK/nas
mkdir -p "$NAS" "$WORK/data"
fuse_source posix
mkdir -p "$DATA/known" "$DATA/cold" "$DATA/other" # of cold nothing is read: reading one file fetches its neighbours
for i in known/f1 known/f4 cold/f2 cold/f3; do head -c 100000 /dev/urandom >"$DATA/$i"; done
for i in {1..100}; do mkdir "$DATA/dir$i"; done
echo x >"$DATA/other/x"
"$FUSE" --mountpoint "$NAS" --cache-dir "$WORK/nas.cache" --config "$CONFIG" --metadata-sync 1s >>"$WORK/nas.log" 2>&1 &
KEEPER=$!
wait_for "the file system that will hang" mountpoint -q "$NAS"
wait_for "its files" test -e "$NAS/other/x"
NAS_SERVER=$(tr -d ' ' <"/proc/$KEEPER/task/$KEEPER/children")
MOUNT_JSON="{\"mountPoint\":\"file://$NAS\"}"

for profile in sealed open; do
    ro=$([ $profile = open ] && echo false || echo true)
    echo "# $profile"
    fuse_config readOnly=$ro 'cache={"tiers":[{"medium":"SSD","quota":2000000000}]}' immutable="$(immutable_of $profile)"
    fuse_mount --store-deadline 2s --metadata-sync 1s
    ls "$MNT/known" "$MNT/cold" >/dev/null
    cat "$MNT/known/f1" >/dev/null
    kill -STOP "$NAS_SERVER"
    fails_with_eio cat "$MNT/cold/f2"
    cause "$MNT/cold/f2" | grep -q "cold/f2: Unreachable: the file system of $NAS has not answered since 20" ||
        die "no cause: $(cause "$MNT/cold/f2")"
    grep -q 'a request failed.*"op":"read".*cold/f2.*has not answered since' "$WORK/fuse.log" || die "nothing in the log"
    grep -q 'a file system does not answer: only what is cached is served' "$WORK/fuse.log" || die "nothing in the log"
    cmp -n 100 "$MNT/known/f1" "$DATA/known/f1" || die "what is cached needs the store"
    fails_with_eio ls "$MNT/other"
    fails_with_eio stat "$MNT/other/x"
    crowd_fails
    sleep 1.2 # what is known is old now
    [ "$(find "$MNT/known" "$MNT/cold" -type f | wc -l)" = 4 ] || die "what is known is not told any more"
    cmp "$MNT/known/f1" "$DATA/known/f1" || die "what is cached cannot be read"
    if [ $ro = false ]; then
        if echo news | dd of="$MNT/known/f4" 2>"$WORK/shell.out"; then die "close() did not tell of the dead store"; fi
        grep -q 'Input/output error' "$WORK/shell.out" || die "$(cat "$WORK/shell.out")"
        grep -qx news "$MNT/known/f4" || die "what could not be saved cannot be read"
        fails_with_eio mkdir "$MNT/known/made"
    fi
    [ "$(stuck)" -gt 0 ] && [ "$(stuck)" -le 64 ] || die "stuck calls: $(stuck)"
    kill -CONT "$NAS_SERVER"
    wait_for "all being well" eval '[ "$(cat "$MNT/cold/f3" "$MNT/other/x" 2>/dev/null | wc -c)" = 100002 ]'
    wait_for "the file that failed" cmp -s "$MNT/cold/f2" "$DATA/cold/f2"
    wait_for "nobody stuck" eval '[ "$(stuck)" = 0 ]'
    grep -q 'a file system answers again' "$WORK/fuse.log" || die "nothing in the log"
    if [ $ro = false ]; then
        wait_for "the news in the store" grep -qsx news "$DATA/known/f4"
        mkdir "$MNT/known/later"
        wait_for "another directory in the store" test -d "$DATA/known/later"
    fi
    [ -z "$(find "$DATA" -name '.millrace-put-*')" ] || die "something is left of uploads that were given up"

    echo "# the end, while calls are stuck"
    kill -STOP "$NAS_SERVER"
    sleep 1.2
    fails_with_eio ls "$MNT/dir7"
    [ "$(stuck)" -gt 0 ] || die "nobody is stuck"
    begun=$SECONDS
    fuse_umount
    [ $((SECONDS - begun)) -lt 20 ] || die "it took $((SECONDS - begun)) s to end"
    rm -rf "$CACHE"

    echo "# a start, while nothing answers"
    if timeout 60 "$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" --store-deadline 2s --log-format text \
        >"$WORK/start.out" 2>&1; then die "a dead store was mounted"; fi
    grep -q "Unreachable: the file system of $NAS has not answered since" "$WORK/start.out" || die "$(cat "$WORK/start.out")"
    kill -CONT "$NAS_SERVER"
    wait_for "the file system" stat "$NAS/other/x" >/dev/null
done

echo "# a serving process that is killed while calls are stuck"
fuse_mount --store-deadline 2s --metadata-sync 1s
cat "$MNT/known/f1" >/dev/null
kill -STOP "$NAS_SERVER"
fails_with_eio cat "$MNT/other/x"
kill -9 "$(served)"
wait_for "another process" is_served
cmp "$MNT/known/f1" "$DATA/known/f1" || die "what is cached needs the store"
kill -CONT "$NAS_SERVER"
wait_for "all being well" grep -qsx x "$MNT/other/x"
fuse_umount
umount "$NAS"
wait "$KEEPER" || die "the file system ended with $?"

echo "# a file system that takes requests and then hangs: no signal ends who waits for it"
rm -rf "$CACHE"
fake_start
for i in 1 2; do tell put "dir$i/f" 10 >/dev/null; done
"$FUSE" --mountpoint "$NAS" --cache-dir "$WORK/nas.cache2" --config "$CONFIG" --store-deadline 60s >>"$WORK/nas.log" 2>&1 &
KEEPER=$!
wait_for "the file system that will hang" mountpoint -q "$NAS"
wait_for "its files" test -e "$NAS/dir1"
MOUNT_JSON="{\"mountPoint\":\"file://$NAS\"}"
fuse_config
fuse_mount --store-deadline 2s
ls "$MNT" >/dev/null
tell GET:hang:100000 >/dev/null
fails_with_eio stat "$MNT/dir1/f"
begun=$SECONDS
fuse_umount
[ $((SECONDS - begun)) -lt 20 ] || die "it took $((SECONDS - begun)) s to end"
grep -q 'a thread of the serving process is left behind' "$WORK/fuse.log" || die "nobody was stuck"
tell clear >/dev/null
fuse_mount # whoever is left behind does not hold the cache directory
[ "$(wc -c <"$MNT/dir2/f")" = 10 ]
fuse_umount
