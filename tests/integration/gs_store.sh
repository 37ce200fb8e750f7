#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Buckets of Google Cloud Storage by the verbs of `millrace` and on a mount: who asks, by which token, and that it is renewed while files are
# read and written. There is no real Google here: fake-s3 plays the XML API by its documents (tests/fake/fake_gs.c), gs_tokens.py the
# metadata server and the token servers.
#   gs_store.sh DIRECTORY (with millrace, millrace-fuse and fake-s3 in it)
set -euo pipefail
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
here=$(dirname "$(readlink -f "$0")")
PATH=$1:$PATH
if [ ! -e /dev/fuse ] || [ "$(id -u)" != 0 ]; then
    echo "SKIP: needs /dev/fuse and root"
    exit 77
fi
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-gs.XXXXXX")
pids=()
cleanup()
{
    ! mountpoint -q "$WORK/mnt" || umount -l "$WORK/mnt"
    kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$WORK"
}
trap cleanup EXIT
cd "$WORK"
export XDG_CACHE_HOME=$WORK/xdg HOME=$WORK/home
unset http_proxy HTTP_PROXY https_proxy all_proxy ALL_PROXY GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG GCE_METADATA_HOST
mkdir -p home lender mnt

wait_for() # COMMAND…
{
    local end=$((SECONDS + 90))
    until "$@" >"$WORK/wait.out" 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}
tell() { echo "$*" >&7; }
rotate() # TOKEN: from now on it alone is good
{
    echo "$1" >lender/token
    tell "google $1"
}
is_put() { millrace cat "$1" "${open[@]}"; }

mkfifo s3.in
fake-s3 <s3.in >s3.out 2>s3.log &
pids+=($!)
exec 7>s3.in
wait_for grep -q http s3.out
endpoint=$(head -n 1 s3.out)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python3 "$here/gs_tokens.py" "$port" lender 2>lender.log &
pids+=($!)
listens() { (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
wait_for listens
echo 3599 >lender/lifetime
rotate ya29.first
tell "put set/a 10"
tell "put set/sub/b 5"
open=(--option "endpoint=$endpoint" --option tls-verify=false)

run millrace ls gs://data/set "${open[@]}"
has "nobody is told what to do" "no credentials were given: run gcloud auth application-default login" "$out"

export GCE_METADATA_HOST=127.0.0.1:$port
run millrace ls --recursive gs://data/set "${open[@]}"
is "the machine's account lists" "0:a sub/b" "$status:$(sort <<<"$out" | xargs)"
run millrace cat gs://data/set/a "${open[@]}"
is "and reads" "0:abcdefghij" "$status:$out"
run millrace ls gs://data/set --option "endpoint=$endpoint"
has "a token does not go by http:// unless that is asked for" "a token is not sent to http://" "$out"
run millrace doctor gs://data/set "${open[@]}"
has "doctor says as whom" "the service account of this machine" "$out"
unset GCE_METADATA_HOST

openssl genrsa 2048 >private.pem 2>/dev/null
openssl rsa -in private.pem -pubout >lender/public.pem 2>/dev/null
python3 - "http://127.0.0.1:$port/token" <<'END' >key.json
import json, sys
print(json.dumps({"type": "service_account", "client_email": "trainer@p.iam.gserviceaccount.com", "private_key_id": "k1",
                  "private_key": open("private.pem").read(), "token_uri": sys.argv[1]}, indent=2))
END
export GOOGLE_APPLICATION_CREDENTIALS=$WORK/key.json
run millrace cat gs://data/set/sub/b "${open[@]}"
is "the key of a service account signs, as openssl finds" "0:abcde" "$status:$out"
openssl genrsa 2048 2>/dev/null | openssl rsa -pubout >lender/public.pem 2>/dev/null
run millrace cat gs://data/set/sub/b "${open[@]}"
has "one that is not known there does not" "invalid_grant: Invalid JWT Signature." "$out"
is "and its key is nowhere in what is said" "" "$(grep -o 'PRIVATE KEY' <<<"$out" || true)"

echo k8s.to.ken | tee subject >lender/subject
printf '{"type": "external_account", "audience": "//iam.googleapis.com/projects/1/p", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
"token_url": "http://127.0.0.1:%s/v1/token", "credential_source": {"file": "%s/subject"}}' "$port" "$WORK" >external.json
export GOOGLE_APPLICATION_CREDENTIALS=$WORK/external.json
run millrace cat gs://data/set/a "${open[@]}"
is "a cluster's token is exchanged" "0:abcdefghij" "$status:$out"
unset GOOGLE_APPLICATION_CREDENTIALS
mkdir -p home/.config/gcloud
cp external.json home/.config/gcloud/application_default_credentials.json
run millrace cat gs://data/set/a "${open[@]}"
is "the file of gcloud is found" "0:abcdefghij" "$status:$out"
rm -r home/.config

tell google
run millrace cat gs://data/set/a "${open[@]}" --option anonymous=true
is "a public bucket needs nobody" "0:abcdefghij" "$status:$out"
rotate ya29.second

export GCE_METADATA_HOST=127.0.0.1:$port
head -c 3000000 /dev/urandom >large
run millrace cp large gs://data/set/new/large "${open[@]}"
is "a file is written" 0 "$status"
run millrace cp gs://data/set/new/large back "${open[@]}"
is "and comes back" "0:same" "$status:$(cmp -s large back && echo same)"
run millrace mv gs://data/set/new/large gs://data/set/new/moved "${open[@]}"
is "and is renamed" "0:moved" "$status:$(millrace ls gs://data/set/new "${open[@]}")"
run millrace rm gs://data/set/new/moved "${open[@]}"
is "and removed" 0 "$status"
run millrace cat gs://data/set/new/moved "${open[@]}"
has "so that it is gone" "NotFound" "$out"

# Tokens that are good for some seconds only, and another one each time.
echo 6 >lender/lifetime
: >lender/asked
millrace mount gs://data/set mnt "${open[@]}" --cache-dir "$WORK/cache" --metadata-sync 1s >mount.log 2>&1 || { cat mount.log; exit 1; }
is "a mount reads" abcdefghij "$(cat mnt/a)"
wrong=
for i in 1 2 3 4 5 6; do
    echo "number $i" >"mnt/f$i" || wrong+=" write $i"
    tell "put set/other$i $((i * 100000))"
    wait_for test -e "mnt/other$i" || wrong+=" no other$i"
    [ "$(wc -c <"mnt/other$i")" = $((i * 100000)) ] || wrong+=" read $i"
    sleep 1.5
done
is "and writes while tokens come and go" "" "$wrong"
is "which were asked for again" more "$([ "$(grep -c metadata lender/asked)" -ge 2 ] && echo more)"
is "what was written is there" "number 6" "$(wait_for is_put gs://data/set/f6 && cat wait.out)"

# It is taken away in the middle: young ones are not asked for again, older ones are.
echo 3600 >lender/lifetime
again() { ls mnt >/dev/null && [ "$(grep -c metadata lender/asked)" -ge 3 ]; }
wait_for again
sleep 11
rotate ya29.third
tell "put set/late 12"
is "one that is refused is replaced" abcdefghijkl "$(wait_for test -e mnt/late && cat mnt/late)"
echo "after" >mnt/f7
is "for writing, too" after "$(wait_for is_put gs://data/set/f7 && cat wait.out)"
run millrace umount mnt
is "the mount ends" 0 "$status"
echo "1..$count"
exit "$failed"
