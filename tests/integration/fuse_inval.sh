#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The serving process is killed while the kernel, told of a changed name, waits for a look-up in that directory which the process has
# taken and the store does not answer: its successor must get the directory's lock free, not wait for it.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
SYNC=4
FILES=1100 # more than a page: a look-up asks for its name alone

have_struck() { [ "$(tell faults hang)" -ge "$1" ]; }
is_waiting() { grep -q fuse_reverse_inval_entry /proc/[0-9]*/wchan 2>/dev/null; }

fake_start
for i in $(seq $FILES); do tell put "d/f$i" 10 >/dev/null; done
fuse_config readOnly=true
fuse_mount --metadata-sync ${SYNC}s
[ "$(find "$MNT/d" -name 'f*' | wc -l)" = $FILES ]
[ "$(stat -c %s "$MNT/d/f5")" = 10 ]
tell put d/f5 20 >/dev/null
sleep $((SYNC + 1))
stat "$MNT/d" >/dev/null # what is above the names is known afresh
tell GET:hang:1 >/dev/null
stat "$MNT/d/none" >"$WORK/none.out" 2>&1 &
absent=$!
wait_for "a look-up that waits" have_struck 1
stat -c %s "$MNT/d/f5" >"$WORK/changed.out" & # may have to wait behind it
changed=$!
wait_for "the kernel being told" is_waiting
pid=$(served)
kill -9 "$pid"
wait_for "another process" eval 'is_served && [ "$(served)" != '"$pid"' ]'
wait "$changed" && [ "$(cat "$WORK/changed.out")" = 20 ] || die "the change was not seen: $(cat "$WORK/changed.out")"
if wait "$absent"; then die "a name that is not there was found"; fi
grep -q 'No such file' "$WORK/none.out" || die "$(cat "$WORK/none.out")"
wait_for "the kernel having been told" eval '! is_waiting'
[ "$(timeout 30 cat "$MNT/d/f5" | wc -c)" = 20 ] || die "other bytes than those of the change"
fuse_umount
