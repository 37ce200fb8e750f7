#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# tsan
# A mount that can be written: the kernel reads large files by itself there, too, and who writes to one of them gets an inode of his own.
# Readers keep the version that they opened, nobody's bytes are lost, and whoever opens the file then sees what was written.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

SIZE=3000000
# Registering files with the kernel needs root on the whole machine; without, all else has to hold just the same.
passes=no
status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }

# Nothing of it is in the page cache of the mount, and nobody is there to answer. Most programs ask for attributes, too; tr does not.
read_by_the_kernel() # FD FILE: what is left to read of FD is what FILE has
{
    [ $passes = yes ] || return 0
    kill -STOP "$(served)"
    timeout 20 tr x x <&"$1" | cmp - "$2" || die "the kernel does not read it by itself"
    kill -CONT "$(served)"
}

content_is() # NAME FILE: for all who ask
{
    cmp "$MNT/$1" "$2" || die "$1: not what was written to it"
    wait_for "$1 in the store" cmp -s "$DATA/$1" "$2"
}

for kind in posix s3; do
    fuse_source $kind
    for i in $(seq 9); do head -c $SIZE /dev/urandom >"$DATA/f$i"; done
    head -c 100000 /dev/urandom >"$DATA/small"
    mkdir "$WORK/was"
    cp "$DATA"/* "$WORK/was"
    fuse_mount
    for i in $(seq 9); do cmp "$MNT/f$i" "$WORK/was/f$i"; done
    cmp "$MNT/small" "$WORK/was/small"
    cached() { [ "$(status .cache.completeFiles)" = 10 ]; }
    wait_for "$kind: all files in the cache" cached
    fuse_umount
    fuse_mount

    echo "# $kind: who reads"
    : <"$MNT/small"
    : <"$MNT/f1"
    is_kept() { [ "$(status .backingFiles)" -gt 0 ]; }
    if [ "$(id -u)" = 0 ]; then
        wait_for "a large file to be passed through" is_kept
        [ "$(status .backingFiles)" = 1 ] || die "a small file that can be written is passed through"
        passes=yes
    fi
    exec 7<"$MNT/f1"
    read_by_the_kernel 7 "$WORK/was/f1"
    exec 7<&-

    echo "# $kind: who could have written"
    exec 8<>"$MNT/f6"
    exec 8<&-
    are_kept() { : <"$MNT/f6" && [ "$(status .backingFiles)" = 2 ]; } # the close of a writer may be told a little later
    [ $passes = no ] || wait_for "a file to be passed through after a writer" are_kept
    exec 7<"$MNT/f6"
    sleep 600 7<&- 8<>"$MNT/f6" & # a process of its own: each that inherits it asks us when it closes it
    holder=$!
    is_held() { [ "$(readlink "/proc/$holder/fd/8")" = "$MNT/f6" ]; }
    wait_for "a writer" is_held
    read_by_the_kernel 7 "$WORK/was/f6"
    kill $holder
    wait $holder || true
    exec 7<&-
    exec 7<"$MNT/f6"
    cmp <(cat <&7) "$WORK/was/f6"
    exec 7<&-
    content_is f6 "$WORK/was/f6"

    echo "# $kind: who writes while others read"
    declare -A how=(
        [f1]='dd of=$FILE bs=1 seek=2000000 conv=notrunc status=none <<<changed'
        [f2]='truncate -s 1000 $FILE'
        [f3]='echo anew >$FILE'
        [f4]='echo "one more line" >>$FILE'
        [f5]='truncate -s 5000000 $FILE'
    )
    for name in f1 f2 f3 f4 f5; do
        exec 7<"$MNT/$name"
        inode=$(stat -c %i "$MNT/$name")
        dd bs=1000000 count=1 iflag=fullblock status=none <&7 >"$WORK/read"
        cp "$WORK/was/$name" "$WORK/opened"
        FILE=$WORK/was/$name eval "${how[$name]}"
        FILE=$MNT/$name eval "${how[$name]}" || die "$name: ${how[$name]}"
        content_is $name "$WORK/was/$name"
        [ $passes = no ] || [ "$(stat -c %i "$MNT/$name")" != "$inode" ] || die "$name: the inode of those who read it by the kernel"
        cat <&7 >>"$WORK/read"
        if [ $passes = yes ]; then # what he has open is not to be written to any more, by no way (docs/reference/limits.md)
            if { : >>/proc/self/fd/7; } 2>"$WORK/anew.out"; then die "$name: what was replaced is opened for writing"; fi
            grep -q 'Stale file handle' "$WORK/anew.out" || die "$name: not ESTALE: $(cat "$WORK/anew.out")"
        fi
        exec 7<&-
        [ $passes = no ] || cmp "$WORK/read" "$WORK/opened" || die "$name: its reader got something else than what he opened"
        content_is $name "$WORK/was/$name"
    done

    echo "# $kind: who reads while others write"
    exec 8<>"$MNT/f6" 7<"$MNT/f6"
    printf 'ABCDE' >&8
    [ "$(head -c 5 <&7)" = ABCDE ] || die "a reader does not see what is written meanwhile"
    [ "$(head -c 5 "$MNT/f6")" = ABCDE ] || die "another reader does not see it"
    exec 7<&- 8<&-
    printf 'ABCDE' | dd of="$WORK/was/f6" conv=notrunc status=none
    content_is f6 "$WORK/was/f6"

    echo "# $kind: who is renamed, replaced and removed while he is read"
    exec 5<"$MNT/f7" 6<"$MNT/f8"
    mv "$MNT/f7" "$MNT/f8"
    content_is f8 "$WORK/was/f7"
    echo more | tee -a "$WORK/was/f7" >>"$MNT/f8"
    content_is f8 "$WORK/was/f7"
    rm "$MNT/f8"
    [ ! -e "$DATA/f8" ]
    read_by_the_kernel 6 "$WORK/was/f8"
    head -c $SIZE "$WORK/was/f7" >"$WORK/read"
    cmp <(cat <&5) "$WORK/read" || die "the reader of a renamed file lost it"
    exec 5<&- 6<&-

    echo "# $kind: the serving process is killed"
    exec 7<"$MNT/f9"
    kill -9 "$(served)"
    printf 'Z' | dd of="$WORK/was/f9" bs=1 seek=1000 conv=notrunc status=none
    head -c $SIZE "$DATA/f9" >"$WORK/read"
    printf 'Z' | dd of="$MNT/f9" bs=1 seek=1000 conv=notrunc status=none
    kill -9 "$(served)" || true
    content_is f9 "$WORK/was/f9"
    cmp <(cat <&7) "$WORK/read" || die "the reader from before the kill got something else"
    exec 7<&-
    wait_for "the next process" is_served
    fuse_umount
    rm -rf "$CACHE" "$WORK/was" "${DATA:?}"/*
done

echo "# many at once: no write is lost"
FILES=100
head -c 1100000 /dev/urandom >"$WORK/plain"
for i in $(seq $FILES); do cp "$WORK/plain" "$DATA/n$i"; done
fuse_mount --metadata-sync 3s
for i in $(seq $FILES); do cat "$MNT/n$i"; done >/dev/null
reader() { while [ ! -e "$WORK/enough" ]; do for i in $(seq $FILES | shuf); do head -c 4096 "$MNT/n$i" >/dev/null || touch "$WORK/failed"; done; done; }
for _ in 1 2 3; do reader & done
readers=$(jobs -p)
for i in $(seq $FILES | shuf); do
    printf '%04d' "$i" | dd of="$MNT/n$i" bs=4 seek=$((i * 100)) conv=notrunc status=none || die "n$i cannot be written"
    [ "$(dd if="$MNT/n$i" bs=4 skip=$((i * 100)) count=1 status=none)" = "$(printf '%04d' "$i")" ] || die "n$i: who wrote it does not see it"
    [ $((i % 40)) != 0 ] || kill -9 "$(served)" || true
done
touch "$WORK/enough"
for pid in $readers; do [ "$pid" = "$SUPERVISOR" ] || [ "$pid" = "$S3_PID" ] || wait "$pid"; done
[ ! -e "$WORK/failed" ] || die "a read failed"
for i in $(seq $FILES); do
    cp "$WORK/plain" "$WORK/read"
    printf '%04d' "$i" | dd of="$WORK/read" bs=4 seek=$((i * 100)) conv=notrunc status=none
    content_is "n$i" "$WORK/read"
done
fuse_umount
