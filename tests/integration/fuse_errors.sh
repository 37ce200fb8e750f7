#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 240
# A store that is away, a full disk, wrong credentials, a bad configuration, a machine that crashed: an error in words, nothing lost.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

stop_s3()
{
    kill "$S3_PID"
    wait "$S3_PID" 2>/dev/null || true
    S3_PID=''
}

status() { curl -sf "http://$HTTP/status"; }
readyz() { curl -s -o "$WORK/readyz.out" -w '%{http_code}' "http://$HTTP/readyz"; }
reason_is() { [ "$(status | jq -r .reason)" = "$1" ]; }

echo "# the store is away while a file is written"
fuse_source s3
fuse_mount --store-deadline 5s # what shall succeed must, on a machine that stops for seconds, too
echo before >"$MNT/kept"
ls "$MNT" >/dev/null
cat "$MNT/kept" >/dev/null
stop_s3
if echo "the news" | dd of="$MNT/news" 2>"$WORK/shell.out"; then die "close() did not tell of the dead store"; fi
grep -q 'Input/output error' "$WORK/shell.out" || die "$(cat "$WORK/shell.out")"
getfattr --only-values --absolute-names -n user.millrace.error "$MNT/news" | grep -qi 'connect' || die "no cause in the xattr"
[ "$(cat "$MNT/news")" = "the news" ] # what could not be saved can still be read
[ "$(cat "$MNT/kept")" = before ]     # and what is cached needs no store
wait_for "a pending file" eval '[ "$(status | jq .writes.pendingFiles)" = 1 ]'
kill -9 "$(served)"
wait_for "another process" is_served
[ "$(cat "$MNT/news")" = "the news" ]
s3_start
wait_for "the news in the store" grep -qs "the news" "$DATA/news"
wait_for "nothing pending" eval '[ "$(status | jq .writes.pendingFiles)" = 0 ]'
wait_for "an empty staging directory" eval 'test -z "$(find "$CACHE/stage" -type f)"'

echo "# the machine crashes before a file is saved"
stop_s3
if echo "unsaved" | dd of="$MNT/unsaved" 2>/dev/null; then die "close() did not tell of the dead store"; fi
pid=$(served)
kill -9 "$SUPERVISOR" "$pid"
wait "$SUPERVISOR" 2>/dev/null || true
# Until its end it holds the port that the next one wants.
wait_for "the end of the serving process" eval '! kill -0 "$pid" 2>/dev/null || grep -q "^State:.Z" "/proc/$pid/status"'
unmount_dead
s3_start
fuse_mount --metadata-sync 1s
wait_for "the unsaved file in the store" grep -qs unsaved "$DATA/unsaved"
wait_for "the unsaved file in the mount" grep -qs unsaved "$MNT/unsaved"

echo "# one cache directory, two mounts"
mkdir "$WORK/second"
if "$FUSE" --mountpoint "$WORK/second" --cache-dir "$CACHE" --config "$CONFIG" --secrets-dir "$WORK/secrets" \
    >"$WORK/second.out" 2>&1; then die "two mounts share a cache directory"; fi
grep -q '"reason":"CacheError".*is used by another mount' "$WORK/second.out" || die "$(cat "$WORK/second.out")"
fuse_umount
rm -rf "$CACHE"

echo "# the disk of the cache is full"
mkdir -p "$CACHE"
mount -t tmpfs -o size=16m tmpfs "$CACHE"
fuse_source posix
fuse_config 'cache={"tiers":[{"medium":"MEM","quota":50000000}]}'
head -c 30000000 /dev/urandom >"$DATA/big"
fuse_mount
if head -c 30000000 /dev/zero 2>/dev/null >"$MNT/large"; then die "30 MB fit into 16 MB"; fi
dd if=/dev/zero of="$MNT/large" bs=1M count=30 2>"$WORK/shell.out" || true
grep -q 'No space left on device' "$WORK/shell.out" || die "another error than ENOSPC: $(cat "$WORK/shell.out")"
wait_for "the reason" reason_is CacheDiskFull
[ "$(readyz)" = 200 ] || die "a full disk must not stop the readers"
rm "$MNT/large"
wait_for "room again" eval 'echo small 2>"$WORK/shell.out" >"$MNT/small"' # the kernel tells of the last close after it
[ "$(cat "$DATA/small")" = small ]
reason_is "" || die "the disk is still called full"
fuse_umount
fuse_config 'cache={"tiers":[{"medium":"SSD","quota":50000000}]}'
fuse_mount
cmp "$DATA/big" "$MNT/big" || die "what does not fit into the cache is not read well"
wait_for "the reason" reason_is CacheDiskFull
[ "$(readyz)" = 200 ] || die "a full disk must not stop the readers"
cached() { status | jq .cache.usedBytes; }
[ "$(cached)" -lt 16000000 ] || die "$(cached) bytes in 16 MB"
mount -o remount,size=64m "$CACHE"
# Whoever serves is the same as before. What is read is cached again, a while later; then nobody asks the store for it.
ask_us() { dd if="$MNT/big" iflag=nocache count=0 status=none; } # the kernel keeps no pages of it
read_and_cached() { ask_us && cmp "$DATA/big" "$MNT/big" && [ "$(cached)" -ge 30000000 ]; }
wait_for "what is read to be cached, now that there is room again" read_and_cached
fetched=$(status | jq .reads.storeBytes)
ask_us
cmp "$DATA/big" "$MNT/big" || die "what was cached late is not read well"
[ "$(status | jq .reads.storeBytes)" = "$fetched" ] || die "what is cached is fetched again"
fuse_umount
umount "$CACHE"
rm "$DATA/big"

echo "# wrong credentials, mended without a restart"
fuse_source s3
printf wrongwrongwrong >"$WORK/secrets/0/key"
"$BUILD/bin/fuse_handoff" "$MNT" "$WORK/fuse.sock" >"$WORK/plugin.out" 2>"$WORK/plugin.log" &
KEEPER=$!
wait_for "the handoff's socket" test -S "$WORK/fuse.sock"
"$FUSE" --socket "$WORK/fuse.sock" --cache-dir "$CACHE" --config "$CONFIG" --http "$HTTP" --secrets-dir "$WORK/secrets" \
    --store-deadline 2s >>"$WORK/fuse.log" 2>&1 &
SUPERVISOR=$!
wait_for "the reason" reason_is AccessDenied
[ "$(readyz)" = 503 ]
grep -q '^AccessDenied: s3://bucket/prefix' "$WORK/readyz.out" || die "$(cat "$WORK/readyz.out")"
wait_for "the plugin being told" grep -q '^failed .*AccessDenied' "$WORK/plugin.out"
printf testsecret123 >"$WORK/secrets/0/key"
wait_for "the mended mount" is_served
[ "$(readyz)" = 200 ]
[ "$(cat "$MNT/news")" = "the news" ]
kill "$KEEPER" "$SUPERVISOR"
wait "$SUPERVISOR" || die "the client ended with $?"
SUPERVISOR=''
rm -rf "$CACHE"

echo "# a Secret and certificates that come later, with the server's address in the Secret"
jq -n '{mounts: [{mountPoint: "s3://bucket/prefix", secretDir: "0/later", secretDirName: "s3-keys", caBundle: "0/ca-bundle",
    caBundleName: "corporate-ca:ca.crt"}]}' >"$CONFIG"
"$BUILD/bin/fuse_handoff" "$MNT" "$WORK/fuse.sock" >"$WORK/plugin.out" 2>"$WORK/plugin.log" &
KEEPER=$!
wait_for "the handoff's socket" test -S "$WORK/fuse.sock"
"$FUSE" --socket "$WORK/fuse.sock" --cache-dir "$CACHE" --config "$CONFIG" --http "$HTTP" --secrets-dir "$WORK/secrets" \
    >>"$WORK/fuse.log" 2>&1 &
SUPERVISOR=$!
wait_for "the reason" reason_is SecretMissing
wait_for "the plugin being told" grep -q '^failed .*Secret s3-keys is not there' "$WORK/plugin.out"
mkdir "$WORK/secrets/0/new"
printf testaccess >"$WORK/secrets/0/new/AWS_ACCESS_KEY_ID"
printf testsecret123 >"$WORK/secrets/0/new/AWS_SECRET_ACCESS_KEY"
printf 'http://127.0.0.1:%s' "$S3_PORT" >"$WORK/secrets/0/new/AWS_ENDPOINT_URL"
mv "$WORK/secrets/0/new" "$WORK/secrets/0/later"
wait_for "the next reason" reason_is ConfigMapMissing
wait_for "the plugin being told" grep -q "^failed .*key 'ca.crt' of ConfigMap corporate-ca, which is not there" "$WORK/plugin.out"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -keyout /dev/null -out "$WORK/secrets/0/ca-bundle" \
    2>"$WORK/openssl.log" || die "$(cat "$WORK/openssl.log")"
wait_for "the mount" is_served
[ "$(cat "$MNT/news")" = "the news" ]
kill "$KEEPER" "$SUPERVISOR"
wait "$SUPERVISOR" || die "the client ended with $?"
SUPERVISOR=''
rm -rf "$CACHE"

echo "# a bad configuration: an error here, a patient process in a pod"
echo '{"mounts":[{"mountPoint":"s3//bucket"}]}' >"$CONFIG"
if "$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" --log-format text >"$WORK/bad.out" 2>&1; then die "it was taken"; fi
grep -q 'mounts\[0\].mountPoint: .*no scheme' "$WORK/bad.out" || die "$(cat "$WORK/bad.out")"
"$FUSE" --socket "$WORK/fuse.sock" --cache-dir "$CACHE" --config "$CONFIG" --http "$HTTP" >>"$WORK/fuse.log" 2>&1 &
SUPERVISOR=$!
wait_for "the reason" reason_is InvalidOption
sleep 1
kill -0 "$SUPERVISOR"
kill "$SUPERVISOR"
wait "$SUPERVISOR" || die "the client ended with $?"
SUPERVISOR=''

echo "# no such directory, and a bucket that is not there, on a laptop: at once, in words"
for url in file:///not/there s3://nobucket/x; do
    jq -n --argjson mount "$MOUNT_JSON" --arg url "$url" '{mounts: [if ($url | startswith("s3")) then $mount + {mountPoint: $url}
        else {mountPoint: $url} end]}' >"$CONFIG"
    if timeout 60 "$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" --secrets-dir "$WORK/secrets" --log-format text \
        >"$WORK/absent.out" 2>&1; then die "$url was mounted"; fi
    grep -qE "$url.*NotFound" "$WORK/absent.out" || die "$url: $(cat "$WORK/absent.out")"
done
