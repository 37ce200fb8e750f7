#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 420
# Changes made behind the mount are seen within the metadata sync interval; an open file never mixes two versions; large directories
# are listed while they change; several stores in one tree.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

s3_write() # KEY, content from standard input: by another client than ours
{
    cat >"$WORK/body"
    curl -sSf --aws-sigv4 aws:amz:us-east-1:s3 --user testaccess:testsecret123 -X PUT --data-binary "@$WORK/body" -H 'Expect:' \
        -H "x-amz-content-sha256: $(sha256sum <"$WORK/body" | cut -d ' ' -f 1)" "http://127.0.0.1:$S3_PORT/bucket/prefix/$1"
}

for kind in posix s3; do
    fuse_source $kind
    put() { if [ $kind = s3 ]; then s3_write "$1"; else mkdir -p "$(dirname "$DATA/$1")" && cat >"$DATA/.new" && mv "$DATA/.new" "$DATA/$1"; fi; }
    echo one | put file
    echo sub | put dir/sub
    head -c 9000000 /dev/zero | tr '\0' 'a' | put big
    fuse_mount --metadata-sync 1s
    [ "$(cat "$MNT/file")" = one ]
    [ "$(cat "$MNT/dir/sub")" = sub ]
    exec 7<"$MNT/big"
    head -c 1000000 <&7 >"$WORK/part"
    echo "another one" | put file
    echo new | put dir/new
    head -c 9000000 /dev/zero | tr '\0' 'b' | put big
    wait_for "the changed file" eval '[ "$(cat "$MNT/file")" = "another one" ]'
    wait_for "the new file" eval '[ "$(cat "$MNT/dir/new" 2>/dev/null)" = new ]'
    wait_for "the new version" eval '[ "$(head -c 1 "$MNT/big")" = b ]'
    [ "$(tr -d b <"$MNT/big" | wc -c)" = 0 ] || die "the new version has old bytes"
    cat <&7 >>"$WORK/part" 2>"$WORK/shell.out" || grep -q 'Stale file handle' "$WORK/shell.out" || die "$(cat "$WORK/shell.out")"
    exec 7<&-
    [ "$(tr -d a <"$WORK/part" | wc -c)" = 0 ] || die "an open file mixes two versions"
    rm "$DATA/dir/sub"
    wait_for "the removed file" eval '! test -e "$MNT/dir/sub"'
    [ "$(ls "$MNT/dir")" = new ]
    fuse_umount
    # A mount that ended in good order is known again: an unchanged file is not fetched twice.
    fuse_mount
    [ "$(cat "$MNT/file")" = "another one" ]
    fuse_umount
    # A reader finds out what has changed: nobody waits for the interval then.
    rm -rf "$CACHE"
    echo old | put other
    echo old | put gone
    fuse_mount --metadata-sync 600s
    exec 7<"$MNT/other" 8<"$MNT/gone"
    echo "quite another" | put other
    rm "$DATA/gone"
    ! cat <&7 >/dev/null 2>&1 || die "a replaced file is read to its end"
    ! cat <&8 >/dev/null 2>&1 || die "a removed file is read to its end"
    exec 7<&- 8<&-
    wait_for "the replaced file" eval '[ "$(cat "$MNT/other")" = "quite another" ]'
    wait_for "the removed file being gone" eval '! test -e "$MNT/gone"'
    # A directory that was made here, and in which another node writes, as Spark's committer has it.
    mkdir "$MNT/out"
    [ -z "$(ls "$MNT/out")" ]
    echo theirs | put out/part-0
    [ "$(ls "$MNT/out")" = part-0 ] || die "another's file is not in a directory of ours, at once: $(ls "$MNT/out")"
    echo theirs | put out/part-1
    mv "$MNT/out" "$MNT/renamed"
    [ "$(cat "$MNT/renamed/part-0")" = theirs ]
    [ "$(ls "$MNT/renamed" | tr "\n" " ")" = "part-0 part-1 " ] || die "both files under the new name: $(ls "$MNT/renamed")"
    fuse_umount
    rm -rf "$CACHE"
done

echo "# a large directory, listed while it changes"
fuse_source posix
mkdir "$DATA/large"
(cd "$DATA/large" && seq -f 'stays-%06.0f' 100000 | xargs touch)
fuse_mount
(for i in $(seq 500); do
    echo x >"$MNT/large/comes-$i"
    [ "$i" -lt 5 ] || rm "$MNT/large/comes-$((i - 4))"
done) &
changer=$!
for round in 1 2; do
    find "$MNT/large" -name 'stays-*' | sort >"$WORK/listed"
    [ "$(wc -l <"$WORK/listed")" = 100000 ] || die "round $round: $(wc -l <"$WORK/listed") names"
    [ -z "$(uniq -d "$WORK/listed")" ] || die "round $round: names come twice"
done
wait $changer
[ "$(find "$MNT/large" -name 'comes-*' | wc -l)" = 4 ]
fuse_umount
rm -rf "$CACHE"

echo "# a large directory in pages, listed while others change it in the store"
fake_start
STAYS=10000
seq -f 'put large/n-%06.0f 10' $STAYS >&3 &
[ "$(sed -n "s/^ok$/&/p;${STAYS}q" <&4 | wc -l)" = $STAYS ] || die "not all objects are there"
fuse_config readOnly=true
fuse_mount --metadata-sync 1s
tell GET:slow:1000000 >/dev/null # 50 ms a page
change_store() # until it is told to end: all over the directory names come and go; prints what is left and how many changes there were
{
    local i at before=''
    for ((i = 0; ; i++)); do
        at=$(printf 'large/n-%06d-comes-%d' $((i * 7919 % STAYS + 1)) "$i")
        tell put "$at" 20 >/dev/null
        [ -z "$before" ] || tell del "$before" >/dev/null
        before=$at
        [ ! -e "$WORK/enough" ] || break
    done
    echo "$before $i"
}
change_store >"$WORK/left" &
changer=$!
for round in 1 2 3; do
    [ $round = 1 ] || sleep 1.2 # what is known is old then
    find "$MNT/large" -type f -printf '%f\n' | sort >"$WORK/listed"
    kill -0 $changer || die "round $round: nobody changes the store any more"
    [ -z "$(uniq -d "$WORK/listed")" ] || die "round $round: names come twice: $(uniq -d "$WORK/listed" | head -n 3)"
    grep -c -x 'n-[0-9]*' "$WORK/listed" >"$WORK/stays" || true
    [ "$(cat "$WORK/stays")" = $STAYS ] || die "round $round: $(cat "$WORK/stays") names of $STAYS that never change"
    echo "# round $round: $(grep -c comes "$WORK/listed") names of those that come and go"
done
touch "$WORK/enough"
wait $changer
read -r left changes <"$WORK/left"
echo "# $changes changes, $(tell requests GET) pages"
[ "$changes" -ge 100 ] || die "$changes changes"
[ "$(tell requests GET)" -ge 30 ] || die "$(tell requests GET) pages for three listings"
tell clear >/dev/null
only_left() { [ "$(find "$MNT/large" -name '*comes*' -printf '%f')" = "${left#large/}" ]; }
wait_for "the name that is left, and no other" only_left
fuse_umount
rm -rf "$CACHE"

echo "# a file changes in the store under an open one, and is not cached as a whole"
for profile in sealed open; do
    fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":8000000}]}' immutable="$(immutable_of $profile)"
    tell put one/file 40000000 a >/dev/null
    fuse_mount --metadata-sync 1s
    exec 7<"$MNT/one/file"
    head -c 1000000 <&7 >"$WORK/part"
    tell put one/file 40000000 b >/dev/null
    if cat <&7 >>"$WORK/part" 2>"$WORK/shell.out"; then die "$profile: 40 MB of an old version from a cache of 8 MB"; fi
    grep -q 'Stale file handle' "$WORK/shell.out" || die "$profile: $(cat "$WORK/shell.out")"
    [ "$(tr -d a <"$WORK/part" | wc -c)" = 0 ] || die "$profile: an open file mixes two versions"
    [ "$(stat -c %s "$WORK/part")" -ge 1000000 ] || die "$profile: $(stat -c %s "$WORK/part") bytes of the old version"
    wait_for "$profile: the new version" eval '[ "$(tr -d b <"$MNT/one/file" | wc -c)" = 0 ] && [ "$(head -c 1 "$MNT/one/file")" = b ]' 2>/dev/null
    # Who still has the old one open goes on with it, or is told: he never sees a byte of the new one.
    cat <&7 >>"$WORK/part" 2>"$WORK/shell.out" || grep -q 'Stale file handle' "$WORK/shell.out" || die "$profile: $(cat "$WORK/shell.out")"
    [ "$(tr -d a <"$WORK/part" | wc -c)" = 0 ] || die "$profile: an open file mixes two versions, once the new one is known"
    exec 7<&-
    [ "$(stat -c %s "$MNT/one/file")" = 40000000 ]
    fuse_umount
    rm -rf "$CACHE"
done
kill "$S3_PID"
wait "$S3_PID" || true
S3_PID=''

echo "# several stores in one tree"
fuse_source s3
echo from-s3 | s3_write in/s3
mkdir -p "$WORK/data2/a"
echo from-disk >"$WORK/data2/a/file"
jq -n --argjson s3 "$MOUNT_JSON" --arg disk "file://$WORK/data" --arg disk2 "file://$WORK/data2" '{mounts: [
    $s3 + {path: "/remote/objects"}, {mountPoint: $disk, path: "/"}, {mountPoint: $disk2, path: "/ro", readOnly: true}]}' >"$CONFIG"
fuse_mount --metadata-sync 1s
[ "$(cat "$MNT/remote/objects/in/s3")" = from-s3 ]
[ "$(cat "$MNT/ro/a/file")" = from-disk ]
[ "$(find "$MNT" -maxdepth 1 -mindepth 1 -type d -printf '%f ')" ] || die "no directories"
for name in large remote ro; do test -d "$MNT/$name" || die "no $name"; done
echo x >"$MNT/top"
grep -q x "$WORK/data/top"
echo y >"$MNT/remote/objects/y"
grep -q y "$DATA/y"
if echo z 2>"$WORK/shell.out" >"$MNT/ro/z"; then die "a read-only mount was written to"; fi
grep -q 'Read-only file system' "$WORK/shell.out"
if mkdir "$MNT/remote/x" 2>"$WORK/shell.out" && [ ! -d "$WORK/data/remote/x" ]; then die "a directory outside of every store"; fi
mv "$MNT/top" "$MNT/remote/objects/top" # mv(1) copies from store to store
grep -q x "$DATA/top"
if rmdir "$MNT/ro" 2>/dev/null; then die "a mount was removed"; fi
sleep 1.5
for name in large remote ro; do test -d "$MNT/$name" || die "no $name after a while"; done
fuse_umount
