#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# One request hangs for ever in one thread: its caller gets an error after --stuck-after, so that the kernel lets those go on who look
# names up in the same directory; it is in the log and counted, others read and write meanwhile, and later all is well. What hangs is the
# disk of staged files: another mount, whose serving process is stopped.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
# Who looks for leaks first stops all threads, and one that waits for a dead file system cannot be stopped.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0

stuck() { curl -sf --max-time 5 "http://$METRICS/metrics" | sed -n 's/^millrace_stuck_requests_total //p'; }

STAGE_DISK=$WORK/stage.disk
mkdir -p "$STAGE_DISK" "$CACHE/stage"
fuse_source posix
jq -n --arg dir "$WORK/stage.data" '{mounts: [{mountPoint: ("file://" + $dir)}], cache: {tiers: [{medium: "SSD", quota: 100000000}]}}' \
    >"$WORK/stage.json"
mkdir "$WORK/stage.data"
"$FUSE" --mountpoint "$STAGE_DISK" --cache-dir "$WORK/stage.cache" --config "$WORK/stage.json" --hung-after 0s \
    >>"$WORK/stage.log" 2>&1 &
KEEPER=$!
wait_for "the disk that will hang" mountpoint -q "$STAGE_DISK"
disk=$(tr -d ' ' <"/proc/$KEEPER/task/$KEEPER/children")
mount --bind "$STAGE_DISK" "$CACHE/stage"

mkdir -p "$DATA/held" "$DATA/known"
for name in held/before held/other known/f1 known/f2; do head -c 300000 /dev/urandom >"$DATA/$name"; done
fuse_mount --stuck-after 3s --metadata-sync 1s
echo begun >"$MNT/held/mine"
[ "$(cat "$DATA/held/mine")" = begun ] || die "it is not saved"
cat "$MNT/known/f1" >/dev/null
exec 7<"$MNT/held/before" 8<"$MNT/known/f2"
[ "$(stuck)" = 0 ] || die "one is stuck: $(stuck)"

mkfifo "$WORK/go"
# Not by the shell: each close of a copy of the descriptor would save it.
python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"begun\n")
open(sys.argv[2]).read()
os.write(fd, b"more\n")' "$MNT/known/written" "$WORK/go" 2>"$WORK/write.out" &
writer=$!
wait_for "a file that is not saved" grep -qsx begun "$MNT/known/written"

kill -STOP "$disk"
bash -c ': >"$0/held/new"' "$MNT" 2>"$WORK/create.out" &
creator=$!
cmp <(timeout 60 cat <&7) "$DATA/held/before" || die "an open file of that directory cannot be read"
cmp <(timeout 60 cat <&8) "$DATA/known/f2" || die "an open file cannot be read"
[ "$(timeout 60 cat "$MNT/known/f1" | wc -c)" = 300000 ] || die "another directory waits"
timeout 90 stat "$MNT/held/other" >/dev/null || die "a name beside the one that is being made cannot be looked up"
if wait "$creator"; then die "it was made on a disk that hangs"; fi
grep -q 'Input/output error' "$WORK/create.out" || die "not EIO: $(cat "$WORK/create.out")"
grep -q 'a request does not end.*"op":"create".*stuck-after' "$WORK/fuse.log" || die "nothing in the log"
cmp "$MNT/held/other" "$DATA/held/other" || die "it cannot be read"

echo "# a write and an fsync that wait for that disk"
if timeout 60 sync "$MNT/known/written" 2>"$WORK/sync.out"; then die "it was saved from a disk that hangs"; fi
grep -q 'Input/output error' "$WORK/sync.out" || die "not EIO: $(cat "$WORK/sync.out")"
echo >"$WORK/go"
if wait "$writer"; then die "it was written to a disk that hangs"; fi
grep -q 'Input/output error' "$WORK/write.out" || die "not EIO: $(cat "$WORK/write.out")"
for op in write fsync; do
    grep -q "a request does not end.*\"op\":\"$op\".*stuck-after" "$WORK/fuse.log" || die "nothing in the log of $op"
done

echo "# what the client says of itself does not wait for that disk"
[ "$(curl -sf --max-time 30 "http://$HTTP/status" | jq .serving)" = true ] || die "/status waits for a disk that hangs"
curl -sf --max-time 30 "http://$METRICS/metrics" | grep -x 'millrace_kept_files 0' >/dev/null || die "/metrics waits for a disk that hangs"

kill -CONT "$disk"
made() { echo again >"$MNT/held/again" && [ "$(cat "$DATA/held/again")" = again ]; }
wait_for "files can be made again" made
[ "$(stuck)" -ge 1 ] || die "not counted: $(stuck)"
cmp "$MNT/held/before" "$DATA/held/before"
exec 7<&- 8<&-
fuse_umount

echo "# all of its processes are killed while one hangs that tells the kernel of changes: the mount ends, nobody waits"
fuse_mount --stuck-after 0s --metadata-sync 1s
teller() # the process that tells, if it waits beyond the reach of signals
{
    local pid
    pid=$(cat "/proc/$(served)/task/"*/children | tr -d ' ')
    [ "$(cat "/proc/$pid/comm")" = millrace-inval ] && grep -q '^State:.*D' "/proc/$pid/status"
}
changes() # a name that the mount knows, beside the one that is being made
{
    echo "$RANDOM" >>"$DATA/held/other"
    stat "$MNT/held/other" >/dev/null 2>&1 & # it may wait, too
    sleep 0.5
    teller 2>/dev/null
}
stat "$MNT"/held/* >/dev/null
kill -STOP "$disk"
bash -c ': >"$0/held/newer"' "$MNT" 2>"$WORK/create.out" &
creator=$!
wait_for "the kernel being told of a change below the directory" changes
pid=$(served)
kill -9 "$SUPERVISOR" "$pid"
wait "$SUPERVISOR" 2>/dev/null || true
SUPERVISOR=''
has_ended() { ! kill -0 "$creator" 2>/dev/null; }
wait_for "the end of who waits for an answer" has_ended
kill -CONT "$disk"
umount "$MNT"
umount "$CACHE/stage"
