#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# A mount of the same place as soon as the one before is unmounted. That one's process may still be saving what was written there, for
# as long as its store takes: the new mount waits for it, says so, and has what was saved. One whose cache directory another mount uses
# is told at once.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
again() # OUTPUT FLAG…: mounts in the background, as the command line does; the supervisor's pid is lost
{
    local out=$1
    shift
    timeout 120 "$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" --http "$HTTP" --metrics "$METRICS" --log-format text \
        --daemonize "$@" >"$out" 2>&1
}
is_over() { [ ! -e "/proc/$SUPERVISOR" ] || grep -q '^State:.Z' "/proc/$SUPERVISOR/status"; } # nobody reaps those of the background

fake_start
tell put known 10 >/dev/null
fuse_mount --store-deadline 12s

echo "# keys are in its memory: no core dumps"
grep -Eq '^Max core file size +0 +0 ' "/proc/$(served)/limits" || die "$(cat "/proc/$(served)/limits")"

echo "# another mount's directory"
mkdir "$WORK/other"
begun=$SECONDS
if timeout 60 "$FUSE" --mountpoint "$WORK/other" --cache-dir "$CACHE" --config "$CONFIG" --log-format text >"$WORK/other.out" 2>&1; then
    die "two mounts have one cache directory"
fi
grep -q 'is used by another mount' "$WORK/other.out" || die "$(cat "$WORK/other.out")"
[ $((SECONDS - begun)) -lt 30 ] || die "it took $((SECONDS - begun)) s to say so"

echo "# the same place, while the process before still saves"
tell PUT:hang:100000 >/dev/null
if echo news | dd of="$MNT/file" 2>/dev/null; then die "close() did not tell of the dead store"; fi
umount "$MNT"
old=$SUPERVISOR
is_over && die "nothing was left to be saved"
again "$WORK/again.out" || die "$(cat "$WORK/again.out")"
grep -q 'the mount before this one still saves what was written' "$WORK/again.out" || die "no words: $(cat "$WORK/again.out")"
wait_for "the process before to end, which has let the directory go" is_over
wait "$old" || true
tell clear >/dev/null
[ "$(cat "$MNT/file")" = news ] || die "what was kept is lost"
SUPERVISOR=$(curl -sf "http://$HTTP/status" | jq .pid)
in_store() { [ "$(curl -sf "$(jq -r .options.endpoint <<<"$MOUNT_JSON")/data/file")" = news ]; }
wait_for "the file in the store" in_store
umount "$MNT"
wait_for "the end" is_over
again "$WORK/again.out" || die "$(cat "$WORK/again.out")"
SUPERVISOR=$(curl -sf "http://$HTTP/status" | jq .pid)
[ "$(wc -c <"$MNT/known")" = 10 ]
umount "$MNT"
wait_for "the end" is_over
SUPERVISOR=''
