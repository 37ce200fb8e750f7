#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: hadoop tensorflow
# timeout: 900
# TensorFlow reads TFRecords that Hadoop's own client has put into HDFS, and saves its checkpoints and a model there, by a mount. What it
# read is compared with what was put, and Hadoop's client reads what it saved; another run goes on from the checkpoint of the first.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
# shellcheck source=tests/integration/hdfs_lib.sh
. "$(dirname "$(readlink -f "$0")")/hdfs_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
leave()
{
    local status=$?
    [ "$status" = 0 ] || tail -n 15 "$WORK"/hadoop/{name1,data,client}.log "$WORK/first" "$WORK/second" >&2 || true
    hdfs_end
    (exit "$status") && : # for fuse_cleanup
    fuse_cleanup
}
trap leave EXIT
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
SITE=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/trainer/site
if [ ! -d "$SITE/tensorflow" ]; then
    echo "SKIP: no TensorFlow; hack/setup tensorflow installs it"
    exit 77
fi
export CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=2
tensorflow() { PYTHONPATH=$SITE PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$@"; } # Debian's Python

# y = 3 x + 2, in records of some kilobytes; what is read is summed, whatever the order.
cat >"$WORK/train.py" <<'PY'
import hashlib, sys
import tensorflow as tf

top, epochs = sys.argv[1], int(sys.argv[2])
features = {"x": tf.io.FixedLenFeature([], tf.float32), "y": tf.io.FixedLenFeature([], tf.float32), "noise": tf.io.FixedLenFeature([], tf.string)}
files = tf.data.Dataset.list_files(top + "/records/*.tfrecord")
records = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
optimizer = tf.keras.optimizers.SGD(0.1)
epoch = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)
manager = tf.train.CheckpointManager(checkpoint, top + "/checkpoints", max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)
print("begins at", int(epoch))
for _ in range(epochs):
    seen, losses = [], []
    for batch in records.batch(50):
        seen += [hashlib.sha256(record).hexdigest() for record in batch.numpy()]
        parsed = tf.io.parse_example(batch, features)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(parsed["x"][:, None])[:, 0] - parsed["y"]) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        losses.append(float(loss))
    epoch.assign_add(1)
    manager.save()
    print("epoch", int(epoch), "records", len(seen), hashlib.sha256("".join(sorted(seen)).encode()).hexdigest())
    print("loss", losses[0], losses[-1])
tf.saved_model.save(model, top + "/model")
weight, bias = (float(v.numpy().ravel()[0]) for v in model.trainable_variables)
print("learned" if abs(weight - 3) < 0.2 and abs(bias - 2) < 0.2 else "not learned", weight, bias)
PY
cat >"$WORK/records.py" <<'PY'
import hashlib, os, random, sys
import tensorflow as tf

random.seed(5)
seen = []
for part in range(6):
    with tf.io.TFRecordWriter(f"{sys.argv[1]}/part-{part}.tfrecord") as out:
        for _ in range(250):
            x = random.uniform(-1, 1)
            record = tf.train.Example(features=tf.train.Features(feature={
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[x])),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=[3 * x + 2])),
                "noise": tf.train.Feature(bytes_list=tf.train.BytesList(value=[os.urandom(4000)]))})).SerializeToString()
            seen.append(hashlib.sha256(record).hexdigest())
            out.write(record)
print("records", len(seen), hashlib.sha256("".join(sorted(seen)).encode()).hexdigest())
PY

mkdir "$WORK/records"
tensorflow "$WORK/records.py" "$WORK/records" >"$WORK/put"
hdfs_start
hdfs dfs -mkdir /train
hdfs dfs -put "$WORK/records" /train
MOUNT_JSON="{\"mountPoint\":\"hdfs://${HDFS_RPC[0]}/train\",\"options\":{\"http-port\":\"${HDFS_HTTP[0]#*:}\",\"user\":\"$(id -un)\"}}"
fuse_config 'cache={"tiers":[{"medium":"SSD","quota":64000000}]}'
fuse_mount

tensorflow "$WORK/train.py" "$MNT" 2 >"$WORK/first" 2>"$WORK/first.err" || { cat "$WORK/first.err" >&2 && exit 1; }
is "it begins at the beginning" "begins at 0" "$(head -n 1 "$WORK/first")"
is "both epochs see each record, and no other" "2" "$(grep -c "$(cat "$WORK/put")" "$WORK/first")"
tensorflow "$WORK/train.py" "$MNT" 3 >"$WORK/second" 2>"$WORK/second.err" || { cat "$WORK/second.err" >&2 && exit 1; }
is "another run goes on from the checkpoint" "begins at 2" "$(head -n 1 "$WORK/second")"
has "and learns" "learned " "$(grep '^learned' "$WORK/second" || cat "$WORK/second")"

hdfs dfs -ls -C /train/checkpoints | sed 's|.*/||' | sort >"$WORK/saved"
is "Hadoop sees the checkpoints that were kept" "checkpoint ckpt-4.data-00000-of-00001 ckpt-4.index ckpt-5.data-00000-of-00001 ckpt-5.index" \
    "$(paste -sd ' ' "$WORK/saved")"
mkdir "$WORK/back"
hdfs dfs -get /train/checkpoints /train/model "$WORK/back"
is "and reads the same bytes" "" "$(diff -r "$WORK/back/checkpoints" "$MNT/checkpoints"; diff -r "$WORK/back/model" "$MNT/model")"
is "of which TensorFlow can be made again" "3 and 2" "$(tensorflow - "$WORK/back/model" 2>/dev/null <<'PY'
import sys
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
at_0, at_1 = (float(v) for v in model(tf.constant([[0.0], [1.0]]))[:, 0])
print(f"{at_1 - at_0:.0f} and {at_0:.0f}")
PY
)"
fuse_umount
echo "1..$count"
exit "$failed"
