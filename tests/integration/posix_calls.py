# SPDX-License-Identifier: Apache-2.0
"""Calls of docs/reference/posix.md that the suites do not make.  posix_calls.py DIRECTORY (on a mount)"""
import ctypes
import errno
import fcntl
import os
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
COLLAPSE, INSERT, UNSHARE = 0x08, 0x20, 0x40
NOREPLACE, EXCHANGE = 1, 2
HOLDS = "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.{}(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"


def fails(call, want):
    try:
        call()
    except OSError as e:
        assert e.errno == want, f"{errno.errorcode[e.errno]}, not {errno.errorcode[want]}"
        return
    raise AssertionError(f"no {errno.errorcode[want]}")


def checked(rc):
    if rc < 0:
        raise OSError(ctypes.get_errno(), "")


def renameat2(old, new, flags):
    checked(libc.renameat2(-100, old.encode(), -100, new.encode(), flags))


def locked(path, kind):
    """Another process has the lock: ours is refused, and is had when that one has ended."""
    holder = subprocess.Popen([sys.executable, "-c", HOLDS.format(kind), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    with open(path, "r+") as f:
        fails(lambda: getattr(fcntl, kind)(f, fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN)
        holder.communicate()
        getattr(fcntl, kind)(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


def main(directory):
    os.chdir(directory)
    for name in ("one", "two"):
        with open(name, "w") as f:
            f.write(name)
    fails(lambda: os.open(".", os.O_TMPFILE | os.O_RDWR), errno.EOPNOTSUPP)
    fails(lambda: renameat2("one", "two", EXCHANGE), errno.EINVAL)
    fails(lambda: renameat2("one", "two", NOREPLACE), errno.EEXIST)
    renameat2("one", "three", NOREPLACE)
    locked("two", "flock")
    locked("two", "lockf")
    with open("two", "r+") as f:
        for mode in (COLLAPSE, INSERT, UNSHARE):
            fails(lambda m=mode: checked(libc.fallocate(f.fileno(), m, ctypes.c_long(0), ctypes.c_long(4096))), errno.EOPNOTSUPP)
        room = os.statvfs(".")
        assert 0 < room.f_bavail == room.f_blocks, room
        much = room.f_bavail * room.f_frsize + (1 << 40)
        fails(lambda: os.posix_fallocate(f.fileno(), 0, much), errno.ENOSPC)
    assert os.path.getsize("two") == 3
    with open("three") as source, open("copy", "w") as target:
        assert os.copy_file_range(source.fileno(), target.fileno(), 100) == 3
    with open("copy") as f:
        assert f.read() == "one"


main(sys.argv[1])
