#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw tensorflow
# What the examples' Python modules do where no cluster is needed: tfos without TensorFlow, how little a program of TensorFlowOnSpark is changed,
# how many files imagenet has on their way, and the real tf.data telling a real mount its order. The examples themselves run in pods: tests/programs.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
HERE=$(dirname "$(readlink -f "$0")")
EXAMPLES=$(readlink -f "$HERE/../../examples")
SITE=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/trainer/site
if [ ! -d "$SITE/tensorflow" ]; then
    echo "SKIP: no TensorFlow; hack/setup tensorflow installs it"
    exit 77
fi
mkdir "$WORK/bin"
ln -s /usr/bin/python3 "$WORK/bin/python3" # TensorFlow is Debian's Python's
export PATH=$WORK/bin:$PATH PYTHONPATH=$SITE PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=2
export TF_NUM_INTEROP_THREADS=2 TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1

say() { printf '%(%H:%M:%S)T # %s\n' -1 "$*"; }

say "what needs no TensorFlow"
python3 "$HERE/tfos_text.py"
[ "$(wc -l <"$EXAMPLES/tfos/tfos.py")" -le 250 ] || die "the module takes more than 250 lines"
# A program of TensorFlowOnSpark takes no changed line with -m tfos, and one with `import tfos`.
grep -q '^    from tensorflowonspark import TFCluster$' "$EXAMPLES/tfos/digits.py"
sed '1i import tfos' "$EXAMPLES/tfos/digits.py" >"$WORK/changed.py"
[ "$(diff "$EXAMPLES/tfos/digits.py" "$WORK/changed.py" | grep -c '^[<>]')" -le 2 ] || die "more than two changed lines"

say "examples/imagenet reads as many files at a time as it says, with two processors"
mkdir -p "$WORK/files/a"
touch "$WORK/files/a/"{0..19}.jpg
PYTHONPATH=$SITE:$EXAMPLES/imagenet python3 - "$WORK/files" <<'PY'
import sys, threading
import tensorflow as tf
import train
together = threading.Barrier(10)

def read(path):
    together.wait(60)  # each waits for nine others
    return path

tf.io.read_file = tf.autograph.experimental.do_not_convert(lambda path: tf.numpy_function(read, [path], tf.string))
sys.argv[1:] = ["--data", sys.argv[1], "--model", "none", "--decode", "gpu"]
args = train.parse()
assert sum(len(labels) for _, labels in train.images(args.data, args)) == 20
PY

fuse_source s3
python3 "$HERE/../programs/digits.py" "$DATA" "$WORK/sums"
fuse_mount

say "tf.data tells its order"
before=$(curl -sf "http://$HTTP/status" | jq .hints.done)
PYTHONPATH=$SITE:$EXAMPLES/python python3 - "$MNT" <<'PY'
import glob, random, sys, time
import tensorflow as tf
import millrace
mnt, end = sys.argv[1], time.time() + 90
names = sorted(glob.glob(mnt + "/*/*.tfrecord"))
data = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names), seed=3)
hinted = data.apply(millrace.hint_names(mnt, chunk=4))
assert int(hinted.cardinality()) == len(names) == 10, hinted.cardinality()
for epoch in range(2):
    got = [name.decode() for name in hinted.as_numpy_iterator()]
    assert sorted(got) == names and got != names, got
    for name in got:
        open(name, "rb").read()
records = sum(1 for _ in hinted.interleave(tf.data.TFRecordDataset, cycle_length=4))
assert records == 3000, records
while millrace.status(mnt)["hints"]["entries"] < 30:
    assert time.time() < end, millrace.status(mnt)["hints"]
    time.sleep(0.1)
hints = millrace.status(mnt)["hints"]
assert hints["missing"] == 0 and hints["refused"] == 0, hints
PY
[ "$(curl -sf "http://$HTTP/status" | jq .hints.done)" -gt "$before" ] || die "$(curl -sf "http://$HTTP/status" | jq .hints)"
say "done"
fuse_umount
