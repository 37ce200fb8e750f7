#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# examples/python as a job uses it, on a real mount: why, status, load, pin, unpin, free, and the order of a sampler and of a list; from
# the wheel, which needs Python alone to be built and pip to be installed where there is one.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
HERE=$(dirname "$(readlink -f "$0")")
PACKAGE=$HERE/../../examples/python
export PYTHONDONTWRITEBYTECODE=1

echo "# what needs no mount"
python3 "$HERE/python_text.py"
[ "$(wc -l <"$PACKAGE/millrace.py")" -le 300 ] || die "the package takes more than 300 lines"

echo "# the wheel: the same bytes twice, all that RECORD says, and importable"
export SOURCE_DATE_EPOCH=1700000000
wheel=$(python3 "$PACKAGE/wheel_backend.py" "$WORK/wheel")
[ "$(python3 "$PACKAGE/wheel_backend.py" "$WORK/again")" = "$wheel" ]
cmp "$WORK/wheel/$wheel" "$WORK/again/$wheel"
if python3 -m pip --version >/dev/null 2>&1; then
    cp -r "$PACKAGE" "$WORK/source" # pip writes beside it
    python3 -m pip install --quiet --no-index --root-user-action ignore --disable-pip-version-check --target "$WORK/site" "$WORK/source"
else
    python3 -m zipfile -e "$WORK/wheel/$wheel" "$WORK/site"
fi
cmp "$PACKAGE/millrace.py" "$WORK/site/millrace.py"
export PYTHONPATH=$WORK/site
python3 - "$WORK/wheel/$wheel" <<'PY'
import base64, csv, hashlib, importlib.metadata, io, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
info = next(name for name in wheel.namelist() if name.endswith("/RECORD"))
record = {row[0]: row[1] for row in csv.reader(io.StringIO(wheel.read(info).decode()))}
assert set(record) == set(wheel.namelist()), record
for name, digest in record.items():
    want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
    assert name == info or digest == want, (name, digest, want)
import millrace
assert importlib.metadata.version("millrace") == millrace.__version__ and millrace.__file__.startswith(sys.path[1]), millrace.__file__
PY

m() { python3 -m millrace "$@"; }
status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
is() { [ "$(status "$1")" = "$2" ]; }
at_least() { [ "$(status "$1")" -ge "$2" ]; }

fake_start
for i in $(seq 0 39); do tell put "train/c$((i % 4))/f$i" $((40000 + i)) >/dev/null; done
for i in 0 1 2; do tell put "val/v$i" 300000 >/dev/null; done
for i in one two; do tell put "late/$i" 50000 >/dev/null; done
tell put large 20000000 >/dev/null # more than a piece
fuse_config readOnly=true
fuse_mount --allow-other

echo "# why and status, of any path on the mount"
for path in "$MNT" "$MNT/train/c0/f0"; do
    m why "$path" >"$WORK/out" || die "no sentence for $path"
    grep -qF "no read has waited here" "$WORK/out" || die "why: $(cat "$WORK/out")"
done
[ "$(m status "$MNT/val" | jq .reads.cacheBytes)" = 0 ] || die "status: $(m status "$MNT")"

echo "# load, pin, unpin, free"
[ "$(m load "$MNT/val" "$MNT/large")" = "load: 4 files, 20900000 bytes" ] || die "load: $(m load "$MNT/val")"
is .reads.storeBytes 20900000 || die "$(status .reads)"
[ "$(m pin "$MNT/val")" = "pin: 3 files, 900000 bytes" ]
is .cache.pinnedFiles 3 || die "$(status .cache)"
[ "$(m free "$MNT/val" "$MNT/large")" = "free: 1 files, 20000000 bytes" ] || die "a pinned file went, or the other one stayed"
[ "$(m unpin "$MNT")" = "unpin: 3 files, 900000 bytes" ]
is .cache.pinnedFiles 0 || die "$(status .cache)"
[ "$(m free "$MNT")" = "free: 3 files, 900000 bytes" ]

echo "# what cannot be done is said"
says() # TEXT COMMAND…: fails, and says it
{
    local text=$1
    shift
    if "$@" >"$WORK/out" 2>&1; then die "this went well: $*"; fi
    grep -qF -- "$text" "$WORK/out" || die "$*: $(cat "$WORK/out")"
}
says "$WORK/config.json: is not on a mount of Millrace" m load "$WORK/config.json"
says "No such file" m pin "$MNT/val/absent"
says "python3 -m millrace" m nonsense
tell GET:denied:1000000 >/dev/null
says "AccessDenied" m load "$MNT/val/v0"
tell clear >/dev/null

echo "# a sampler: its order is brought in ahead of the reader, in an epoch and in the next one"
cat >"$WORK/epochs.py" <<'PY'
import glob, random, sys, time
import millrace

class Sampler:  # as torch's
    def __init__(self, n):
        self.n, self.epoch = n, 0
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __len__(self):
        return self.n
    def __iter__(self):
        return iter(random.Random(self.epoch).sample(range(self.n), self.n))

def until(what, done):
    end = time.time() + 90
    while not done():
        assert time.time() < end, (what, millrace.status(sys.argv[1])["hints"])
        time.sleep(0.05)

mnt = sys.argv[1]
paths = sorted(glob.glob(mnt + "/train/*/*"))
assert len(paths) == 40, paths
sampler = Sampler(len(paths))
hinted = millrace.hint_sampler(sampler, paths)
assert hinted.directory == mnt + "/train", hinted.directory
for epoch in range(2):
    hinted.set_epoch(epoch)
    seen = []
    for index in hinted:
        if not seen:  # nothing is read yet, and all of it is looked after
            until("all of the list", lambda: millrace.status(mnt)["hints"]["done"] == 40 * (epoch + 1))
        with open(paths[index], "rb") as file:
            assert len(file.read()) >= 40000
        seen.append(index)
    assert seen == list(sampler), seen
hints = millrace.status(mnt)["hints"]
assert hints["missing"] == 0 and hints["refused"] == 0 and hints["failed"] == 0, hints
PY
before=$(status .reads.storeBytes)
python3 "$WORK/epochs.py" "$MNT"
[ $(($(status .reads.storeBytes) - before)) = $((40 * 40000 + 780)) ] || die "$(status .reads) after $before"

echo "# as nobody, by a list on standard input, from the mount's own directory"
done=$(status .hints.done)
chmod 711 "$WORK"
(cd "$MNT" && printf 'late/one\nlate/two\nlate/none\n' | setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 -m millrace hint . -) >"$WORK/out" 2>&1 ||
    die "$(cat "$WORK/out")"
[ "$(cat "$WORK/out")" = "3 paths" ] || die "$(cat "$WORK/out")"
wait_for "the files of the list" at_least .hints.done $((done + 3))
is .hints.missing 1 || die "$(status .hints)"
fuse_umount
