#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# `millrace doctor` of a machine and of stores that are well, away, wrong, late, or not ours to read.
#   cli_doctor.sh DIRECTORY (with millrace in it)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
PATH=$1:$PATH

s3_start
cd "$WORK"
export HOME=$WORK AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123
unset KUBECONFIG KUBERNETES_SERVICE_HOST
says() # NAME STATUS TEXT COMMAND…: that status, and the text in what it says
{
    local name=$1 expected=$2 text=$3
    shift 3
    # shellcheck disable=SC2154 # run and tap_lib set them
    run "$@"
    is "$name: status" "$expected" "$status"
    # shellcheck disable=SC2154
    has "$name" "$text" "$out"
}
serve() # NAME SCRIPT: a server in Python, which prints its port; leaves that in PORT
{
    python3 -c "$2" >"$WORK/$1.port" 2>"$WORK/$1.log" &
    SERVERS="${SERVERS:-} $!"
    local end=$((SECONDS + 60))
    until PORT=$(grep -s . "$WORK/$1.port"); do
        [ $SECONDS -lt $end ] || { echo "$1 does not start"; exit 1; }
        sleep 0.05
    done
}
# shellcheck disable=SC2086 # words
trap 'kill ${SERVERS:-} 2>/dev/null || true; s3_cleanup' EXIT

echo "# a store that is well"
mkdir -p "$S3_ROOT/data/t" "$S3_ROOT/data/none"
echo one >"$S3_ROOT/data/t/one"
says "reading" 0 "ok      reading: one can be read" millrace doctor s3://data/t
has "its name" "ok      name: that of $S3_ENDPOINT resolves" "$out"
has "the connection" "ok      connection: it answers, in " "$out"
has "the clock" "ok      clock: less than " "$out"
has "where the keys are from" "ok      credentials: the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)" "$out"
has "writing is not tried" "skipped writing: --write tries it" "$out"
is "and nothing is written" "one" "$(ls -A "$S3_ROOT/data/t")"
says "writing" 0 "ok      writing: it can be written to" millrace doctor s3://data/t --write
is "leaves nothing" "one" "$(ls -A "$S3_ROOT/data/t")"
says "check is the same" 0 "ok      reading: one can be read" millrace check s3://data/t
is "as JSON" "0 ok" "$(millrace doctor --json s3://data/t | jq -r '"\(.failed) \(.checks[] | select(.message | startswith("reading")).verdict)"')"
says "a directory" 0 "ok      reading: t/one can be read" millrace doctor "file://$S3_ROOT/data"

echo "# and others"
says "no such bucket" 1 "FAILED  store: s3://nobucket/x: BucketNotFound" millrace doctor s3://nobucket/x
AWS_SECRET_ACCESS_KEY=wrongwrong says "wrong keys" 1 "FAILED  credentials: s3://data: AccessDenied (403 SignatureDoesNotMatch)" millrace doctor s3://data
is "no secret is told" "" "$(grep -e wrongwrong -e testsecret <<<"$out" || true)"
says "a name that does not resolve" 1 "FAILED  name: that of http://no.such.host.invalid does not resolve" \
    millrace doctor s3://data --option endpoint=http://no.such.host.invalid
says "nobody there" 1 "FAILED  connection: " millrace doctor s3://data --option endpoint=http://127.0.0.1:1
says "https where there is no TLS" 1 "FAILED  connection: https://${S3_ENDPOINT#http://} answers, but not with TLS: write http:// instead of https://, or another port" \
    millrace doctor s3://data --option "endpoint=https://${S3_ENDPOINT#http://}"
is "as JSON" 1 "$(millrace doctor --json s3://data --option endpoint=http://127.0.0.1:1 | jq .failed)"
says "an option that is none" 1 "FAILED  URL: s3://data: InvalidOption: unknown option 'colour'" millrace doctor s3://data --option colour=red
says "a directory that is not there" 1 "FAILED  store: file://$WORK/none" millrace doctor "file://$WORK/none"
late='
import email.utils, http.server, time
class Late(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(time.time() + 3600, usegmt=True)
    def do_HEAD(self): self.send_response(403); self.send_header("Content-Length", "0"); self.end_headers()
    do_GET = do_HEAD
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Late)
print(s.server_port, flush=True)
s.serve_forever()'
serve late "$late"
says "another clock" 1 "s before this machine's: signed requests are refused from 15 minutes on" \
    millrace doctor s3://data --option "endpoint=http://127.0.0.1:$PORT"
kept=${late/time.time() + 3600/784111777}
for age in 'self.send_header("Age", "9"); ' ''; do
    serve "kept${age:+-aged}" "${kept/self.send_header/${age}self.send_header}"
    run millrace doctor s3://data --option "endpoint=http://127.0.0.1:$PORT"
    has "a time that a cache has kept${age:+ and says so} is no wrong clock" "skipped clock: the answer is from a cache" "$out"
done
nodes='
import http.server, json
class Node(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self, body=True):
        of = {"type": "DIRECTORY", "length": 0, "modificationTime": 1, "fileId": 1, "pathSuffix": ""}
        said = {"FileStatus": of} if "GETFILESTATUS" in self.path else {}
        if "LISTSTATUS" in self.path:
            said = {"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": []}}, "remainingEntries": 0}}
        text = json.dumps(said).encode() if body else b""
        self.send_response(200); self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text))); self.end_headers(); self.wfile.write(text)
    def do_HEAD(self): self.do_GET(False)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Node)
print(s.server_port, flush=True)
s.serve_forever()'
serve nodes "$nodes"
says "a name node of two is dead" 1 "FAILED  connection: HEAD http://127.0.0.1:1/" \
    millrace doctor hdfs://cluster/a --option "name-nodes=127.0.0.1:1,127.0.0.1:$PORT"
has "and the other one is asked" "ok      listing: 0 entries" "$out"
says "both are well" 0 "ok      listing: 0 entries" millrace doctor hdfs://cluster/a --option "name-nodes=127.0.0.1:$PORT,localhost:$PORT"
is "and each is told" 2 "$(grep -c "ok      connection: it answers" <<<"$out")"
says "both are dead" 1 "FAILED  connection: HEAD http://127.0.0.1:2/" \
    millrace doctor hdfs://cluster/a --option "name-nodes=127.0.0.1:1,127.0.0.1:2"

# A name server that never answers.
serve silent 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 53)); print(53, flush=True); time.sleep(3600)'
echo "nameserver 127.0.0.1" >resolv.conf
says "no name server answers" 1 "FAILED  name: no server that /etc/resolv.conf names says within 5 s where http://store.example is" \
    unshare --mount bash -c 'mount --bind resolv.conf /etc/resolv.conf && exec "$@"' - \
    millrace doctor s3://data --option endpoint=http://store.example

openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
tls='
import http.server, ssl
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain("cert.pem", "key.pem")
s.socket = c.wrap_socket(s.socket, server_side=True)
print(s.server_port, flush=True)
s.serve_forever()'
serve tls "$tls"
says "a certificate that nobody trusts" 1 "FAILED  TLS: https://127.0.0.1:$PORT: TLSFailed" millrace doctor "https://127.0.0.1:$PORT/"
has "and how far it came" "ok      connection: it answers" "$out"
says "one that is trusted" 0 "ok      TLS: the certificate is good" millrace doctor "https://127.0.0.1:$PORT/" --option "ca-cert=$(<cert.pem)"
says "one that is not looked at" 0 "note    TLS: the certificate is not looked at" millrace doctor "https://127.0.0.1:$PORT/" --option tls-verify=false

echo "# this machine"
run millrace doctor
has "kernel" " kernel: $(uname -r) " "$out"
has "limits" " limits: a process may open " "$out"
is "each line has a verdict" "" "$(grep -vE '^(ok     |FAILED |note   |skipped) ' <<<"$out" || true)"
is "no cluster is asked where none is configured" "" "$(grep "API server" <<<"$out" || true)"
is "its status is what the lines say" "$(grep -q ^FAILED <<<"$out" && echo 1 || echo 0)" "$status"
says "a cluster that is asked for" 1 "millrace: " millrace doctor --server http://127.0.0.1:1
printf 'nonsense' >kubeconfig
KUBECONFIG=$WORK/kubeconfig says "one that is configured and away" 1 "FAILED  the API server: " millrace doctor
says "a name" 2 "'dataset' is none" millrace doctor dataset
says "--write of nothing" 2 "--write is for a URL" millrace doctor --write
says "a cluster's flag with a URL" 2 "flags of a cluster are for none" millrace doctor s3://data -n default
# shellcheck disable=SC2154
echo "1..$count"
# shellcheck disable=SC2154
exit "$failed"
