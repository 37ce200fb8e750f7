# SPDX-License-Identifier: Apache-2.0
"""digits.py DIRECTORY SUMS: TFRecords like MNIST's, a picture for each of ten digits, and noise: DIRECTORY/train has four files, DIRECTORY/test six.
SUMS: of each file of train its name, its records, and the SHA-256 of these, as examples/one-job-three-ways/count.py says it."""
import hashlib
import os
import sys

import numpy as np
import tensorflow as tf

random = np.random.default_rng(7)
pictures = random.integers(0, 256, (10, 784)) * (random.random((10, 784)) < 0.3)


def example(label):
    image = np.clip(pictures[label] * 0.7 + random.integers(0, 80, 784), 0, 255).astype(np.uint8).tobytes()
    return tf.train.Example(features=tf.train.Features(feature={
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString()


def main(directory, sums):
    with open(sums, "w", encoding="ascii") as out:
        for part, files, each in (("train", 4, 600), ("test", 6, 100)):
            os.makedirs(f"{directory}/{part}", exist_ok=True)
            for number in range(files):
                name, digest = f"{part}-{number}.tfrecord", hashlib.sha256()
                with tf.io.TFRecordWriter(f"{directory}/{part}/{name}") as file:
                    for label in random.integers(0, 10, each):
                        record = example(int(label))
                        digest.update(record)
                        file.write(record)
                if part == "train":
                    out.write(f"{name} {each} {digest.hexdigest()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
