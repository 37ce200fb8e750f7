#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# AsyncThrough on a real mount: close returns while no store can be reached, and whatever is killed meanwhile, in the end the store has
# what was closed last, under the names that it has then, and nothing else.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
store_away() { kill "$S3_PID" && { wait "$S3_PID" || true; } 2>/dev/null; S3_PID=''; }
waiting() { [ "$(status .writes.pendingFiles)" -gt 0 ]; }
puts() { echo $(($(tell requests PUT) - before)); }
same() # the store has what the writer believes
{
    [ "$(cd "$DATA" && find . -type f -not -path './.sgwtmp*' | sort | xargs -r sha256sum)" = "$(cd "$WORK/model" && find . -type f | sort | xargs -r sha256sum)" ]
}
# What it writes to the mount it does to a local directory, too, once the mount has said that it is done.
write_model() # SEED OPERATIONS KINDS
{
    python3 - "$MNT" "$WORK/model" "$@" <<'EOF'
import os, random, sys
mnt, model, seed, n, kinds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].split(",")
r = random.Random(seed)
os.makedirs(model, exist_ok=True)
for d in ("a", "b"):
    for top in (mnt, model):
        os.makedirs(top + "/" + d, exist_ok=True)

def put(top, name, data, mode):
    with open(top + "/" + name, mode) as f:
        f.write(data)

for i in range(n):
    kind, name = r.choice(kinds), r.choice("ab") + "/f%d" % r.randrange(12)
    data = os.urandom(r.choice((0, 1, 1000, 10000, 300000)))
    if kind == "write":
        for top in (mnt, model):
            put(top, name, data, "wb")
    elif kind == "append":
        for top in (mnt, model):
            put(top, name, data, "ab")
    elif kind == "replace":                                 # as checkpoints are written
        for top in (mnt, model):
            put(top, name + ".tmp", data, "wb")
            os.replace(top + "/" + name + ".tmp", top + "/" + name)
    elif kind == "rename" and os.path.exists(model + "/" + name):
        to = r.choice("ab") + "/f%d" % r.randrange(12)
        for top in (mnt, model):
            os.rename(top + "/" + name, top + "/" + to)
    elif kind == "unlink" and os.path.exists(model + "/" + name):
        for top in (mnt, model):
            os.unlink(top + "/" + name)
    got = {}
    for top in (mnt, model):                                # readers see it at once
        try:
            got[top] = open(top + "/" + name, "rb").read()
        except FileNotFoundError:
            got[top] = None
    assert got[mnt] == got[model], (i, kind, name)
EOF
}

fuse_source s3
fuse_config metadataSync=3600 'cache={"tiers":[{"medium":"SSD","quota":2000000000}],"rules":[{"path":"/","writeType":"AsyncThrough"}]}'
fuse_mount

echo "# the process that serves is killed again and again while it writes and uploads"
write_model 1 80 write,append,replace,rename,unlink &
writer=$!
for _ in 1 2 3; do
    sleep 0.7
    kill -9 "$(served)" 2>/dev/null || true
    wait_for "a successor" is_served
done
wait "$writer" || die "the writer saw an error"
wait_for "the store to have what was written" same
[ "$(status .kept.files)" = 0 ] || die "something is kept aside: $(status .kept)"

echo "# the store is away: nobody waits for it, and nothing fails"
store_away
write_model 2 60 write,append,replace
wait_for "files to wait for a store that is away" waiting
kill -9 "$(served)"
wait_for "a successor" is_served
write_model 3 10 write,append
s3_start
wait_for "the store to have what was written while it was away" same

echo "# all of the client is killed, and another one begins with the same cache"
store_away
write_model 4 40 write,append,replace
child=$(served)
kill -9 "$SUPERVISOR" "$child"
wait "$SUPERVISOR" 2>/dev/null || true
SUPERVISOR=''
unmount_dead
s3_start
fuse_mount
wait_for "the store to have what the dead client acknowledged" same
[ "$(status .kept.files)" = 0 ] || die "something is kept aside: $(status .kept)"

echo "# an unmount takes along what waits"
write_model 5 30 write,append,replace
fuse_umount
same || die "the unmount has left something behind"

echo "# below a path: for a file there is one PUT"
S3_PID_REAL=$S3_PID S3_PID=''
kill "$S3_PID_REAL" && { wait "$S3_PID_REAL" || true; } 2>/dev/null
fake_start
fuse_config 'cache={"tiers":[{"medium":"SSD","quota":2000000000}],"rules":[{"path":"/ckpt","writeType":"AsyncThrough"}]}'
CACHE=$WORK/cache2
fuse_mount
mkdir "$MNT/ckpt"
ls "$MNT/ckpt"
before=$(tell requests PUT)
for i in $(seq 20); do echo "$i" >"$MNT/ckpt/$i"; done
wait_for "20 files" eval '[ "$(puts)" -ge 20 ]'
[ "$(puts)" = 20 ] || die "$(puts) PUTs for 20 files"
echo through >"$MNT/other" # the default elsewhere
[ "$(puts)" -gt 20 ] || die "what is not below /ckpt waits, too"
fuse_umount
echo "ok"
