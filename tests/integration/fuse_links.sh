#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 300
# Symbolic links on directories and buckets: made, read, listed, renamed, removed; by tar and Python's venv; seen by a second mount, and
# in s3fs's spelling; and nobody follows one but the reader's own kernel.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

is() { [ "$2" = "$3" ] || die "$1: '$3' instead of '$2'"; } # WHAT WANTED GOT
links() { (cd "$1" && find . -type l -printf '%p>%l\n' | LC_ALL=C sort | paste -sd ' '); }
mode_of() { getfattr --only-values -n user.metadata "$DATA/$1" 2>/dev/null | jq -r .mode; } # as the server keeps it

mkdir -p "$WORK/tree/bin" "$WORK/tree/lib"
echo program >"$WORK/tree/bin/program"
ln -s program "$WORK/tree/bin/alias"
ln -s ../bin "$WORK/tree/lib/bin"
ln -s /nowhere/at/all "$WORK/tree/lib/lost"
ln -s "$(printf 'x%.0s' {1..200})/$(printf 'y%.0s' {1..200})" "$WORK/tree/long"
tar -C "$WORK" -cf "$WORK/tree.tar" tree
tree=$(links "$WORK/tree")

for kind in posix s3; do
    fuse_source $kind
    rm -rf "$CACHE"
    fuse_mount
    echo "# $kind: made, read, listed"
    echo text >"$MNT/file"
    ln -s file "$MNT/link"
    is "its target" file "$(readlink "$MNT/link")"
    is "what it leads to" text "$(cat "$MNT/link")"
    is "its size and type" "4 symbolic link 777" "$(stat -c '%s %F %a' "$MNT/link")"
    ! ln -s other "$MNT/link" 2>/dev/null || die "a second link of that name"
    ! ln -s other "$MNT/file" 2>/dev/null || die "a link over a file"
    echo more >>"$MNT/link"
    is "written through it" $'text\nmore' "$(cat "$MNT/file")"
    mkdir "$MNT/dir"
    ln -s ../file "$MNT/dir/up"
    is "in a listing" "./dir/up>../file ./link>file" "$(links "$MNT")"

    echo "# $kind: renamed, removed"
    mv "$MNT/link" "$MNT/moved"
    mv "$MNT/dir/up" "$MNT/up"
    mv "$MNT/moved" "$MNT/dir/moved"
    is "renamed" "./dir/moved>file ./up>../file" "$(links "$MNT")"
    ln -s dir "$MNT/todir"
    mv -T "$MNT/dir" "$MNT/dir2"
    is "in a renamed directory" file "$(readlink "$MNT/dir2/moved")"
    ln -sfn dir2 "$MNT/todir"
    is "replaced" dir2 "$(readlink "$MNT/todir")"
    rm "$MNT/up"
    is "removed" "./dir2/moved>file ./todir>dir2" "$(links "$MNT")"
    is "what it led to is there" text "$(head -n 1 "$MNT/file")"

    echo "# $kind: an archive and a virtual environment"
    tar -C "$MNT" -xf "$WORK/tree.tar"
    is "the archive's" "$tree" "$(links "$MNT/tree")"
    python3 -m venv --without-pip "$MNT/venv"
    is "Python in it" "$MNT/venv" "$("$MNT/venv/bin/python3" -c 'import sys; print(sys.prefix)')"

    echo "# $kind: a second mount"
    all=$(links "$MNT")
    fuse_umount
    rm -rf "$CACHE"
    fuse_config readOnly=true
    fuse_mount
    is "by name" ../bin "$(readlink "$MNT/tree/lib/bin")"
    is "all of them" "$all" "$(links "$MNT")"
    is "types of a listing" "$all" "$(cd "$MNT" && python3 -c 'import os
print(" ".join(sorted(f"{r}/{d.name}>{os.readlink(d.path)}" for r, _, _ in os.walk(".") for d in os.scandir(r) if d.is_symlink())))' |
        tr ' ' '\n' | LC_ALL=C sort | paste -sd ' ')"
    fuse_umount
    fuse_config
    fuse_mount
    if [ $kind = s3 ]; then
        is "s3fs's spelling" "41471 ../bin" "$(mode_of tree/lib/bin) $(cat "$DATA/tree/lib/bin")"
        [ -z "$(find "$MNT" -name '.millrace*')" ] || die "a note is shown"
    else
        is "a link in the directory" "$all" "$(links "$DATA")"
        echo "# $kind: nobody follows one for a pod"
        ln -s "$WORK" "$DATA/dir2/out"
        ! mkdir "$MNT/dir2/out/made/it" 2>/dev/null
        is "it is shown as it is" "$WORK" "$(readlink "$MNT/dir2/out")"
    fi
    find "$MNT" -mindepth 1 -delete
    is "nothing is left" "" "$(find "$MNT" "$DATA" -mindepth 1 -not -name .millrace-links)"
    fuse_umount
done
