#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells a Millrace mount in which order files will be read. Needs the mount and nothing else; works where it is read-only.

    hint("/mnt/fuse/train", ["n01/a.jpeg", "n07/b.jpeg", ...])   # once an epoch, before or while it begins
    hint.py /mnt/fuse/train order.txt                            # the same as: millrace hint /mnt/fuse/train order.txt
"""
import fcntl
import os
import struct
import sys

TEXT = 16360
IOCTL = 1 << 30 | (16 + TEXT) << 16 | ord("m") << 8 | 0x48  # HINT_IOCTL of lib/base/ioctl.h


def hint(directory, paths, number=None):
    """Paths are relative to the directory. What is given under the same number is appended to the same list."""
    number = int.from_bytes(os.urandom(8), "little") if number is None else number
    text = b"".join(os.fsencode(path) + b"\n" for path in paths)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for at in range(0, len(text), TEXT):
            piece = text[at:at + TEXT]
            fcntl.ioctl(fd, IOCTL, bytearray(struct.pack("=QII", number, len(piece), 0) + piece.ljust(TEXT, b"\0")))
    finally:
        os.close(fd)
    return number


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8", errors="surrogateescape") as lines:
        hint(sys.argv[1], [line.rstrip("\n") for line in lines])
