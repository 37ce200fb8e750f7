#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mount that somebody makes himself is his own: others see it only if they are asked in, and then they read. Its cache is his, too.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@" 2>>"$WORK/nobody.out"; }

fuse_source posix
mkdir "$DATA/dir"
echo text >"$DATA/dir/file"
chmod 711 "$WORK"
chmod -R a+rwX "$DATA"

echo "# nobody else sees it"
fuse_mount
[ "$(stat -c %a "$MNT" "$MNT/dir" "$MNT/dir/file" | paste -sd ' ')" = "755 755 644" ] || die "modes $(stat -c %a "$MNT" "$MNT/dir" "$MNT/dir/file")"
! nobody ls "$MNT" || die "another user lists it"
! nobody cat "$MNT/dir/file" || die "another user reads"
fuse_umount

echo "# whom it is shown to reads and does not write"
fuse_mount --allow-other
[ "$(nobody cat "$MNT/dir/file")" = text ] || die "another user cannot read: $(cat "$WORK/nobody.out")"
! nobody bash -c "echo more >>'$MNT/dir/file'" || die "another user writes a file"
! nobody touch "$MNT/dir/new" || die "another user makes a file"
echo more >>"$MNT/dir/file"
fuse_umount
[ "$(cat "$DATA/dir/file")" = $'text\nmore' ] || die "the owner's write is not in the store"

echo "# without a home there is no place for its cache that is nobody else's"
cp "$FUSE" "$WORK/millrace-fuse"
for home in "" relative; do
    status=0
    env -u XDG_CACHE_HOME HOME="$home" setpriv --reuid 65534 --regid 65534 --clear-groups "$WORK/millrace-fuse" --mountpoint "$MNT" --config "$CONFIG" \
        >"$WORK/homeless.out" 2>&1 || status=$?
    [ "$status" = 2 ] || die "it ends with $status: $(cat "$WORK/homeless.out")"
    grep -q -- 'name a directory with --cache-dir' "$WORK/homeless.out" || die "it says: $(cat "$WORK/homeless.out")"
done
