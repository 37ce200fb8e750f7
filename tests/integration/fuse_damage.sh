#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# A serving process is killed, and what it leaves of the index is damaged: the next one serves on what is sound under the ids that the kernel
# knows, what was damaged says ESTALE to those who have it and is found anew by its name, and nobody waits.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

fake_start keys
tell synth keys 4 50 1000 >/dev/null
fuse_config readOnly=true
fuse_mount
find "$MNT" -type f -exec cat {} + >/dev/null # all of it is known, and read

cat >"$WORK/holder.py" <<'PY'
import errno, os, sys
mnt = sys.argv[1]
def text(d, f):
    return b"keys/d%04d/f%08dk" % (d, f)
held = {(d, f): os.open("%s/d%04d/f%08d" % (mnt, d, f), os.O_RDONLY) for d in range(4) for f in (7, 8)}
dirs = {d: os.open("%s/d%04d" % (mnt, d), os.O_RDONLY | os.O_DIRECTORY) for d in range(4)}
print(os.fstat(held[0, 7]).st_ino, os.fstat(dirs[1]).st_ino, flush=True)
sys.stdin.readline()
stale = set()
for (d, f), fd in held.items():
    try:
        got = os.pread(fd, 21, 0)
        if got != text(d, f)[:21]:
            sys.exit("%d/%d reads %r" % (d, f, got))
        os.fstat(fd)
    except OSError as e:
        if e.errno not in (errno.ESTALE, errno.EIO):
            raise
        stale.add((d, f))
for d, fd in dirs.items():
    try:
        os.stat("f00000009", dir_fd=fd)
    except OSError as e:
        if e.errno not in (errno.ESTALE, errno.EIO):
            raise
        stale.add(d)
for d, fd in dirs.items(): # nobody knows this name yet
    try:
        os.stat("absent", dir_fd=fd)
        sys.exit("a name that is not there")
    except OSError as e:
        if e.errno != (errno.ESTALE if d == 1 else errno.ENOENT):
            sys.exit("%d: %s" % (d, e))
if not stale <= {(0, 7), 1, (1, 7), (1, 8)}:
    sys.exit("stale: %s" % stale)
for d in range(4): # names are looked up anew
    for f in (7, 8, 9):
        got = open("%s/d%04d/f%08d" % (mnt, d, f), "rb").read(21)
        if got != text(d, f)[:21]:
            sys.exit("%d/%d reads %r" % (d, f, got))
    if len(os.listdir("%s/d%04d" % (mnt, d))) != 50:
        sys.exit("%d names" % len(os.listdir("%s/d%04d" % (mnt, d))))
print("# stale:", stale)
PY
coproc HOLDER { timeout 60 python3 "$WORK/holder.py" "$MNT" 2>&1; }
read -r file_ino dir_ino <&"${HOLDER[0]}"
damage() { head -c 96 /dev/urandom | dd of="$CACHE/index" bs=1 seek=$((1048576 + $1 * 96)) conv=notrunc status=none; } # INODE
victim=$(served)
kill -STOP "$victim"
damage "$file_ino"
damage "$dir_ino"
kill -9 "$victim"
wait_for "another process" is_served
echo >&"${HOLDER[1]}"
pid=$HOLDER_PID
cat <&"${HOLDER[0]}"
wait "$pid" || die "a reader failed"
grep -q "the index was damaged" "$WORK/fuse.log" || die "the damage was not noticed"
[ "$(find "$MNT" -type f | wc -l)" = 200 ]
fuse_umount
fuse_mount # what was mended is used again
[ "$(find "$MNT" -type f | wc -l)" = 200 ]
fuse_umount
