# SPDX-License-Identifier: Apache-2.0
"""imagenet_made.py DIRECTORY SHARDS FILES [CLASSES]: pictures of ImageNet's sizes, about 500 × 375 and 110 KB. DIRECTORY/records: SHARDS TFRecords of
128 pictures, named and filled as ImageNet's are; DIRECTORY/files/CLASS: FILES JPEGs in all. A class has a brightness of its own: it can be learnt."""
import os
import sys

import numpy as np
import tensorflow as tf

SHARD, DISTINCT = 128, 256
random = np.random.default_rng(18)


def picture(label, classes):
    """JPEG: a class's shade, waves and noise. What it takes varies as photographs do."""
    height, width = random.integers(330, 440), random.integers(440, 560)
    waves = 40 * np.sin(np.arange(width) * random.uniform(0.01, 0.2)) + 40 * np.sin(np.arange(height) * random.uniform(0.01, 0.2))[:, None]
    noise = random.normal(0, random.uniform(10, 30), (height, width, 3))
    pixels = 60 + 135 * label / max(1, classes - 1) + waves[..., None] + noise
    return tf.io.encode_jpeg(np.clip(pixels, 0, 255).astype(np.uint8), quality=int(random.integers(84, 96))).numpy()


def bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def example(jpeg, label, name):
    return tf.train.Example(features=tf.train.Features(feature={
        "image/encoded": bytes_feature(jpeg), "image/format": bytes_feature(b"JPEG"), "image/filename": bytes_feature(name.encode()),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label + 1]))})).SerializeToString()


def main(directory, shards, files, classes=10):
    made = [(picture(number % classes, classes), number % classes) for number in range(DISTINCT)]
    print(f"pictures of {sum(len(jpeg) for jpeg, _ in made) // len(made)} bytes")
    os.makedirs(f"{directory}/records")
    for shard in range(shards):
        with tf.io.TFRecordWriter(f"{directory}/records/train-{shard:05d}-of-{shards:05d}") as out:
            for number in range(SHARD):
                jpeg, label = made[random.integers(DISTINCT)]
                out.write(example(jpeg, label, f"{shard}_{number}.JPEG"))
    for number in range(files):
        jpeg, label = made[number % DISTINCT]
        path = f"{directory}/files/n{label:08d}"
        os.makedirs(path, exist_ok=True)
        with open(f"{path}/n{label:08d}_{number}.JPEG", "wb") as out:
            out.write(jpeg)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
