#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw posix
# pjdfstest, another's suite of what POSIX asks of a file system, on a directory and on S3. What does not pass is in
# posix_pjdfstest.txt with its reason, and nothing else is: a case of the list that passes is to be taken out of it.
#   posix_pjdfstest.sh [PATTERN]   with a pattern: only those cases, with what they say, and no list
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/integration/fuse_lib.sh
. "$here/fuse_lib.sh"
PJDFSTEST=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/posix/bin/pjdfstest

# The suite becomes these users for some cases; the namespace is ours.
chmod 755 "$WORK"
for table in passwd group; do cp "/etc/$table" "$WORK"; done
echo 'pjdfstest:x:3001:3001::/:/bin/false' >>"$WORK/passwd"
echo 'pjdfstest:x:3001:' >>"$WORK/group"
for table in passwd group; do mount --bind "$WORK/$table" "/etc/$table"; done
cat >"$WORK/pjdfstest.toml" <<'T'
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [["nobody", "nogroup"], ["pjdfstest", "pjdfstest"]]
T

suite() # [PATTERN]: its output; status 1 is that of a case that fails
{
    "$PJDFSTEST" --configuration-file "$WORK/pjdfstest.toml" --path "$MNT/suite" "$@" 2>"$WORK/suite.err" || [ $? = 1 ]
}

# Lines of the list are cases that fail on every store, or "s3? CASE": on S3 that one may fail.
listed() # STORE MUST|MAY
{
    if [ "$2" = MUST ]; then sed -n '/^[a-z_]*::/p' "$here/posix_pjdfstest.txt"; else sed -n "s/^$1? //p" "$here/posix_pjdfstest.txt"; fi | sort
}

status=0
for kind in posix s3; do
    fuse_source $kind
    rm -rf "$CACHE"
    fuse_mount
    mkdir "$MNT/suite"
    if [ $# -gt 0 ]; then
        suite "$@"
    else
        suite >"$WORK/out"
        tail -n 400 "$WORK/out" | grep -a '^Summary: ' || die "the suite has not ended: $(tail -n 5 "$WORK/out")"
        sed -En 's/^([a-z_0-9]+(::[a-z_0-9]+)+) +FAILED$/\1/p' "$WORK/out" | sort >"$WORK/failed"
        listed $kind MUST >"$WORK/must"
        listed $kind MAY | sort - "$WORK/must" >"$WORK/may"
        comm -23 "$WORK/failed" "$WORK/may" | sed "s/^/$kind: fails, and is not listed: /" | tee "$WORK/bad"
        comm -13 "$WORK/failed" "$WORK/must" | sed "s/^/$kind: passes, and is listed as one that fails: /" | tee -a "$WORK/bad"
        [ ! -s "$WORK/bad" ] || status=1
    fi
    fuse_umount
done
for table in passwd group; do umount "/etc/$table"; done
exit $status
