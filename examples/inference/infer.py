# SPDX-License-Identifier: Apache-2.0
"""Classifies the test digits with a SavedModel: n instances, each with its part of the files, each writes part-%05d, a line a digit."""


def infer(args, ctx):
    import tensorflow as tf

    def parse(record):
        row = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.cast(tf.ensure_shape(tf.io.decode_raw(row["image"], tf.uint8), [784]), tf.float32) / 255, row["label"]

    model = tf.saved_model.load(ctx.absolute_path(args.model))
    files = sorted(tf.io.gfile.glob(ctx.absolute_path(args.images) + "/*.tfrecord"))[ctx.worker_num::ctx.num_workers]
    out = f"{ctx.absolute_path(args.out)}/part-{ctx.worker_num:05d}"
    tf.io.gfile.makedirs(ctx.absolute_path(args.out))
    lines = right = 0
    with open(out + ".tmp", "w", encoding="ascii") as part:  # a reader sees a whole part or none
        for images, labels in tf.data.TFRecordDataset(files).map(parse).batch(200):
            found = tf.argmax(model(images), 1).numpy()
            part.writelines(f"{label} {digit}\n" for label, digit in zip(labels.numpy(), found))
            lines, right = lines + len(found), right + int((found == labels.numpy()).sum())
    tf.io.gfile.rename(out + ".tmp", out, overwrite=True)
    print(f"part {ctx.worker_num} of {ctx.num_workers}: {right} of {lines} right, {len(files)} files", flush=True)


if __name__ == "__main__":
    import argparse
    from pyspark.context import SparkContext
    from tensorflowonspark import TFParallel

    sc = SparkContext()
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=int(sc.getConf().get("spark.executor.instances", 1)))
    parser.add_argument("--images", default="test")
    parser.add_argument("--model", default="out/tfos/export")
    parser.add_argument("--out", default="out/predictions")
    args = parser.parse_args()
    TFParallel.run(sc, infer, args, args.instances)
