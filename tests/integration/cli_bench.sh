#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# `millrace bench`: what it reads and says of a bucket and a directory; with --write, and after Ctrl-C, nothing of its own is left.
#   cli_bench.sh DIRECTORY (with millrace, millrace-fuse and fake-s3 in it)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/cli_lib.sh
. "$(dirname "$(readlink -f "$0")")/cli_lib.sh"
s3_start
export AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123 XDG_CACHE_HOME=$WORK/xdg
export TMPDIR=$WORK/tmp
cd "$WORK"
mkdir tmp posix
left() { ls -A tmp; grep -c "$WORK/tmp" /proc/self/mountinfo || true; } # of its mounts
rows() { jq -r '.results[] | "\(.op) \(.what) \(.how) \(.cache) \(.parallel) \(.files) \(.bytes) \(.seconds > 0 and .bytes / .seconds == .bytesPerSecond)"'; }
filled() # DIRECTORY: a file of 5 MB, one of 3 MB, twenty small ones and an empty one
{
    local i
    mkdir -p "$1/deep"
    head -c 3000000 /dev/urandom >"$1/other"
    head -c 5000000 /dev/urandom >"$1/deep/large"
    : >"$1/empty"
    for i in {01..20}; do head -c 1000 /dev/urandom >"$1/deep/small$i"; done
}
reads() # NAME URL DIRECTORY
{
    local before
    before=$(find "$3" -type f -printf '%P %s %T@\n' | sort)
    is "$1: reads the largest file and small ones, raw, cold and warm" "read large raw null 16 null 5000000 true
read small raw null 16 20 20000 true
read large mounted cold 1 null 5000000 true
read small mounted cold 16 20 20000 true
read large mounted warm 1 null 5000000 true
read small mounted warm 16 20 20000 true" "$(millrace bench --json "$2" | tee "$WORK/json" | rows)"
    is "$1: and says which" "$2 deep/large 5000000 20" "$(jq -r '"\(.url) \(.largeFile.name) \(.largeFile.size) \(.smallFiles)"' "$WORK/json")"
    is "$1: as much as is asked for" "read large raw null 2 null 2097152 true
read small raw null 2 3 3000 true" "$(millrace bench --mounted=false --size 2MiB --files 3 --parallel 2 --json "$2" | rows)"
    is "$1: one file" "read large raw null 16 null 3000000 true
read large mounted cold 1 null 3000000 true
read large mounted warm 1 null 3000000 true" "$(millrace bench --json "$2/other" | rows)"
    is "$1: one small file" "read small raw null 16 1 1000 true" "$(millrace bench --json --mounted=false "$2/deep/small07" | rows)"
    says "$1: in words" 0 "large file:   deep/large, 4.77MiB" millrace bench "$2"
    has "$1: how many of what" "small files:  20" "$out"
    is "$1: bytes and seconds beside each speed" 6 "$(grep -cE '^read (large|small), (raw|mounted, (cold|warm)) +(-|20) +(4.77MiB|19.53KiB) +[0-9]+\.[0-9]{3} +[0-9.]+[KMG]?i?B/s ' <<<"$out")"
    says "$1: no large file" 0 "large file:   there is none of more than 1.00MiB" millrace bench --mounted=false "$2/deep/small01"
    says "$1: only empty ones" 1 "$2/empty: there is nothing to read, as all files there are empty: name another directory, or --write DIR" millrace bench "$2/empty"
    says "$1: what is not there" 1 "$2/nope: NotFound" millrace bench "$2/nope"
    is "$1: the store is as it was" "$before" "$(find "$3" -type f -printf '%P %s %T@\n' | sort)"

    is "$1: --write measures writing, too, with files of its own" "write large raw null 1 1 3000000 true
write small raw null 16 4 262144 true
read large raw null 16 null 3000000 true
read small raw null 16 4 262144 true
read large mounted cold 1 null 3000000 true
read small mounted cold 16 4 262144 true
read large mounted warm 1 null 3000000 true
read small mounted warm 16 4 262144 true
write large mounted null 1 1 3000000 true
write small mounted null 16 4 262144 true" "$(millrace bench --json --size 3000000 --files 4 --write own "$2" | rows)"
    is "$1: and removes them" "$before" "$(find "$3" -type f -printf '%P %s %T@\n' | sort)"
    is "$1: with their directory" "deep empty other" "$(millrace ls "$2" | tr -d / | sort | xargs)"
    says "$1: --write of what is there" 1 "--write deep: it is there already, and would be removed at the end: name a directory that is not there" millrace bench --write deep "$2"
    says "$1: --write that leads out" 1 "--write ../x: write a directory below the URL" millrace bench --write ../x "$2"
    is "$1: all is there still" "$before" "$(find "$3" -type f -printf '%P %s %T@\n' | sort)"
    is "$1: no mount and no cache is left" "0" "$(left)"
}
filled "$S3_ROOT/data/there"
filled posix/there
reads "bucket" s3://data/there "$S3_ROOT/data/there"
reads "directory" "file://$WORK/posix/there" posix/there
mkdir none
says "an empty directory" 1 "file://$WORK/none: there is nothing to read: name another" millrace bench "file://$WORK/none"
says "a bucket that is not there" 1 "BucketNotFound" millrace bench s3://nobucket
says "a path" 1 "posix is not a URL" millrace bench posix
says "a cache where nothing can be" 1 "make $WORK/nowhere/millrace-bench-" millrace bench --cache-dir "$WORK/nowhere" "file://$WORK/posix/there"
has "what was measured by then is told" "read large, raw" "$out"
chmod 700 none && mkdir none/bin && cp "$1/millrace" none/bin/ && cp none/bin/millrace none/bin/millrace-fuse
says "a client that does not start" 1 "could not be mounted: its client says why above" none/bin/millrace bench "file://$WORK/posix/there"
is "nothing is left" 0 "$(left)"
for bad in "--size 1MiB:--size: it is 2MiB at least" "--files 0:--files: it is a number from 1 to" "--parallel 65:--parallel: it is a number from 1 to 64" \
    "--limit 10ms:--limit: it is 1s at least" "--write=:--write: name a directory below the URL"; do
    # shellcheck disable=SC2086
    says "${bad%%:*}" 2 "${bad#*:}" millrace bench ${bad%%:*} "file://$WORK/posix/there"
done

# A file that comes fast once, and slowly from then on: also to raw reads where "slow" is there.
slow='
import http.server, os, re, threading, time
SIZE, sent, lock = 24 << 20, 0, threading.Lock()
class Slow(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self, body=True):
        global sent
        if self.path.endswith("/"):
            text = b"<a href=\"f\">f</a>\n"
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
            with lock:
                sent += n
                wait = sent > SIZE + (4 << 20) or os.path.exists("slow")
            if wait: time.sleep(1)
            self.wfile.write(bytes(n)); first += n
    def do_HEAD(self): self.do_GET(False)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
print(s.server_port, flush=True)
s.serve_forever()'
python3 -c "$slow" >port 2>server.log &
server=$!
wait_for grep -q . port
URL=http://127.0.0.1:$(<port)/files/
ends() # NAME SIGNAL STATUS PID
{
    kill "-$2" "$4"
    status=0
    wait "$4" || status=$?
    is "$1: it ends by the signal" "$3" "$status"
    is "$1: no mount and no cache is left" 0 "$(left)"
}
mounted() { grep -q " $WORK/tmp/millrace-bench-.*/mnt " /proc/self/mountinfo; }
millrace bench "$URL" >"$WORK/said" 2>&1 &
pid=$!
is "Ctrl-C while it is mounted: it is" 0 "$(wait_for mounted; echo $?)"
ends "Ctrl-C while it is mounted" TERM 143 "$pid"
has "and what was measured by then is told" "read large, raw                 -    24.00MiB" "$(<"$WORK/said")"
: >slow
script -qec "millrace bench --mounted=false --parallel 2 --limit 2s $URL" /dev/null >"$WORK/said" </dev/null
has "a terminal shows how far it is" "large, raw: read 0 files, " "$(<"$WORK/said")"
is "the limit ends a measurement" yes "$(grep -qE 'read large, raw +- +16.00MiB' "$WORK/said" && echo yes)"
kill "$server"
wait "$server" 2>/dev/null || true

# Ctrl-C while it writes.
mkfifo s3.in
fake-s3 <s3.in >s3.out 2>s3.log &
S3=$!
exec 7>s3.in
wait_for grep -q http s3.out
s3=(--option "endpoint=$(head -n 1 s3.out)" --option anonymous=true)
echo "PUT:slow:1000" >&7
written() { [ "$(millrace ls -r s3://data/own "${s3[@]}" | wc -l)" -ge 3 ]; }
millrace bench s3://data --write own --size 2MiB --files 500 --parallel 1 "${s3[@]}" >"$WORK/said" 2>&1 &
pid=$!
is "Ctrl-C while it writes: it does" 0 "$(wait_for written; echo $?)"
echo clear >&7
ends "Ctrl-C while it writes" TERM 143 "$pid"
says "nothing of its own is left" 1 "NotFound" millrace ls s3://data/own "${s3[@]}"
exec 7>&-
wait "$S3" || true
echo "1..$count"
exit "$failed"
