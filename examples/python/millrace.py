# SPDX-License-Identifier: Apache-2.0
"""What a program may ask of a Millrace mount: why reads wait, its status, files loaded or pinned on this node, and the order in which it
will read. One file, Python alone; it needs the mount and nothing else, and works where that is read-only.

    millrace.why("/mnt/fuse")                                     # one sentence
    millrace.status("/mnt/fuse")["reads"]["storeBytes"]           # what `millrace stat` shows
    millrace.load("/mnt/fuse/train"); millrace.pin("/mnt/fuse/val")
    millrace.hint("/mnt/fuse/train", names)                       # the order of an epoch

    DataLoader(data, sampler=millrace.hint_sampler(sampler, [path for path, _ in data.samples]))           # torch
    tf.data.Dataset.from_tensor_slices(files).shuffle(n).apply(millrace.hint_names("/mnt/fuse/train"))     # tf.data

    python3 -m millrace why|status|load|pin|unpin|free PATH…  and  hint DIR FILE|-
"""
import concurrent.futures
import errno
import fcntl
import itertools
import json
import os
import struct
import sys
import warnings

__version__ = "0.1.0"
__all__ = ["why", "status", "load", "pin", "unpin", "free", "hint", "hint_sampler", "hint_names"]

# lib/base/ioctl.h
HINT_TEXT = 16360
HINT = struct.Struct("=QII")
HINT_IOCTL = 1 << 30 | (HINT.size + HINT_TEXT) << 16 | ord("m") << 8 | 0x48
PIN_PIECE = 16 << 20
PIN = struct.Struct("=IIQQQQQQII256s")
PIN_IOCTL = 3 << 30 | PIN.size << 16 | ord("m") << 8 | 0x49
ASK, LOAD, SET, CLEAR, FREE = 1, 2, 3, 4, 5
PINNED, STAGED = 1, 2

WORDS = {
    errno.ENOTTY: "is not on a mount of Millrace",
    errno.ENOSPC: "the cache has no room for it, or pins have their half of it: unpin something, or raise the cache's quota",
    errno.EBUSY: "is being written: pin it once it is closed",
}


def _error(number, path):
    text = WORDS.get(number, os.strerror(number))
    if number in (errno.EIO, errno.EACCES):
        try:  # the client's own words, after the time: what the store said
            text = os.getxattr(path, "user.millrace.error").decode().split(" ", 1)[-1]
        except OSError:
            pass
    return OSError(number, text, path)


# --- what the mount says of itself ---------------------------------------------------------------------------------------


def _attribute(path, name):
    """Of the mount that path is on: only its root has it."""
    at = os.path.realpath(path)
    os.stat(at)
    while True:
        try:
            return os.getxattr(at, name).decode()
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP, errno.EACCES):
                raise
        if at == "/":
            raise _error(errno.ENOTTY, os.fspath(path))
        at = os.path.dirname(at)


def why(path="."):
    """Why reads of the mount that path is on are slow, in a sentence."""
    return _attribute(path, "user.millrace.why")


def status(path="."):
    """What `millrace stat` shows of the mount that path is on, as a dictionary."""
    return json.loads(_attribute(path, "user.millrace.status"))


# --- files in this node's cache ------------------------------------------------------------------------------------------


def _raise(error):
    raise error


def _files(paths):
    for path in paths:
        path = os.fspath(path)
        if not os.path.isdir(path):
            os.stat(path)  # or it says that there is none
            yield path
            continue
        for directory, _, _ in os.walk(path, onerror=_raise):
            with os.scandir(directory) as entries:
                yield from (entry.path for entry in entries if entry.is_file(follow_symlinks=False))


def _ask(op, path, tries=3):
    """One file, in pieces. Returns its size, the bytes of it that were (FREE) or are cached, and its state; None if it is gone."""
    directory, name = os.path.split(os.path.abspath(path))  # through its directory: a file that is opened counts as read
    moves, at, fd = op in (LOAD, SET), 0, os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while True:
            message = bytearray(PIN.pack(op, 0, at, PIN_PIECE if moves else (1 << 63) - 1, 0, 0, 0, 0, 0, 0, os.fsencode(name)))
            fcntl.ioctl(fd, PIN_IOCTL, message)
            _, _, _, _, size, cached, _, _, state, _, _ = PIN.unpack(message)
            at += PIN_PIECE
            if state & STAGED and op == SET:
                raise OSError(errno.EBUSY, "")
            if not moves or state & STAGED or at >= size:
                return size, cached, state
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        if error.errno != errno.ESTALE or tries == 1:
            raise _error(error.errno, path) from None
    finally:
        os.close(fd)
    return _ask(op, path, tries - 1)  # it changes meanwhile


def _each(op, paths):
    """The answers for all files, 16 at a time; the first error ends it."""
    asked = set()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        try:
            for path in _files(paths):
                asked.add(pool.submit(_ask, op, path))
                if len(asked) >= 64:
                    done, asked = concurrent.futures.wait(asked, return_when=concurrent.futures.FIRST_COMPLETED)
                    yield from filter(None, (answer.result() for answer in done))
            yield from filter(None, (answer.result() for answer in concurrent.futures.as_completed(asked)))
        finally:
            for answer in asked:
                answer.cancel()


def _sum(answers):
    count, total = 0, 0
    for size, _, _ in answers:
        count, total = count + 1, total + size
    return count, total


def load(*paths):
    """Fetches files, or all files below directories, into this node's cache. Returns how many, and their bytes."""
    result = _sum(_each(LOAD, paths))
    gone = sum(1 for size, cached, state in _each(ASK, paths) if cached < size and not state & STAGED)
    if gone:
        raise OSError(errno.ENOSPC, f"{gone} of these files are not in the cache any more: it has no room for all of them at once; "
                      "pin them, or raise its quota", os.fspath(paths[0]))
    return result


def pin(*paths):
    """Fetches them and keeps them, in at most half of the cache, until they are unpinned or change. Returns as load."""
    return _sum(_each(SET, paths))


def unpin(*paths):
    """They may be evicted again. Returns how many were pinned, and the bytes of these."""
    return _sum(answer for answer in _each(CLEAR, paths) if answer[2] & PINNED)


def free(*paths):
    """Drops what the cache of this node has of them, unless it is pinned or not in the store yet. Returns how many files, and the bytes."""
    return _sum((cached, cached, state) for _, cached, state in _each(FREE, paths) if cached)


# --- the order in which a program will read ------------------------------------------------------------------------------


def _lines(directory, paths):
    """The text of a list: paths relative to the directory, one a line. A path with a newline cannot be told."""
    directory = os.fsencode(os.path.abspath(directory))
    for path in paths:
        path = os.fsencode(path)
        if b"\n" not in path:
            yield (os.path.relpath(path, directory) if path.startswith(b"/") else path) + b"\n"


def _new_number():
    return int.from_bytes(os.urandom(8), "little")


def hint(directory, paths, number=None):
    """Tells the mount in which order these files will be read: they are fetched just ahead of the reader. Paths are absolute or relative to
    the directory. What is given under the number of an earlier call, which it returns, is appended to that list."""
    number = _new_number() if number is None else number
    text = b"".join(_lines(directory, paths))
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for at in range(0, len(text), HINT_TEXT):
            piece = text[at:at + HINT_TEXT]
            fcntl.ioctl(fd, HINT_IOCTL, bytearray(HINT.pack(number, len(piece), 0) + piece.ljust(HINT_TEXT, b"\0")))
    except OSError as error:
        raise _error(error.errno, os.fspath(directory)) from None
    finally:
        os.close(fd)
    return number


def _hint_or_warn(directory, paths, number):
    """Without it a job works as well: on an ordinary directory, say."""
    try:
        hint(directory, paths, number)
    except OSError as error:
        warnings.warn(f"the order of reading is not told: {error}", RuntimeWarning, stacklevel=2)


class hint_sampler:
    """A sampler of torch's DataLoader, or a batch sampler, whose order is told the mount as it is drawn, up to two chunks ahead.
    paths[i] is the file of sample i, absolute, or relative to the directory; without a directory: the one that holds them all."""

    def __init__(self, sampler, paths, directory=None, chunk=4096):
        self.sampler, self.paths, self.chunk = sampler, paths, chunk
        self.directory = os.path.dirname(os.path.commonprefix(paths)) if directory is None else directory

    def __iter__(self):
        drawn, number = iter(self.sampler), _new_number()

        def draw():
            indices = list(itertools.islice(drawn, self.chunk))
            flat = itertools.chain.from_iterable(i if isinstance(i, (list, tuple)) else (i,) for i in indices)
            _hint_or_warn(self.directory, [self.paths[int(i)] for i in flat], number)
            return indices

        now = draw()
        while now:
            following = draw() if len(now) == self.chunk else []
            yield from now
            now = following

    def __len__(self):
        return len(self.sampler)

    def __getattr__(self, name):  # set_epoch, batch_size …
        if name == "sampler":
            raise AttributeError(name)
        return getattr(self.sampler, name)


def hint_names(directory, chunk=2048):
    """For apply() of a tf.data.Dataset of file names, absolute or relative to the directory, after it was shuffled and before it is
    interleaved: they pass as they are, and are told the mount as they are drawn, up to two chunks ahead."""
    def transform(names):
        import tensorflow as tf
        number = _new_number()

        def tell(some):
            _hint_or_warn(directory, some.tolist(), number)
            return some

        def pass_on(some):
            told = tf.numpy_function(tell, [some], tf.string)
            told.set_shape([None])
            return told

        told = names.batch(chunk).map(pass_on).prefetch(1).unbatch()
        count = names.cardinality()
        return told.apply(tf.data.experimental.assert_cardinality(count)) if int(count) >= 0 else told
    return transform


# --- python3 -m millrace -------------------------------------------------------------------------------------------------


def main(argv):
    verb, paths = (argv + [""])[0], argv[1:]
    if verb == "hint" and len(paths) == 2:
        with (open(0, "rb", closefd=False) if paths[1] == "-" else open(paths[1], "rb")) as lines:
            names = [line.rstrip(b"\n") for line in lines]
        hint(paths[0], names)
        print(len(names), "paths")
    elif verb in ("why", "status") and len(paths) == 1:
        print(why(paths[0]) if verb == "why" else json.dumps(status(paths[0]), indent=2))
    elif verb in ("load", "pin", "unpin", "free") and paths:
        count, size = {"load": load, "pin": pin, "unpin": unpin, "free": free}[verb](*paths)
        print(f"{verb}: {count} files, {size} bytes")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as problem:
        sys.exit(f"{problem.filename or sys.argv[-1]}: {problem.strerror or problem}")
