#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# The dataset's mounts are edited while it is used: added, removed, moved, turned to another source, made read-only and writable again,
# in another order; after each edit another process takes the mount over, as another client pod does. Whoever reads a mount that stays
# does not notice; what is gone says ESTALE or ENOENT, and nobody is given bytes of another source. MILLRACE_EDITS: how many (20).
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

for source in keep one two three; do
    mkdir -p "$WORK/src/$source/deep/down"
    for i in $(seq 0 19); do
        for dir in . deep deep/down; do
            { printf '%s %s %s\n' "$source" "$dir" "$i"; head -c $((1000 + i * 20000)) /dev/zero; } >"$WORK/src/$source/$dir/f$i"
        done
    done
done
configure() # READ-ONLY IMMUTABLE
{
    jq -n --arg keep "file://$WORK/src/keep" --arg one "file://$WORK/src/one" --argjson readonly "$1" --argjson immutable "$2" '
        {readOnly: $readonly, mounts: [{mountPoint: $keep, path: "/keep", immutable: $immutable}, {mountPoint: $one, path: "/a/b", immutable: $immutable}],
            cache: {tiers: [{medium: "SSD", quota: 2000000000}]}}' >"$CONFIG"
}
for profile in open sealed; do
    echo "# $profile"
    if [ $profile = sealed ]; then configure true true; else configure false false; fi
    fuse_mount --metadata-sync 600s
    python3 "$(dirname "$(readlink -f "$0")")/fuse_edits.py" "$MNT" "$WORK/src" "$CONFIG" "$SUPERVISOR" "http://$HTTP/status" \
        "${MILLRACE_EDITS:-20}" "${MILLRACE_SEED:-1}" || die "see above"
    is_served || die "it is served no more"
    [ "$(curl -sf "http://$HTTP/status" | jq -r .profile)" = $profile ] || die "not $profile: $(curl -sf "http://$HTTP/status" | jq -c .)"
    fuse_umount
    rm -rf "$CACHE"
done
configure false false

echo "# what was written to a mount that goes is kept, and comes back with it"
fuse_mount --metadata-sync 600s --store-deadline 2s
# One that writes and does not close, as any redirection of the shell would. Each line that it is told, it tries to write.
coproc WRITER { python3 -c '
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
for line in sys.stdin:
    try:
        os.write(fd, line.rstrip("\n").encode())
        print("ok", flush=True)
    except OSError as e:
        print(errno.errorcode[e.errno], flush=True)
os._exit(0)' "$MNT/keep/precious"; }
writes() # TEXT
{
    echo "$1" >&"${WRITER[1]}"
    read -r said <&"${WRITER[0]}"
}
writes 'not saved yet'
[ "$said" = ok ]
[ "$(cat "$MNT/keep/precious")" = 'not saved yet' ]
[ ! -e "$WORK/src/keep/precious" ] || die "it is saved already"
cp "$CONFIG" "$WORK/config.before"
jq --arg other "file://$WORK/src/three" '.mounts = [{mountPoint: $other, path: "/elsewhere"}]' "$WORK/config.before" >"$CONFIG.new"
mv "$CONFIG.new" "$CONFIG"
kill -9 "$(served)"
# shellcheck disable=SC2016
wait_for "another process" eval 'is_served && [ -e "$MNT/elsewhere/f1" ]'
[ "$(curl -sf "http://$HTTP/status" | jq .kept.files)" = 1 ] || die "nothing is kept: $(curl -sf "http://$HTTP/status" | jq -c .kept)"
writes more
[ "$said" = ESTALE ] || die "a write to what is gone: $said"
kill "$WRITER_PID"
[ ! -e "$MNT/keep" ] || die "a mount that is gone is shown"
[ ! -e "$WORK/src/three/precious" ] || die "it went to another store"
cp "$WORK/config.before" "$CONFIG"
kill -9 "$(served)"
# shellcheck disable=SC2016
wait_for "it in the store" eval 'is_served && [ "$(cat "$WORK/src/keep/precious" 2>/dev/null)" = "not saved yet" ]'
fuse_umount
