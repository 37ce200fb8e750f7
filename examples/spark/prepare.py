# SPDX-License-Identifier: Apache-2.0
"""Writes the digits of TensorFlow Datasets ($TFDS_DATA_DIR) as OUT/csv/{train,test}, lines of a label and 784 pixels, and as OUT/tfr/{train,test},
TFRecords with `label` and `image`. Each of Spark's tasks reads a part of the digits and writes a file of each kind."""


def reader(split, parts):
    def read(part):
        import tensorflow_datasets as tfds

        for row in tfds.as_numpy(tfds.load("mnist", split=tfds.even_splits(split, parts)[part], download=False)):
            yield int(row["label"]), row["image"].reshape(-1).tolist()

    return read


def line(digit):
    label, pixels = digit
    return ",".join(map(str, [label, *pixels]))


def record(digit):
    import tensorflow as tf

    features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in (("label", digit[:1]), ("image", digit[1]))}
    return bytearray(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()), None


if __name__ == "__main__":
    import argparse
    from pyspark.context import SparkContext

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=4, help="files of each kind")
    parser.add_argument("--out", default="mnist")
    args = parser.parse_args()
    sc = SparkContext(appName="prepare")
    for split in ("train", "test"):
        digits = sc.parallelize(range(args.parts), args.parts).flatMap(reader(split, args.parts)).cache()
        digits.map(line).saveAsTextFile(f"{args.out}/csv/{split}")
        digits.map(record).saveAsNewAPIHadoopFile(
            f"{args.out}/tfr/{split}", "org.tensorflow.hadoop.io.TFRecordFileOutputFormat",
            keyClass="org.apache.hadoop.io.BytesWritable", valueClass="org.apache.hadoop.io.NullWritable")
        print(f"{split}: {digits.count()} digits in {args.parts} files of each kind", flush=True)
    sc.stop()
