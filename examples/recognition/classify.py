# SPDX-License-Identifier: Apache-2.0
"""Says what is in JPEGs: classify.py MODEL IMAGE…, where MODEL is a SavedModel's directory with labels.txt, a line a class."""
import os
import sys

import tensorflow as tf


def main(directory, *images):
    model = tf.saved_model.load(directory)
    infer = model.signatures["serving_default"]
    (name, spec), = infer.structured_input_signature[1].items()
    with open(os.path.join(directory, "labels.txt"), encoding="utf-8") as file:
        labels = file.read().splitlines()
    for image in images:
        pixels = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(image), channels=3), spec.shape[1:3]) / 255
        scores, = infer(**{name: pixels[tf.newaxis]}).values()
        for best in tf.argsort(scores[0], direction="DESCENDING")[:5].numpy():
            print(f"{os.path.basename(image)}: {labels[best]} (score = {scores[0][best]:.5f})", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
