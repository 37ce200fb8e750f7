#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw tensorflow
# timeout: 1800
# The examples' programs with the real TensorFlow, each replica of their manifests a process, on a real mount of an S3 bucket: a program of
# TensorFlowOnSpark trains on two workers and exports, three instances classify with what it exported, a parameter server and two workers
# train beside an evaluator, a plain Job, torchrun's environment and a TFJob count the same; tf.data tells its order. By content.
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

run() # NAME MANIFEST [NAME=VALUE…]: its pods, to the end
{
    local name=$1 manifest=$2 status=0
    shift 2
    say "$manifest"
    mkdir "$WORK/$name"
    python3 "$HERE/run_manifest.py" "$EXAMPLES/$manifest" "$MNT" "$WORK/$name" "$@" || status=$?
    for log in "$WORK/$name"/*.log; do
        echo "${log##*/}:"
        tail -n 25 "$log" | cut -c 1-300
    done
    [ "$status" = 0 ] || die "$manifest: $status"
}

fuse_source s3
say "digits: a picture for each of ten, and noise"
mkdir -p "$DATA/train" "$DATA/test"
cat >"$WORK/digits.py" <<'PY'
import hashlib, sys
import numpy as np
import tensorflow as tf

random = np.random.default_rng(7)
pictures = random.integers(0, 256, (10, 784)) * (random.random((10, 784)) < 0.3)

def example(label):
    image = np.clip(pictures[label] * 0.7 + random.integers(0, 80, 784), 0, 255).astype(np.uint8).tobytes()
    return tf.train.Example(features=tf.train.Features(feature={
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString()

sums = []
for part, files, each in (("train", 4, 600), ("test", 6, 100)):
    for number in range(files):
        name, digest = f"{part}-{number}.tfrecord", hashlib.sha256()
        with tf.io.TFRecordWriter(f"{sys.argv[1]}/{part}/{name}") as out:
            for label in random.integers(0, 10, each):
                record = example(int(label))
                digest.update(record)
                out.write(record)
        if part == "train":
            sums.append(f"{name} {each} {digest.hexdigest()}\n")
with open(sys.argv[2], "w", encoding="ascii") as out:
    out.writelines(sums)
PY
python3 "$WORK/digits.py" "$DATA" "$WORK/sums"
fuse_mount

run count-job one-job-three-ways/job.yaml
run count-tfjob one-job-three-ways/tfjob.yaml
say "as torchrun starts it"
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 python3 "$EXAMPLES/one-job-three-ways/count.py" --data="$MNT/train" --out="$MNT/out/count-torchrun"
done
for way in job tfjob torchrun; do
    [ "$(find "$MNT/out/count-$way" -type f | wc -l)" = 2 ] || die "count-$way: $(ls "$MNT/out/count-$way")"
    sort "$MNT/out/count-$way"/part-0000[01] | cmp - "$WORK/sums" || die "count-$way found something else"
done

run tfos tfos/tfjob.yaml
grep -q '^the driver goes on$' "$WORK/tfos/chief-0.log" || die "the chief does not go on as the driver"
if grep -q '^the driver goes on$' "$WORK/tfos/worker-0.log"; then die "the worker goes on as the driver"; fi
for log in chief-0 worker-0; do
    grep -q ' of 2: loss ' "$WORK/tfos/$log.log" || die "$log does not say its loss"
    awk '/ of 2: loss /{ exit !($8 < $6 / 2) }' "$WORK/tfos/$log.log" || die "the loss of $log did not fall: $(grep loss "$WORK/tfos/$log.log")"
done
for file in model/weights-0002.index model/checkpoint export/saved_model.pb export/variables/variables.index; do
    [ -s "$DATA/out/tfos/$file" ] || die "$file is not in the bucket: $(find "$DATA/out" -type f)"
done
find "$DATA/out/tfos/model" -name 'events.out.*' -size +0 | grep -q . || die "no events in the bucket"

run inference inference/tfjob.yaml
[ "$(find "$DATA/out/predictions" -type f | sort | xargs -n 1 basename | tr '\n' ' ')" = "part-00000 part-00001 part-00002 " ] ||
    die "$(ls "$DATA/out/predictions")"
wc -l "$DATA"/out/predictions/part-0000?
for part in "$DATA"/out/predictions/part-0000?; do [ "$(wc -l <"$part")" = 200 ] || die "$part is not of two files"; done
cat "$DATA"/out/predictions/part-* | awk '$1 == $2 { right++ } END { print right " of " NR; exit !(NR == 600 && right > 540) }' || die "wrong predictions"

run parameter-server parameter-server/tfjob.yaml
awk '/^chief: epoch/{ loss[$3] = $5 } END { exit !(loss[3] < loss[1] / 2) }' "$WORK/parameter-server/chief-0.log" || die "the loss did not fall"
awk '{ exit !($1 > 0.9) }' "$DATA/out/parameter-server/accuracy-3" || die "accuracy $(cat "$DATA/out/parameter-server/accuracy-3")"
[ -s "$DATA/out/parameter-server/epoch-3.index" ] || die "no checkpoint in the bucket"

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
