# SPDX-License-Identifier: Apache-2.0
"""pictures.py DIRECTORY: JPEGs of two kinds, bars that lie and bars that stand, and a model that tells them apart: DIRECTORY/train/KIND/N.jpg, eight
of each; DIRECTORY/images/KIND.jpg, one of each; DIRECTORY/recognition, a SavedModel with its labels.txt."""
import os
import sys

import numpy as np
import tensorflow as tf

KINDS, SIZE = ("lying", "standing"), 64
random = np.random.default_rng(18)


def picture(kind):
    wave = 127 + 90 * np.sin(np.arange(SIZE) * random.uniform(0.5, 0.9) + random.uniform(0, 6))
    bars = np.tile(wave, (SIZE, 1)) if kind == "standing" else np.tile(wave, (SIZE, 1)).T
    return np.clip(bars[..., None] + random.normal(0, 12, (SIZE, SIZE, 3)), 0, 255).astype(np.uint8)


def write(path, kind):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tf.io.write_file(path, tf.io.encode_jpeg(picture(kind)))


def train():
    model = tf.keras.Sequential([tf.keras.layers.InputLayer((SIZE, SIZE, 3)), tf.keras.layers.Conv2D(4, 5, activation="relu", strides=2),
                                 tf.keras.layers.GlobalMaxPool2D(), tf.keras.layers.Dense(2, activation="softmax")])
    model.compile(tf.keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    labels = random.integers(0, 2, 400)
    model.fit(np.stack([picture(KINDS[label]) for label in labels]) / np.float32(255), labels, epochs=12, verbose=0)
    return model


def main(directory):
    for kind in KINDS:
        write(f"{directory}/images/{kind}.jpg", kind)
        for number in range(8):
            write(f"{directory}/train/{kind}/{number}.jpg", kind)
    train().save(f"{directory}/recognition")
    with open(f"{directory}/recognition/labels.txt", "w", encoding="ascii") as out:
        out.writelines(kind + "\n" for kind in KINDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
