# SPDX-License-Identifier: Apache-2.0
"""Trains a small digit classifier with MultiWorkerMirroredStrategy on TFRecords under --data and writes checkpoints,
TensorBoard events and a SavedModel under --out. Runs unchanged as chief, as worker and on one machine (no TF_CONFIG)."""
import argparse
import glob
import json
import os
import sys
import time

import tensorflow as tf

PIXELS = 28 * 28


def parse(record):
    row = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string),
                                              "label": tf.io.FixedLenFeature([], tf.int64)})
    image = tf.ensure_shape(tf.io.decode_raw(row["image"], tf.uint8), [PIXELS])
    return tf.cast(image, tf.float32) / 255.0, row["label"]


def records(pattern):
    files = sorted(glob.glob(pattern))
    if not files:
        sys.exit(f"no file matches {pattern}: is the dataset mounted?")
    return tf.data.TFRecordDataset(files, num_parallel_reads=4), files


class Report(tf.keras.callbacks.Callback):
    """Says when the first step is done, so that a person sees how long the data took."""
    first = True

    def on_train_batch_end(self, batch, logs=None):
        if self.first:
            self.first = False
            print(f"first_step {time.time():.3f}", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", default="/mnt/fuse")
    args.add_argument("--out", default="/mnt/fuse/out")
    args.add_argument("--epochs", type=int, default=2)
    args.add_argument("--batch", type=int, default=256, help="images per step, all replicas together")
    args = args.parse_args()

    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "chief", "index": 0})
    chief = task["type"] == "chief"
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if config else tf.distribute.get_strategy()

    train, files = records(f"{args.data}/train/*.tfrecord")
    test, _ = records(f"{args.data}/test/*.tfrecord")
    images = sum(1 for _ in train)
    steps = images // args.batch
    print(f"{task['type']} {task['index']}: {images} images in {len(files)} files, {steps} steps an epoch", flush=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    train = train.map(parse).shuffle(10000).repeat().batch(args.batch).with_options(options).prefetch(2)
    test = test.map(parse).batch(args.batch, drop_remainder=True).with_options(options)

    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.InputLayer((PIXELS,)),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ])
        model.compile(tf.keras.optimizers.Adam(1e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"], steps_per_execution=1)

    # Every replica has to save, but only the chief's files are kept.
    out = args.out if chief else f"/tmp/{task['type']}-{task['index']}"
    callbacks = [Report(), tf.keras.callbacks.ModelCheckpoint(f"{out}/checkpoints/epoch-{{epoch}}", save_weights_only=True)]
    if chief:
        callbacks.append(tf.keras.callbacks.TensorBoard(f"{out}/events", update_freq=50))
    model.fit(train, epochs=args.epochs, steps_per_epoch=steps, callbacks=callbacks, verbose=2 if chief else 0)
    loss, accuracy = model.evaluate(test, verbose=0)
    model.save(f"{out}/model", save_format="tf")
    if chief:
        again = tf.keras.models.load_model(f"{out}/model")
        sample, label = next(iter(test.unbatch().batch(1000)))
        agreed = float(tf.reduce_mean(tf.cast(tf.argmax(again(sample), 1) == label, tf.float32)))
        print(f"saved model read back: {agreed:.4f} of 1000 test images right", flush=True)
    print(f"accuracy {accuracy:.4f} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
