#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 120
# What holds by path: images that nobody changes beside labels that change and checkpoints that are written, each with rules of its own;
# credentials of a whole Secret in the spelling of others, which is rotated.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

fuse_source s3
mkdir -p "$DATA/images" "$DATA/labels" "$DATA/ckpt" "$WORK/secrets/0/secret"
for i in $(seq 0 19); do
    echo "image $i" >"$DATA/images/f$i"
    echo "label $i" >"$DATA/labels/f$i"
done
give_keys() # ID KEY: as Mountpoint for Amazon S3 spells them, and a key that means nothing
{
    rm -f "$WORK/secrets/0/secret"/*
    printf %s "$1" >"$WORK/secrets/0/secret/key_id"
    printf '%s\n' "$2" >"$WORK/secrets/0/secret/access_key"
    echo x >"$WORK/secrets/0/secret/colour"
}
give_keys testaccess testsecret123
jq -n --arg endpoint "http://127.0.0.1:$S3_PORT" '
    def at(path; more): {path: path, mountPoint: ("s3://bucket/prefix" + path), options: {endpoint: $endpoint},
        secretDir: "0/secret", secretDirName: "s3-keys"} + more;
    {mounts: [at("/images"; {readOnly: true, immutable: true}), at("/labels"; {readOnly: true, immutable: false}), at("/ckpt"; {})],
     cache: {tiers: [{medium: "SSD", quota: 2000000000}],
             rules: [{path: "/ckpt", writeType: "Through"}, {path: "/ckpt/kept/", writeType: "CacheThrough"}]}}' >"$CONFIG"

echo "# images stay as they were when they were mounted, labels are looked at again"
fuse_mount --metadata-sync 1s --log-level debug
grep -q 'of Secret s3-keys, these keys mean nothing here: colour' "$WORK/fuse.log" || die "a strange key is not named in the log"
[ "$(cat "$MNT"/images/f* "$MNT"/labels/f* | sort)" = "$(cat "$DATA"/images/f* "$DATA"/labels/f* | sort)" ] || die "wrong content"
[ ! -e "$MNT/images/new" ] || die "a file is there that was not made yet"
for dir in images labels; do
    echo "now it is another" >"$DATA/$dir/.new" && mv "$DATA/$dir/.new" "$DATA/$dir/f0"
    echo "new" >"$DATA/$dir/new"
done
wait_for "the changed label" eval '[ "$(cat "$MNT/labels/f0")" = "now it is another" ]'
wait_for "the new label" eval 'ls "$MNT/labels" | grep -qx new'
sleep 2
[ "$(cat "$MNT/images/f0")" = "image 0" ] || die "an image changed"
[ ! -e "$MNT/images/new" ] || die "an image came"
[ "$(find "$MNT/images" -type f | wc -l)" = 20 ] || die "$(find "$MNT/images" -type f | wc -l) images"

echo "# written files stay in the cache by the rule of their path"
cached() { curl -sf "http://$HTTP/status" | jq .cache.files; }
mkdir "$MNT/ckpt/kept"
before=$(cached)
echo state >"$MNT/ckpt/through"
[ "$(cached)" = "$before" ] || die "a file below /ckpt stays in the cache"
echo state >"$MNT/ckpt/kept/cached"
[ "$(cached)" = $((before + 1)) ] || die "$(cached) files in the cache, there were $before"
echo state >"$MNT/ckpt/tmp"
mv "$MNT/ckpt/tmp" "$MNT/ckpt/kept/late" # it went to the store before
[ "$(cached)" = $((before + 1)) ] || die "a rename brought something into the cache"
exec 7>"$MNT/ckpt/open"
echo state >&7
mv "$MNT/ckpt/open" "$MNT/ckpt/kept/open"
exec 7>&-
wait_for "what was renamed before it was closed" eval '[ "$(cached)" = $((before + 2)) ]'
[ "$(cat "$DATA"/ckpt/through "$DATA"/ckpt/kept/{cached,late,open} | sort -u)" = state ] || die "the store has something else"

echo "# the Secret is rotated"
give_keys testaccess wrong
tries=0
# The keys are read once a second; a close that fails is seen only by who looks, so that echo does not do.
refused() { tries=$((tries + 1)) && ! dd if=/dev/zero of="$MNT/ckpt/refused$tries" bs=1 count=1 conv=fsync 2>/dev/null; }
wait_for "a wrong key to be refused" refused
refused || die "a wrong key is refused, and taken" # the first one may have been written with the old key, and looked at with the new one
[ ! -e "$DATA/ckpt/refused$tries" ] || die "what was refused is in the store"
wait_for "words that name the Secret" grep -q 'AccessDenied.*check the keys in Secret s3-keys' "$WORK/fuse.log"
give_keys testaccess testsecret123
wait_for "the right key to be used" eval 'echo x 2>/dev/null >"$MNT/ckpt/refused"'
[ "$(cat "$DATA/ckpt/refused")" = x ] || die "the store has something else"

echo "# mounted again, the images are those of now"
fuse_umount
fuse_mount --metadata-sync 1s
wait_for "the changed image" eval '[ "$(cat "$MNT/images/f0")" = "now it is another" ]'
wait_for "the new image" eval 'ls "$MNT/images" | grep -qx new'
fuse_umount

echo "# a Secret without keys that fit"
rm "$WORK/secrets/0/secret"/key_id
"$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" --http "$HTTP" --metrics "$METRICS" --secrets-dir "$WORK/secrets" \
    >"$WORK/refused.out" 2>&1 &
SUPERVISOR=$!
wait_for "words that name the keys" grep -q 'Secret s3-keys has keys .*none of them is the secret key: name them access-key-id and' "$WORK/refused.out"
status=0
wait "$SUPERVISOR" || status=$? # it ends by itself, maybe before the words are seen
SUPERVISOR=''
[ "$status" = 1 ] || die "it ended with $status"
grep -q testsecret123 "$WORK/fuse.log" "$WORK/refused.out" && die "a secret is in the log"
exit 0
