#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw moto
# What options ask of a bucket beside its objects, on two real servers, each of which enforces or shows a part of it: checksums,
# encryption, storage class, the bucket's owner, the bucket in the host's name.  s3_terms.sh PROGRAM (millrace)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
# shellcheck source=tests/integration/moto_lib.sh
. "$(dirname "$(readlink -f "$0")")/moto_lib.sh"
millrace=$1
cd "$WORK"
s3_start --virtual-domain localhost
moto_start
trap 'moto_end; s3_cleanup' EXIT
export AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123

on() # ENDPOINT
{
    export AWS_ENDPOINT_URL=$1
}

look() # KEY FIELD: what another client is told of the object
{
    "${XDG_CACHE_HOME:-$HOME/.cache}/millrace/moto/bin/python" - "$@" <<'END'
import os, sys, boto3
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
print(s3.head_object(Bucket="data", Key=sys.argv[1], ChecksumMode="ENABLED").get(sys.argv[2], "none"))
END
}

sum_of() # FILE: its CRC64NVME by another program
{
    "${XDG_CACHE_HOME:-$HOME/.cache}/millrace/moto/bin/python" - "$1" <<'END'
import base64, sys
crc = (1 << 64) - 1
table = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ 0x9A6C9329AC4BC9B5 if n & 1 else n >> 1
    table.append(n)
for byte in open(sys.argv[1], "rb").read():
    crc = crc >> 8 ^ table[(crc ^ byte) & 255]
print(base64.b64encode((crc ^ (1 << 64) - 1).to_bytes(8, "big")).decode())
END
}

head -c 100000 /dev/urandom >small
head -c 68000000 /dev/urandom >large # in parts
for server in versitygw moto; do
    [ $server = versitygw ] && on "$S3_ENDPOINT" || on "$MOTO_ENDPOINT"
    for sum in CRC32C CRC64NVME; do
        run "$millrace" cp small s3://data/$sum/ --option checksum=$sum
        is "$server: a file goes up with its $sum" "0:" "$status:$out"
        run "$millrace" cp s3://data/$sum/small back --option checksum=$sum
        is "$server: and down" "0: $(sha256sum <small)" "$status:$out $(sha256sum <back)"
        run "$millrace" cp large s3://data/$sum/ --option checksum=$sum
        is "$server: a large one in parts" "0:" "$status:$out"
        run "$millrace" cp s3://data/$sum/large back --option checksum=$sum
        is "$server: and down" "0: $(sha256sum <large)" "$status:$out $(sha256sum <back)"
    done
    is "$server: others are told the same sum" "$(sum_of small)" "$(look CRC64NVME/small ChecksumCRC64NVME)"
    run "$millrace" cp small s3://data/class/ --option storage-class=STANDARD_IA
    is "$server: a storage class" "0:" "$status:$out"
done
is "moto: which is the object's" STANDARD_IA "$(look class/small StorageClass)"

on "$S3_ENDPOINT"
is "versitygw: the sum of parts is of the whole" FULL_OBJECT "$(look CRC32C/large ChecksumType)"
printf '#' | dd of="$S3_ROOT/data/CRC32C/small" bs=1 seek=500 conv=notrunc status=none
run "$millrace" cp s3://data/CRC32C/small back --option checksum=CRC32C
has "versitygw: a file that is damaged where it lies is found out" "it is damaged in the store or on the way" "$out"
run "$millrace" cp s3://data/CRC32C/small back
is "versitygw: without the option it is not" 0 "$status"
run "$millrace" ls s3://data/class --option expected-bucket-owner=testaccess
is "versitygw: the owner that is expected" "0:small" "$status:$out"
run "$millrace" ls s3://data/class --option expected-bucket-owner=other
has "versitygw: another one is refused" "AccessDenied (403 AccessDenied)" "$out"
run "$millrace" cp small s3://data/class/ --option expected-bucket-owner=other
has "versitygw: writing, too" "AccessDenied (403 AccessDenied)" "$out"
on "${S3_ENDPOINT/127.0.0.1/localhost}" # NAME.localhost is this machine, for every bucket
run "$millrace" ls s3://data/class --option path-style=false
is "versitygw: the bucket in the host's name" "0:small" "$status:$out"

on "$MOTO_ENDPOINT"
run "$millrace" cp small s3://data/sse/ --option server-side-encryption=AES256
is "moto: SSE-S3" AES256 "$(look sse/small ServerSideEncryption)"
run "$millrace" cp large s3://data/sse/ --option server-side-encryption=aws:kms --option kms-key-id=arn:aws:kms:us-east-1:1:key/k
is "moto: SSE-KMS, in parts" "aws:kms" "$(look sse/large ServerSideEncryption)"
is "moto: with the key" "arn:aws:kms:us-east-1:1:key/k" "$(look sse/large SSEKMSKeyId)"

# A proxy that notes what it is asked for.
cat >proxy.py <<'END'
import http.server, urllib.request
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open("proxied", "a").write(self.path + "\n")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(self.path, headers=dict(self.headers))) as answer:
            body = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(server.server_port, flush=True)
server.serve_forever()
END
coproc PROXY { exec python3 proxy.py 2>/dev/null; }
read -r port <&"${PROXY[0]}"
export http_proxy=http://127.0.0.1:$port
run "$millrace" ls s3://data/sse
is "a proxy" "0:large small" "$status:$(tr '\n' ' ' <<<"$out" | sed 's/ $//')"
has "which was asked" "$MOTO_ENDPOINT/data?" "$(cat proxied)"
: >proxied
no_proxy=127.0.0.1 run "$millrace" ls s3://data/sse
is "no_proxy: none is asked" "0:" "$status:$(cat proxied)"
kill "$PROXY_PID"

echo "1..$count"
exit "$failed"
