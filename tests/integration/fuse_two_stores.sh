#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# Two stores in one tree, one of which takes requests and never answers: more callers wait in it than there are threads, and what is
# cached, what is known, the other store and writes to it do not wait for them, be it readers, writers or those who remove names. When it
# answers again, it is used again.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

READERS=200
crowd() # FIRST: each reads a file of its own in the dead store; a line for each that ends
{
    : >"$WORK/ended"
    python3 - "$MNT/dead/files" "$1" $READERS >>"$WORK/ended" <<'PY' &
import errno, os, sys, threading
folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
threading.stack_size(256 * 1024)
def read(i):
    try:
        with open("%s/f%d" % (folder, i), "rb") as f:
            said = "ok" if f.read() == b"abcdefghijklmnop"[:10] else "wrong"
    except OSError as e:
        said = errno.errorcode[e.errno]
    os.write(1, (said + "\n").encode())
threads = [threading.Thread(target=read, args=(i,)) for i in range(first, first + count)]
for t in threads: t.start()
for t in threads: t.join()
PY
    CROWD=$!
}
WRITERS=100
writers() # each writes a file of its own into the dead store; as many remove one: each in a directory that no other call has locked
{
    : >"$WORK/ended"
    python3 - "$MNT/dead" $WRITERS >>"$WORK/ended" <<'PY' &
import errno, os, sys, threading
top, count = sys.argv[1], int(sys.argv[2])
threading.stack_size(256 * 1024)
def write(i):
    with open("%s/written/f%d" % (top, i), "wb", 0) as f:
        f.write(b"text")
def remove(i):
    os.unlink("%s/names/d%d/f" % (top, i))
def run(call, i):
    try:
        call(i)
        said = "ok"
    except OSError as e:
        said = errno.errorcode[e.errno]
    os.write(1, (call.__name__ + " " + said + "\n").encode())
threads = [threading.Thread(target=run, args=(call, i)) for i in range(count) for call in (write, remove)]
for t in threads: t.start()
for t in threads: t.join()
PY
    CROWD=$!
}
ended() { wc -l <"$WORK/ended"; }
others_are_served() # ROUND
{
    [ "$(head -c 3 "$MNT/dead/files/f0")" = abc ] || die "what is cached waits for the store"
    # by name: who reads a directory where others write asks what they have put there
    [ "$(seq -f "$MNT/dead/files/f%g" 0 $((2 * READERS)) | xargs stat -c %s | grep -cx 10)" = $((2 * READERS + 1)) ] ||
        die "what is known waits for the store"
    cmp "$DATA/file$1" "$MNT/well/file$1"
    cp "$DATA/file$1" "$MNT/well/copy$1"
    cmp "$DATA/file$1" "$DATA/copy$1"
    mkdir "$MNT/well/dir$1"
    ls "$MNT/well" >/dev/null
}

fake_start
DATA=$WORK/data
mkdir "$DATA"
for i in 1 2 3; do head -c 3000000 /dev/urandom >"$DATA/file$i"; done
for i in $(seq 0 $((2 * READERS))); do tell put "files/f$i" 10 >/dev/null; done
for i in $(seq 0 $((WRITERS - 1))); do tell put "names/d$i/f" 10 >/dev/null; done
fuse_config mounts="[$(jq -c '.path = "/dead"' <<<"$MOUNT_JSON"), {\"mountPoint\": \"file://$DATA\", \"path\": \"/well\"}]"
fuse_mount --store-deadline 25s --metadata-sync 600s
find "$MNT/dead/files" -type f | wc -l >/dev/null
cat "$MNT/dead/files/f0" >/dev/null
tell GET:hang:1000000 >/dev/null
before=$(tell faults hang)

echo "# more wait than there are threads, and nobody knows yet that the store is dead"
crowd 1
have_struck() { [ "$(tell faults hang)" -ge $((before + 64)) ]; }
wait_for "as many requests that wait as there are threads" have_struck
others_are_served 1
[ "$(ended)" = 0 ] || die "the store is not dead: $(sort "$WORK/ended" | uniq -c)"
wait "$CROWD"
[ "$(sort "$WORK/ended" | uniq -c | tr -s ' ')" = " $READERS EIO" ] || die "$(sort "$WORK/ended" | uniq -c)"

echo "# it is known: few wait, to find out whether it is back, and others are told at once"
crowd $((READERS + 1))
wait_for "those that do not wait" eval '[ "$(ended)" -ge $((READERS - 64)) ]'
[ "$(ended)" -lt $READERS ] || die "nobody asks whether the store is back"
others_are_served 2
{ getfattr --only-values --absolute-names -n user.millrace.error "$MNT"/dead/files/* 2>/dev/null || true; } >"$WORK/causes"
grep -q 'as others found a moment ago: .*Unreachable' "$WORK/causes" || die "no cause: $(cat "$WORK/causes")"

echo "# it answers again"
tell clear >/dev/null
wait "$CROWD"
wait_for "the store in use" eval '[ "$(cat "$MNT/dead/files/f7" 2>/dev/null | wc -c)" = 10 ]'
crowd 1
wait "$CROWD"
[ "$(sort "$WORK/ended" | uniq -c | tr -s ' ')" = " $READERS ok" ] || die "$(sort "$WORK/ended" | uniq -c)"

echo "# more write and remove than there are threads"
mkdir "$MNT/dead/written"
[ "$(find "$MNT/dead/names" -type f | wc -l)" = $WRITERS ]
tell PUT:hang:1000000 >/dev/null
tell DELETE:hang:1000000 >/dev/null
before=$(tell faults hang)
writers
wait_for "as many requests that wait as there are threads" have_struck
others_are_served 3
[ "$(ended)" = 0 ] || die "others waited for the store: $(sort "$WORK/ended" | uniq -c)"
wait "$CROWD"
[ "$(sort "$WORK/ended" | uniq -c | tr -s ' ')" = " $WRITERS remove EIO
 $WRITERS write EIO" ] || die "$(sort "$WORK/ended" | uniq -c)"
tell clear >/dev/null
wait_for "what was kept being in the store" eval '[ "$(curl -sf "http://$HTTP/status" | jq .writes.pendingFiles)" = 0 ]'
[ "$(cat "$MNT"/dead/written/* | wc -c)" = $((4 * WRITERS)) ]
fuse_umount
