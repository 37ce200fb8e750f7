#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# Names of every byte, long ones, deep paths, empty files, keys that are no file names, objects of 5 TB.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

cat >"$WORK/names.py" <<'END'
import os, sys
root = os.fsencode(sys.argv[2])
names = [bytes([b]) for b in range(1, 256) if b not in b"/."] + [b"x" + bytes([b]) + b"y" for b in range(1, 256) if b != 47]
names += [b"n" * 255, "ü".encode() * 127, b"...", b" ", b"-", b"a b", b"%41", b"+", b"&amp;", b"\xff\xfe\xfd", b"q?a=b#c"]
deep = b"/".join(b"deep-%03d" % i for i in range(int(sys.argv[3])))
if sys.argv[1] == "make":
    for name in names:
        with open(root + b"/" + name, "wb") as f:
            f.write(name * 3)
    open(root + b"/empty", "wb").close()
    os.makedirs(root + b"/" + deep)
    with open(root + b"/" + deep + b"/leaf", "wb") as f:
        f.write(b"leaf")
    for wrong, error in ((b"n" * 256, "ENAMETOOLONG"), (b"no/file", "ENOENT"), (b"empty/x", "ENOTDIR")):
        try:
            open(root + b"/" + wrong, "wb")
            sys.exit("%r was made" % wrong)
        except OSError as e:
            import errno
            assert errno.errorcode[e.errno] == error, (wrong, e)
listed = set(os.listdir(root))
wanted = set(names) | {b"empty", b"deep-000"}
assert listed == wanted, (listed - wanted, wanted - listed)
for name in names:
    with open(root + b"/" + name, "rb") as f:
        assert f.read() == name * 3, name
assert os.stat(root + b"/empty").st_size == 0 and open(root + b"/empty", "rb").read() == b""
assert open(root + b"/" + deep + b"/leaf", "rb").read() == b"leaf"
END

for kind in posix fake; do
    echo "# names on $kind"
    if [ $kind = posix ]; then fuse_source posix; else fake_start names; fi
    depth=$([ $kind = posix ] && echo 300 || echo 100) # a key has at most 1024 bytes
    fuse_mount
    python3 "$WORK/names.py" make "$MNT" "$depth"
    fuse_umount
    rm -rf "$CACHE"
    fuse_mount # who knows nothing finds the same
    python3 "$WORK/names.py" check "$MNT" "$depth"
    fuse_umount
    fuse_mount # and so does who knows it all
    python3 "$WORK/names.py" check "$MNT" "$depth"
    [ $kind = fake ] || find "$MNT" -mindepth 1 -delete
    [ $kind = fake ] || [ -z "$(ls -A "$DATA")" ] || die "left: $(ls -A "$DATA")"
    fuse_umount
    rm -rf "$CACHE"
done

echo "# keys that end in /, that are both file and directory, and that no file can be called"
for key in odd/marker/ odd/both odd/both/x odd/a//b odd/./c odd/../d odd/plain; do tell put "$key" 10 >/dev/null; done
MOUNT_JSON=$(jq '.mountPoint = "s3://data/odd"' <<<"$MOUNT_JSON")
fuse_config
fuse_mount --metadata-sync 1s
[ "$(cd "$MNT" && find . | sort | tr '\n' ' ')" = ". ./a ./both ./both/x ./marker ./plain " ] || die "$(find "$MNT")"
[ -d "$MNT/marker" ] && [ -d "$MNT/both" ] && [ -f "$MNT/both/x" ]
[ "$(cat "$MNT/both/x")" = abcdefghij ]
rmdir "$MNT/marker"
mkdir "$MNT/marker"
[ -d "$MNT/marker" ]
fuse_umount
rm -rf "$CACHE"

echo "# 5 TB"
fuse_source posix
truncate -s 5T "$DATA/huge"
printf 'the end' >>"$DATA/huge"
printf 'in the middle' | dd of="$DATA/huge" bs=1 seek=$((3 << 40)) conv=notrunc status=none
fuse_mount
[ "$(stat -c %s "$MNT/huge")" = $(((5 << 40) + 7)) ]
[ "$(tail -c 7 "$MNT/huge")" = "the end" ]
[ "$(dd if="$MNT/huge" bs=1 skip=$((3 << 40)) count=13 status=none)" = "in the middle" ]
[ "$(du -sm "$CACHE" | cut -f 1)" -lt 100 ] || die "a look at 5 TB took $(du -sh "$CACHE")"
fuse_umount
