#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# Modes, owners and times that users set: seen by a new mount without a cache and by another node, kept by tar and rsync; what comes from
# elsewhere is as open as the mount says.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

is() { [ "$2" = "$3" ] || die "$1: '$3' instead of '$2'"; } # WHAT WANTED GOT
of() { stat -c '%a %u:%g %y' "$1"; }
tree_of() { (cd "$1" && find . -mindepth 1 -printf '%p %m %U:%G %T@\n' | LC_ALL=C sort); }
again() # with nothing that an earlier mount knew
{
    fuse_umount
    rm -rf "$CACHE"
    fuse_mount
}

mkdir -p "$WORK/tree/bin" "$WORK/tree/private"
for i in {1..20}; do echo "$i" >"$WORK/tree/file$i"; done
echo program >"$WORK/tree/bin/program"
: >"$WORK/tree/empty"
echo secret >"$WORK/tree/private/key"
chmod 755 "$WORK/tree/bin/program"
chmod 600 "$WORK/tree/private/key"
chmod 700 "$WORK/tree/private"
chown -R 1234:5678 "$WORK/tree/private"
find "$WORK/tree" -exec touch -d '2001-02-03 04:05:06.789' {} +
tar -C "$WORK" --format=posix -cf "$WORK/tree.tar" tree

fuse_source posix
if ! setfattr -n user.millrace.probe -v 1 "$DATA"; then
    echo "SKIP: the file system of $DATA keeps no extended attributes"
    exit 77
fi

echo "# what comes from elsewhere is as the mount says"
echo text >"$DATA/foreign"
chmod 600 "$DATA/foreign"
chown 4321:4321 "$DATA/foreign"
fuse_mount
is "a foreign file" "644 0:0" "$(stat -c '%a %u:%g' "$MNT/foreign")"

echo "# set, and seen by a new mount"
echo text >"$MNT/file"
mkdir "$MNT/dir"
chmod 640 "$MNT/file"
chown 1000:1001 "$MNT/file"
touch -d '2011-12-13 14:15:16.171819' "$MNT/file"
chmod 1711 "$MNT/dir"
chown 1002 "$MNT/dir"
chmod 755 "$MNT/foreign"
ln -s file "$MNT/link"
touch -h -d '2012-01-01' "$MNT/link"
is "set" "640 1000:1001 2011-12-13 14:15:16.171819000 +0000" "$(of "$MNT/file")"
again
is "a file" "640 1000:1001 2011-12-13 14:15:16.171819000 +0000" "$(of "$MNT/file")"
is "a directory" "1711 1002:0" "$(stat -c '%a %u:%g' "$MNT/dir")"
is "a foreign file's mode alone" "755 0:0" "$(stat -c '%a %u:%g' "$MNT/foreign")"
is "a link's time" "2012-01-01 00:00:00.000000000 +0000" "$(stat -c %y "$MNT/link")"
is "in the directory" "640 1000:1001" "$(stat -c '%a %u:%g' "$DATA/file")"
is "its content" text "$(cat "$MNT/file")"

echo "# no program of a store runs as another user"
chmod 4755 "$MNT/file"
is "in the directory" 755 "$(stat -c %a "$DATA/file")"

echo "# written to, replaced and renamed it keeps them"
echo more >>"$MNT/file"
echo new >"$MNT/new"
mv "$MNT/new" "$MNT/foreign"
mv "$MNT/file" "$MNT/dir/moved"
again
is "written to, and renamed" "755 1000:1001" "$(stat -c '%a %u:%g' "$MNT/dir/moved")"
is "its content" $'text\nmore' "$(cat "$MNT/dir/moved")"
is "another file of that name" new "$(cat "$MNT/foreign")"

echo "# tar -xp and rsync -a"
tar -C "$MNT" -xpf "$WORK/tree.tar" --same-owner
is "the archive's" "$(tree_of "$WORK/tree")" "$(tree_of "$MNT/tree")"
again
is "the archive's" "$(tree_of "$WORK/tree")" "$(tree_of "$MNT/tree")"
if command -v rsync >/dev/null; then
    rsync -aH "$WORK/tree/" "$MNT/copy/"
    again
    is "the copy's" "$(tree_of "$WORK/tree")" "$(tree_of "$MNT/copy")"
    is "nothing is left to copy" "" "$(rsync -aHi "$WORK/tree/" "$MNT/copy/")"
fi

echo "# another node's change arrives"
first=$SUPERVISOR second=$WORK/mnt2
mkdir "$second"
"$FUSE" --mountpoint "$second" --cache-dir "$WORK/cache2" --config "$CONFIG" --http 127.0.0.1:0 --metrics 127.0.0.1:0 >>"$WORK/fuse2.log" 2>&1 &
KEEPER=$!
wait_for "the second mount" mountpoint -q "$second"
is "it sees the first's" "$(tree_of "$MNT/tree")" "$(tree_of "$second/tree")"
chmod 604 "$second/tree/file1"
chown 7:8 "$second/tree/bin"
arrived() { [ "$(stat -c '%a' "$MNT/tree/file1") $(stat -c '%u:%g' "$MNT/tree/bin")" = "604 7:8" ]; }
wait_for "the other node's mode and owner" arrived
is "its content is there" 1 "$(cat "$MNT/tree/file1")"
kill "$KEEPER"
wait "$KEEPER" || true
KEEPER=''
SUPERVISOR=$first
find "$MNT" -mindepth 1 -delete
is "nothing is left" "" "$(find "$DATA" -mindepth 1)"
fuse_umount
