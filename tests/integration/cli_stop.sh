#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `millrace cp` that is told to end in the middle leaves nothing half under a name: not on a mount, not in a directory, not in a store; one that
# a mount cannot save fails, and `mv` leaves its source.
#   cli_stop.sh DIRECTORY (with millrace and millrace-fuse in it)
set -euo pipefail
# shellcheck source=tests/integration/cli_lib.sh
. "$(dirname "$(readlink -f "$0")")/cli_lib.sh"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-stop.XXXXXX")
SERVER=
cleanup()
{
    local at
    for at in mnt mnt2 small; do
        ! mountpoint -q "$WORK/$at" || umount -l "$WORK/$at"
    done
    [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || true
    rm -rf "$WORK"
}
trap cleanup EXIT
cd "$WORK"
export XDG_CACHE_HOME=$WORK/xdg
# Eight large files, whose first bytes come at once and the others slowly, until "go" is there.
slow='
import http.server, os, re, time
SIZE = 32 << 20
class Slow(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self, body=True):
        if self.path.endswith("/"):
            text = b"".join(b"<a href=\"f%d\">f%d</a>\n" % (i, i) for i in range(8))
            self.send_response(200); self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text))); self.end_headers()
            return body and self.wfile.write(text)
        m = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(m[1]), min(int(m[2]), SIZE - 1)) if m else (0, SIZE - 1)
        self.send_response(206 if m else 200)
        self.send_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"); self.send_header("Accept-Ranges", "bytes")
        if m: self.send_header("Content-Range", "bytes %d-%d/%d" % (first, last, SIZE))
        self.send_header("Content-Length", str(last - first + 1)); self.end_headers()
        while body and first <= last:
            n = min(1 << 20, last - first + 1)
            if first >= 8 << 20 and not os.path.exists("go"):
                time.sleep(1)
            self.wfile.write(bytes(n)); first += n
    def do_HEAD(self): self.do_GET(False)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
print(s.server_port, flush=True)
s.serve_forever()'
python3 -c "$slow" >port 2>server.log &
SERVER=$!
wait_for grep -q . port
URL=http://127.0.0.1:$(<port)/files
mkdir store mnt local
run millrace mount "file://$WORK/store" mnt --cache-dir "$WORK/cache"
is "mounts" 0 "$status"

halves() { find "$1" -type f ! -size 33554432c; } # DIRECTORY
strays() { find "$1" -name '.millrace-cp-*'; } # DIRECTORY
ends() # NAME DESTINATION: told to end once something was copied to there
{
    millrace cp -r "$URL/" "$2" 2>"$WORK/said" &
    local pid=$!
    is "$1: it copies" 0 "$(wait_for sh -c "find $3 -type f -size +100k | grep -q ." && echo 0)"
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    is "$1: it ends by the signal" 143 "$status"
    has "$1: and says so" "interrupted" "$(<"$WORK/said")"
    is "$1: it did not copy all" yes "$([ "$(find "$3" -type f | wc -l)" -lt 8 ] && echo yes)"
}
ends "a directory" local local
is "a directory: nothing half is left" "" "$(halves local)"
mkdir old old/there
for i in {0..7}; do echo old >"old/there/f$i"; done
cp -r old/there mnt/old
millrace cp -r "$URL/" mnt/old 2>"$WORK/said" &
pid=$!
is "what is replaced: it copies" 0 "$(wait_for sh -c "find mnt/old -type f -size +100k | grep -q ." && echo 0)"
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
is "what is replaced: it ends by the signal" 143 "$status"
is "what is replaced: each is as it was, or all of the new one" 8 \
    "$(find mnt/old -type f \( -size 4c -o -size 33554432c \) | wc -l)"
rm -r mnt/old
ends "a mount" mnt/there mnt
is "a mount: nothing half is left" "" "$(halves mnt)"
run millrace umount mnt
is "unmounts" 0 "$status"
is "a mount: nor in its store" "" "$(halves store; strays store)"
: >go
mkdir small mnt2 src
mount -t tmpfs -o size=1m none small
echo old >small/old
head -c 20000000 /dev/zero >src/f
run millrace mount "file://$WORK/small" mnt2 --cache-dir "$WORK/cache2"
is "mounts what has no room" 0 "$status"
run millrace cp "file://$WORK/src/f" mnt2/old
is "what cannot be saved is not copied over another" "1 old old" "$status $(<mnt2/old) $(<small/old)"
has "which is said" "No space left" "$out"
for verb in cp mv; do
    run millrace $verb "file://$WORK/src/f" "mnt2/$verb"
    is "$verb to a new name fails likewise, and the source stays" "1 yes" "$status $([ -s src/f ] && echo yes)"
    rm "mnt2/$verb"
done
is "nothing else is there" "old" "$(ls -A small)"
run millrace cp "$URL/f1" local/
is "what is not told to end is whole" "0 $((32 << 20))" "$status $(stat -c %s local/f1)"
# An object store renames a tree object by object: what is left when it is told to end stays where it was.
mkfifo s3.in
fake-s3 <s3.in >s3.out 2>s3.log &
S3=$!
exec 7>s3.in
wait_for grep -q http s3.out
s3=(--option "endpoint=$(head -n 1 s3.out)" --option anonymous=true)
for i in {1..60}; do echo "put tree/f$i 10" >&7; done
echo "PUT:slow:100" >&7
count_of() { millrace ls --recursive "s3://data/$1" "${s3[@]}" 2>/dev/null | wc -l || true; }
moved() { [ "$(count_of moved)" -ge 3 ]; }
millrace mv s3://data/tree s3://data/moved "${s3[@]}" 2>said &
pid=$!
is "mv in a store: it moves" 0 "$(wait_for moved && echo 0)"
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
is "mv in a store: it ends by the signal" 143 "$status"
left=$(count_of tree)
is "mv in a store: not all is moved, and nothing lost" "yes 60" "$([ "$left" -gt 0 ] && echo yes) $((left + $(count_of moved)))"
has "mv in a store: and it says so" "interrupted: what was not moved yet is where it was" "$(<said)"
echo "clear" >&7

# Nobody reads any more: as cat(1) ends, and without a word.
echo "put large 30000000" >&7
is_there() { millrace stat s3://data/large "${s3[@]}"; }
wait_for is_there
closed() # NAME VERB…
{
    local name=$1
    shift
    status=0
    { "$@" 2>said || echo $? >ended; } | head -c 10 >/dev/null
    is "$name to a closed pipe ends by it" 141 "$(<ended)"
    is "$name to a closed pipe says nothing" "" "$(<said)"
    rm -f ended
}
closed cat millrace cat s3://data/large "${s3[@]}"
closed tail millrace tail --bytes 20000000 s3://data/large "${s3[@]}"
for i in {1..3000}; do echo "put deep/with-a-name-that-fills-the-pipe/f$i 1" >&7; done
is_deep() { millrace stat s3://data/deep/with-a-name-that-fills-the-pipe/f3000 "${s3[@]}"; }
wait_for is_deep
closed ls millrace ls --recursive s3://data/deep "${s3[@]}"
closed "ls --json" millrace ls --recursive --json s3://data/deep "${s3[@]}"
status=0
millrace stat s3://data/large "${s3[@]}" >/dev/full 2>said || status=$?
is "what cannot be printed is told" "1 No space left on device" "$status $(grep -o "No space left.*" said)"
mkdir many
quiet() { sleep 0.3; millrace cp --recursive --verbose s3://data/moved many "${s3[@]}"; }
{ quiet 2>said || echo $? >ended; } | true
is "cp to a closed pipe ends by it" 141 "$(<ended)"
is "cp to a closed pipe says nothing" "" "$(<said)"
is "cp to a closed pipe leaves nothing half" "" "$(strays many)"

# A server that sends nothing more: the signal is not kept waiting until that is noticed.
echo "GET:stall:1000" >&7
millrace cp s3://data/large local/stalled "${s3[@]}" 2>said &
pid=$!
is "cp from a silent server: it copies" 0 "$(wait_for sh -c "find local -name '.millrace-cp-*' | grep -q ." && echo 0)"
sleep 1
began=$SECONDS
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
is "cp from a silent server: it ends by the signal" 143 "$status"
is "cp from a silent server: soon" yes "$([ $((SECONDS - began)) -lt 8 ] && echo yes)"
is "cp from a silent server: nothing half is left" "" "$(strays local; find local -name stalled)"
exec 7>&-
wait "$S3" || true
echo "1..$count"
exit "$failed"
