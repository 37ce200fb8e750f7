#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# The serving process is stopped, so that its readers wait and no signal but SIGKILL does anything: its supervisor sees that it does
# not answer and replaces it, and they read on. The supervisor is stopped: the serving process tells it to go on, so that there is
# somebody who replaces it. Nothing that was written is lost by either.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
state_of() { sed -n 's/^State:[^A-Z]*\(.\).*/\1/p' "/proc/$1/status"; }

fuse_source posix
for i in 1 2 3; do head -c 3000000 /dev/urandom >"$DATA/f$i"; done
fuse_mount --hung-after 4s
cmp "$MNT/f1" "$DATA/f1"
exec 7>"$MNT/written"
echo before >&7

echo "# the serving process is stopped"
pid=$(served)
kill -STOP "$pid"
begun=$SECONDS
timeout 60 cmp "$MNT/f2" "$DATA/f2" || die "a reader of a mount whose process was stopped"
[ $((SECONDS - begun)) -lt 30 ] || die "it took $((SECONDS - begun)) s"
wait_for "it being replaced" eval '[[ $(served) =~ ^[0-9]+$ ]] && [ "$(served)" != "$pid" ]' # it may have answered before it ended
grep -q 'is stopped, or its threads hang.*"silentSeconds":"4"' "$WORK/fuse.log" || die "nothing in the log"
echo after >&7
exec 7>&-
[ "$(cat "$DATA/written")" = $'before\nafter' ] || die "written: $(cat "$DATA/written")"

echo "# its supervisor is stopped"
pid=$(served)
kill -STOP "$SUPERVISOR"
wait_for "the supervisor being stopped" eval '[ "$(state_of $SUPERVISOR)" = T ]'
cmp "$MNT/f1" "$DATA/f1" || die "a mount needs its supervisor to read"
wait_for "the supervisor going on" eval '[ "$(state_of $SUPERVISOR)" = S ]'
grep -q 'the supervisor of this process does not run' "$WORK/fuse.log" || die "nothing in the log"
kill -9 "$pid"
timeout 60 cmp "$MNT/f3" "$DATA/f3" || die "a reader of a mount whose process was killed"

echo "# one that is well is left alone"
pid=$(served)
sleep 8
[ "$(served)" = "$pid" ] || die "it was replaced"
[ "$(grep -c 'its threads hang' "$WORK/fuse.log")" = 1 ]
fuse_umount
