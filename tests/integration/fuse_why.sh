#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# user.millrace.why of a mount's root, as a person reads it in a pod who has Python and none of our programs: nothing was read, reads
# wait for the store, the store fails, and all is well. `millrace why PATH` says the same.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

attribute() # PATH NAME
{
    python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], sys.argv[2]).decode())' "$1" "user.millrace.$2"
}

why()
{
    attribute "$MNT" why
}

says() # TEXT
{
    local said
    said=$(why)
    grep -qF -- "$1" <<<"$said"
}

must_say() # TEXT
{
    says "$1" || die "it says '$(why)', not '$1'"
}

fake_start
for i in $(seq 60); do tell put "d$i/f" 300000 >/dev/null; done # a directory each: nothing fetches them ahead
fuse_mount --store-deadline 5s
must_say "no read has waited here in the last"

echo "# reads wait for the store"
tell GET:slow:1000000 >/dev/null # 50 ms each
for i in $(seq 50); do cat "$MNT/d$i/f" >/dev/null; done
must_say " waited " # yours, or of this mount where there are no control groups
must_say "for the store: this data is read for the first time here; preload it"
why

echo "# the program says the same, and of any path on the mount"
"$BUILD/bin/millrace" why "$MNT/d1/f" | grep -F "for the store" || die "millrace why PATH: $("$BUILD/bin/millrace" why "$MNT/d1/f")"
"$BUILD/bin/millrace" why "$WORK" >"$WORK/out" 2>&1 && die "a path on no mount of ours is explained"
grep -F "is not on a mount of millrace" "$WORK/out"

echo "# it is not listed, and files have none"
[ "$(python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' "$MNT")" = "[]" ] || die "it is listed"
python3 -c 'import os, sys; os.getxattr(sys.argv[1], "user.millrace.why")' "$MNT/d1/f" 2>"$WORK/out" && die "a file has it"
grep -F "No data available" "$WORK/out"

echo "# the store refuses"
tell clear >/dev/null
stat "$MNT/d60/f" >/dev/null # its name is known; its content is not
tell GET:denied:1000000 >/dev/null
if cat "$MNT/d60/f" >/dev/null 2>&1; then die "a refused read succeeds"; fi
must_say "a file failed"
must_say "AccessDenied"
why
attribute "$MNT/d60/f" error | grep -F "AccessDenied" || die "the file does not say why: $(attribute "$MNT/d60/f" error)"
[ "$(attribute "$MNT" status | jq .stalls[0].reads)" -ge 50 ] || die "$(attribute "$MNT" status)"
fuse_umount

echo "# readers that the kernel does not name, as the pods of a node with csi.callers=false: their waits are all one"
# The leak checker wants a /proc of its namespace.
printf '#!/bin/sh\nASAN_OPTIONS=detect_leaks=0 exec unshare --pid --fork --kill-child -- "%s" "$@"\n' "$FUSE" >"$WORK/elsewhere"
chmod +x "$WORK/elsewhere"
FUSE=$WORK/elsewhere CACHE=$WORK/cache-2
tell clear >/dev/null
tell GET:slow:1000000 >/dev/null
fuse_mount --store-deadline 5s
for i in $(seq 50); do cat "$MNT/d$i/f" >/dev/null; done
must_say "reads of this mount waited"
must_say "for the store: this data is read for the first time here"
why
fuse_umount
