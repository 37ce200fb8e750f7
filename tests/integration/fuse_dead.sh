#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A store that takes requests and never answers: every call ends with EIO at its deadline, the cause is in the log and in an attribute,
# who waits can be killed, what is known goes on being served, and all is well when the store is: what was written then is in it.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

cause() { getfattr --only-values --absolute-names -n user.millrace.error "$1" 2>/dev/null; }
fails_with_eio() # COMMAND…: within a few times the deadline
{
    local status=0 out=$WORK/shell.$BASHPID
    timeout 60 "$@" >/dev/null 2>"$out" || status=$?
    [ $status != 124 ] || die "$*: no end to it"
    [ $status != 0 ] || die "$*: a dead store, and no error"
    grep -q 'Input/output error' "$out" || die "$*: $(cat "$out")"
}

killed_at_once() # a reader that waits ends long before the deadline: a busy machine may take a second try
{
    local reader status=1
    cat "$MNT/known/f3" >/dev/null 2>&1 &
    reader=$!
    sleep 0.3
    kill -9 $reader
    for _ in {1..30}; do
        if ! kill -0 $reader 2>/dev/null; then
            status=0
            break
        fi
        sleep 0.1
    done
    wait $reader 2>/dev/null || true
    return $status
}

crowd_fails() # those who wait for the same directory do not wait for one another
{
    local i crowd=() begun=$SECONDS
    for i in {1..12}; do
        timeout 120 stat "$MNT/other/$i" >"$WORK/crowd.$i" 2>&1 &
        crowd+=($!)
    done
    for i in "${crowd[@]}"; do ! wait "$i" || die "a dead store, and no error"; done
    [ "$(cat "$WORK"/crowd.* | grep -c 'Input/output error')" = 12 ] || die "not all got EIO: $(cat "$WORK"/crowd.*)"
    [ $((SECONDS - begun)) -lt 40 ] || die "a crowd waited $((SECONDS - begun)) s for a store with a deadline of 5 s"
}

fake_start
for i in 1 2 3 4; do tell put "known/f$i" 100000 >/dev/null; done
tell put other/x 10 >/dev/null
for profile in sealed open; do
    echo "# $profile"
    fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":2000000000}]}' immutable="$(immutable_of $profile)"
    fuse_mount --store-deadline 5s --metadata-sync 1s
    ls "$MNT/known" >/dev/null
    cat "$MNT/known/f1" >/dev/null
    exec 7<"$MNT/known/f2"
    tell GET:hang:100000 >/dev/null
    fails_with_eio python3 -c '
import os, sys, time
begun = time.monotonic()
try:
    os.pread(7, 1000, 0) # asks for nothing but bytes
finally: # a busy machine may take seconds to start and end this program
    print(int(time.monotonic() - begun), file=open(sys.argv[1], "w"))' "$WORK/took"
    [ "$(<"$WORK/took")" -lt 10 ] || die "a read took $(<"$WORK/took") s to fail, not one deadline of 5 s"
    exec 7<&-
    cause "$MNT/known/f2" | grep -q "^$(date -u +%Y)-.*Z .*known/f2" || die "no cause: $(cause "$MNT/known/f2")"
    grep -q 'a request failed.*"op":"read".*known/f2' "$WORK/fuse.log" || die "nothing in the log"
    fails_with_eio ls "$MNT/other"
    fails_with_eio stat "$MNT/other/x"
    crowd_fails
    [ "$(head -c 3 "$MNT/known/f1")" = abc ] || die "what is cached needs the store"
    sleep 1.2 # and so it is when what is known is old
    [ "$(find "$MNT/known" -type f | wc -l)" = 4 ] || die "what is known is not told any more"
    if [ $profile = sealed ]; then # the listing is believed as long as the mount lives
        said=$(stat "$MNT/known/new" 2>&1) && die "there is a name that no listing has"
        grep -q "No such file" <<<"$said" || die "an immutable listing is not believed: $said"
    else
        fails_with_eio stat "$MNT/known/new" # a store that did not answer a moment ago is not asked
        cause "$MNT/known" | grep -q 'new: the store did not answer a moment ago: .*Unreachable' || die "no cause: $(cause "$MNT/known")"
    fi
    [ "$(tail -c 3 "$MNT/known/f1" | wc -c)" = 3 ]
    killed_at_once || killed_at_once || killed_at_once || die "who waits for a dead store cannot be killed"
    tell clear >/dev/null
    wait_for "all being well" eval '[ "$(cat "$MNT/known/f4" "$MNT/other/x" 2>/dev/null | wc -c)" = 100010 ]'
    wait_for "the file that failed" eval '[ "$(cat "$MNT/known/f2" 2>/dev/null | wc -c)" = 100000 ]'
    fuse_umount
    rm -rf "$CACHE"
done

echo "# what is written, renamed and removed while the store is dead"
endpoint=$(jq -r .options.endpoint <<<"$MOUNT_JSON")
in_store() { curl -sf "$endpoint/data/known/$1"; }
is_in_store() { in_store "$1" | cmp -s - "$WORK/$2"; } # NAME FILE
calls=()
fails() # COMMAND…: meanwhile
{
    fails_with_eio "$@" &
    calls+=($!)
}
have_struck() { [ "$(tell faults hang)" -ge "$1" ]; }
logged() { grep -q 'a request failed.*"op":"'"$1"'".*'"$2" "$WORK/fuse.log" || die "no $1 of $2 in the log"; } # OP NAME
fuse_config
fuse_mount --store-deadline 5s --metadata-sync 1s
head -c 100000 /dev/urandom >"$WORK/small"
head -c 70000000 /dev/urandom >"$WORK/large" # in parts
cat "$MNT/known/f3" >"$WORK/f3"
before=$(tell faults hang)
tell DELETE:hang:100000 >/dev/null
fails rm "$MNT/known/f4"
fails python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$MNT/known/f3" "$MNT/known/moved" # once; it is copied, and not removed
wait_for "two deletions" have_struck $((before + 2))
tell PUT:hang:100000 >/dev/null
tell POST:hang:100000 >/dev/null
# Not exclusively, as cp does: that asks the store.
fails dd if="$WORK/small" of="$MNT/known/closed" bs=1M
fails cp "$WORK/small" "$MNT/known/exclusive"
fails dd if="$WORK/large" of="$MNT/known/large" bs=1M
fails python3 -c '
import os, sys
with open(sys.argv[1], "rb") as data:
    fd = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY)
    os.write(fd, data.read())
os.fsync(fd)' "$WORK/small" "$MNT/known/synced"
for call in "${calls[@]}"; do wait "$call" || die "a call to a dead store"; done
logged unlink known/f4
logged rename known/f3
logged fsync known/synced
logged create known/exclusive
for name in closed large; do logged close "known/$name"; done
for name in closed synced; do cmp "$MNT/known/$name" "$WORK/small" || die "what was not saved cannot be read: $name"; done
if in_store closed || in_store synced || in_store large; then die "the store is not dead"; fi
cmp "$MNT/known/f3" "$WORK/f3" || die "a rename that failed took the file away"
[ "$(head -c 3 "$MNT/known/f4")" = abc ] || die "a removal that failed took the file away"
tell clear >/dev/null
for name in closed synced; do wait_for "$name in the store" is_in_store $name small; done
wait_for "the large file in the store" is_in_store large large
cmp "$MNT/known/large" "$WORK/large"
mv -f "$MNT/known/f3" "$MNT/known/moved"
rm "$MNT/known/f4"
tell PUT:hang:100000 >/dev/null # the copy of a rename, of 100000 bytes
fails_with_eio python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$MNT/known/f1" "$MNT/known/elsewhere"
tell clear >/dev/null
is_in_store moved f3 || die "it was not renamed"
if in_store f3 || in_store f4; then die "what is removed is still there"; fi
[ "$(find "$MNT/known" -type f -printf '%f\n' | sort | tr '\n' ' ')" = "closed f1 f2 large moved synced " ] || die "$(ls "$MNT/known")"
fuse_umount
