# SPDX-License-Identifier: Apache-2.0
"""Classifies the test digits that prepare.py wrote with the SavedModel of train.py: each of Spark's executors takes a part of the TFRecords and writes
OUT/part-%05d, a line a digit: its label and what was found."""


def infer(args, ctx):
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([784], tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}
    files = sorted(tf.io.gfile.glob(ctx.absolute_path(args.data) + "/tfr/test/part-*"))[ctx.worker_num::ctx.num_workers]
    model = tf.saved_model.load(ctx.absolute_path(args.model))
    out = f"{ctx.absolute_path(args.out)}/part-{ctx.worker_num:05d}"
    tf.io.gfile.makedirs(ctx.absolute_path(args.out))
    lines = []
    for rows in tf.data.TFRecordDataset(files).batch(200).map(lambda records: tf.io.parse_example(records, features)):
        found = tf.argmax(model(tf.cast(rows["image"], tf.float32)), 1)
        lines += [f"{label} {digit}\n" for label, digit in zip(rows["label"].numpy(), found.numpy())]
    with tf.io.gfile.GFile(out + ".tmp", "w") as part:
        part.write("".join(lines))
    tf.io.gfile.rename(out + ".tmp", out, overwrite=True)  # a reader sees a whole part or none
    print(f"part {ctx.worker_num} of {ctx.num_workers}: {len(lines)} digits of {len(files)} files", flush=True)


if __name__ == "__main__":
    import argparse
    from pyspark.context import SparkContext
    from tensorflowonspark import TFParallel

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--model", default="export")
    parser.add_argument("--out", default="predictions")
    args = parser.parse_args()
    sc = SparkContext(appName="infer")
    TFParallel.run(sc, infer, args, args.cluster_size)
    sc.stop()
