# SPDX-License-Identifier: Apache-2.0
"""Edits the mounts of a dataset while it is read: fuse_edits.sh."""
import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request

MNT, SRC, CONFIG, SUPERVISOR, STATUS, EDITS, SEED = sys.argv[1:]
rnd = random.Random(int(SEED))
PLACES = ["/a/b", "/a/c", "/a", "/d", "/keep2/x", "/"]
SOURCES = ["one", "two", "three"]
PATIENCE = 60  # seconds for one call: no test of speed
stop = threading.Event()
problems = []
written = []  # acknowledged
counts = {"kept": 0, "gone": 0, "answers": 0}
busy = {}  # thread: since when it is in a call, and which


def problem(text):
    problems.append(text)
    stop.set()


def timed(what, fn):
    me = threading.get_ident()
    busy[me] = (time.monotonic(), what)
    try:
        return fn()
    finally:
        busy[me] = (None, what)


def head(source, rel):
    d, f = os.path.split(rel)
    return ("%s %s %s\n" % (source, d or ".", f[1:])).encode()


def read_all(fd):
    """A read that fails after its beginning is short, the next one fails."""
    data = b""
    while True:
        more = os.pread(fd, 1 << 20, len(data))
        if not more:
            return data
        data += more


def keep_reader():
    """Of the mount that stays: nothing may ever fail."""
    rels = [os.path.join(d, "f%d" % i) for d in ("", "deep", "deep/down") for i in range(20)]
    fds = {r: os.open(MNT + "/keep/" + r, os.O_RDONLY) for r in rels[::3]}
    dirfd = os.open(MNT + "/keep/deep", os.O_RDONLY | os.O_DIRECTORY)
    while not stop.is_set():
        rel = rnd.choice(rels)
        try:
            with timed("open " + rel, lambda: open(MNT + "/keep/" + rel, "rb")) as f:
                got = timed("read " + rel, f.read)
            if got != open(SRC + "/keep/" + rel, "rb").read():
                return problem("wrong bytes in keep/" + rel)
            rel = rnd.choice(list(fds))
            if not timed("pread " + rel, lambda: os.pread(fds[rel], 100, 0)).startswith(head("keep", rel)):
                return problem("wrong bytes in what is open, keep/" + rel)
            names = timed("list keep/deep", lambda: sorted(os.listdir(dirfd)))
            if names != sorted(["down"] + ["f%d" % i for i in range(20)]):
                return problem("keep/deep has other names: %s" % names)
            counts["kept"] += 3
        except OSError as e:
            return problem("a mount that stays: %s: %s" % (rel, e))


def other_reader():
    """Of those that come and go: what is opened at a place is of a source that the place had, whole."""
    held = []
    while not stop.is_set():
        place = rnd.choice(PLACES)
        rel = rnd.choice(["", "deep/", "deep/down/"]) + "f%d" % rnd.randrange(20)
        path = MNT + place.rstrip("/") + "/" + rel
        try:
            fd = timed("open " + path, lambda: os.open(path, os.O_RDONLY))
            data = timed("read " + path, lambda: read_all(fd))
            source = data.split(b" ", 1)[0].decode(errors="replace")
            if source not in SOURCES or data != open(SRC + "/" + source + "/" + rel, "rb").read():
                return problem("%s has %d bytes of nobody: %r" % (path, len(data), data[:60]))
            held.append((fd, path, data[:40]))
            counts["answers"] += 1
        except OSError as e:
            if e.errno not in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR):
                return problem("%s: %s" % (path, e))
            counts["gone"] += 1
        if len(held) > 30:
            fd, path, begins = held.pop(rnd.randrange(len(held)))
            try:
                if timed("pread of old " + path, lambda: os.pread(fd, 40, 0)) != begins:
                    return problem("what was opened as %s has other bytes now" % path)
            except OSError as e:
                if e.errno != errno.ESTALE:
                    return problem("what was opened as %s: %s" % (path, e))
            try:
                timed("close " + path, lambda: os.close(fd))
            except OSError:
                pass


def lister():
    while not stop.is_set():
        for top, dirs, files in os.walk(MNT):
            if stop.is_set():
                return


def in_a_directory(place):
    """A working directory that goes away says so, and hangs nobody."""
    while not stop.is_set():
        try:
            fd = timed("open dir " + place, lambda: os.open(MNT + place, os.O_RDONLY | os.O_DIRECTORY))
        except OSError:
            time.sleep(0.05)
            continue
        for _ in range(20):
            try:
                timed("list " + place, lambda: os.listdir(fd))
                timed("stat below " + place, lambda: os.stat("f1", dir_fd=fd))
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR):
                    problem("in the directory %s: %s" % (place, e))
        os.close(fd)


def writer(place):
    """What is acknowledged is in the source that the place had; of the mount that stays nothing fails."""
    n = 0
    while not stop.is_set():
        n += 1
        name = "%s/w%d-%s" % (place, n, place.replace("/", "."))
        try:
            fd = timed("create " + name, lambda: os.open(MNT + name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
            try:
                timed("write " + name, lambda: os.write(fd, name.encode() * 1000))
                time.sleep(rnd.random() * 0.05)
                timed("fsync " + name, lambda: os.fsync(fd))
            finally:
                timed("close " + name, lambda: os.close(fd))
            written.append(name)
        except OSError as e:
            if place == "/keep":
                return problem("a mount that stays: %s: %s" % (name, e))
            if e.errno not in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR, errno.EROFS):
                return problem("%s: %s" % (name, e))


def lost():
    """Acknowledged, and in no source."""
    for name in written:
        base = os.path.basename(name)
        for source in ["keep"] if name.startswith("/keep/") else SOURCES:
            for below in [source] + [source + p for p in ("/b", "/c", "/a", "/a/b", "/a/c", "/d")]:
                try:
                    with open(SRC + "/" + below + "/" + base, "rb") as f:
                        if f.read() == name.encode() * 1000:
                            break
                except OSError:
                    continue
            else:
                continue
            break
        else:
            return name
    return None


def status():
    try:
        return json.load(urllib.request.urlopen(STATUS, timeout=5))
    except (OSError, ValueError):
        return {}


def served():
    found = []
    with open("/proc/%s/task/%s/children" % (SUPERVISOR, SUPERVISOR)) as f:
        for pid in f.read().split():
            try:
                with open("/proc/%s/comm" % pid) as comm:
                    if comm.read() != "millrace-inval\n":
                        found.append(pid)
            except OSError:
                pass  # it has just ended
    return found


def edit():
    conf = json.load(open(CONFIG))
    common = {"immutable": conf["mounts"][0]["immutable"]}
    mounts = [m for m in conf["mounts"] if m["path"] != "/keep"]
    keep = [m for m in conf["mounts"] if m["path"] == "/keep"]
    what = rnd.choice(["add", "add", "remove", "turn", "move", "option", "readOnly", "order"])
    free = [p for p in PLACES if p not in [m["path"] for m in mounts]]
    if what == "add" and free:
        mounts.append({**common, "mountPoint": "file://" + SRC + "/" + rnd.choice(SOURCES), "path": rnd.choice(free)})
    elif mounts:
        m = rnd.choice(mounts)
        if what == "remove":
            mounts.remove(m)
        elif what == "turn":
            m["mountPoint"] = "file://" + SRC + "/" + rnd.choice(SOURCES)
        elif what == "move" and free:
            m["path"] = rnd.choice(free)
        elif what == "readOnly":
            m["readOnly"] = not m.get("readOnly", False)
        elif what == "option":
            m["options"] = {} if m.get("options") else {"can-hang": "false"}
    conf["mounts"] = keep + mounts
    if what == "order":
        rnd.shuffle(conf["mounts"])
    with open(CONFIG + ".new", "w") as f:
        json.dump(conf, f)
    os.rename(CONFIG + ".new", CONFIG)
    return what, {m["path"]: m["mountPoint"].rsplit("/", 1)[1] for m in conf["mounts"]}


def owner(at, path):
    """The source that has a path, and the path there: of the longest place that it is below."""
    best = max((p for p in at if p == "/" or path == p or path.startswith(p + "/")), key=len, default=None)
    return best and (at[best], path[len(best.rstrip("/")):].lstrip("/"))


def look(at):
    """All is where the edit says, and nothing else."""
    for place in PLACES + ["/keep"]:
        for rel in ("f1", "deep/f2", "deep/down/f3", "nothing"):
            path = place.rstrip("/") + "/" + rel
            has = owner(at, path)
            want = None
            if has and os.path.isfile(SRC + "/" + has[0] + "/" + has[1]):
                want = open(SRC + "/" + has[0] + "/" + has[1], "rb").read()
            try:
                with timed("open " + path, lambda: open(MNT + path, "rb")) as f:
                    got = timed("read " + path, f.read)
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.ENOTDIR):
                    return "%s: %s" % (path, e)
                got = None
            if got != want:
                return "%s is %r, not %r" % (path, got and got[:30], want and want[:30])
    tops = {p.split("/")[1] for p in at if p != "/"}
    if "/" in at:
        tops |= set(os.listdir(SRC + "/" + at["/"]))
    names = set(timed("list the root", lambda: os.listdir(MNT)))
    names = {n for n in names if not n.startswith("w")}
    tops = {n for n in tops if not n.startswith(("w", ".millrace-put-"))}  # a put under way has no name yet
    return None if names == tops else "the root has %s, not %s" % (sorted(names), sorted(tops))


def watch():
    while not stop.is_set():
        now = time.monotonic()
        for since, what in list(busy.values()):
            if since and now - since > PATIENCE:
                problem("no end to: " + what)
        time.sleep(1)


writers = [] if json.load(open(CONFIG)).get("readOnly") else [(writer, ("/keep",)), (writer, ("/a/b",)), (writer, ("/d",))]
threads = [threading.Thread(target=f, args=a, daemon=True) for f, a in
           [(keep_reader, ()), (keep_reader, ()), (other_reader, ()), (other_reader, ()), (lister, ()),
            (in_a_directory, ("/a/b",)), (in_a_directory, ("/d/deep",)), (in_a_directory, ("/a",)), (watch, ())] + writers]
for t in threads:
    t.start()
for n in range(int(EDITS)):
    what, at = edit()
    before = served()
    os.kill(int(before[0]), signal.SIGKILL)
    if rnd.random() < 0.4:  # and the next one, in the middle of its start
        time.sleep(rnd.random() * 0.1)
        try:
            again = served()
            if again and again != before:
                os.kill(int(again[0]), signal.SIGKILL)
                before = again
        except (OSError, ProcessLookupError):
            pass
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and not stop.is_set() and not (served() and served() != before and status().get("serving")):
        time.sleep(0.02)
    while True:  # the kernel is told of names a moment later
        wrong = look(at)
        if not wrong or time.monotonic() > until or stop.is_set():
            break
        time.sleep(0.1)
    if wrong:
        problem("edit %d (%s, now %s): %s" % (n, what, at, wrong))
    if stop.is_set():
        break
stop.set()
for t in threads:
    if t not in (threads[2], threads[3]):
        t.join(PATIENCE)
if writers and not problems:
    counts["written"] = len(written)
    gone = lost()
    if gone:
        problem("acknowledged and in no store: " + gone)
print("# %d edits; %s" % (n + 1, counts), file=sys.stderr)
for p in problems[:5]:
    print("PROBLEM: " + p, file=sys.stderr)
sys.stdout.flush()
sys.stderr.flush()
os._exit(1 if problems or not counts["kept"] or not counts["answers"] else 0)
