# SPDX-License-Identifier: Apache-2.0
"""spark_written.py DIRECTORY SUMS: looks through what examples/spark wrote there: csv and TFRecords hold the records that digits_tfds.py told in
SUMS.train and SUMS.test, each once; both trainings left checkpoints, events and a model; the predictions have a line for each digit, and are right."""
import glob
import os
import sys

import numpy as np
import tensorflow as tf


def parts(directory, pattern):
    """The part files of a directory that Spark's committer finished: nothing else lies there, each with its checksum, none under _temporary."""
    names = set(os.listdir(directory))
    found = {os.path.basename(path) for path in glob.glob(f"{directory}/{pattern}")}
    assert "_SUCCESS" in names and len(found) == 4, (directory, names)
    assert names == found | {"_SUCCESS", "._SUCCESS.crc"} | {f".{name}.crc" for name in found}, (directory, names)
    return [f"{directory}/{name}" for name in sorted(found)]


def text_records(directory):
    for path in parts(directory, "part-*"):
        with open(path, encoding="ascii") as file:
            yield from file


def tf_records(directory):
    for record in tf.data.TFRecordDataset(parts(directory, "part-r-*")).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        yield ",".join(map(str, [*feature["label"].int64_list.value, *feature["image"].int64_list.value])) + "\n"


def trained(directory, epochs):
    """The model that a training of so many epochs left, and its checkpoints and events."""
    for epoch in range(1, epochs + 1):
        assert tf.train.load_checkpoint(f"{directory}/model/weights-{epoch:04d}").get_variable_to_shape_map(), directory
    events = [path for path in glob.glob(f"{directory}/model/**/events.*", recursive=True)
              if any(value.tag == "epoch_loss" for event in tf.compat.v1.train.summary_iterator(path) for value in event.summary.value)]
    assert events, f"no events of the training: {directory}"
    return tf.saved_model.load(f"{directory}/export").signatures["serving_default"]


def accuracy(model, lines):
    rows = np.array([line.split(",") for line in lines], np.float32)
    found = model(image=tf.constant(rows[:, 1:]))["digit"]
    return float(np.mean(np.argmax(found, axis=1) == rows[:, 0]))


def main(directory, sums):
    expected = {}
    for split in ("train", "test"):
        with open(f"{sums}.{split}", encoding="ascii") as file:
            expected[split] = list(file)
        for form, records in (("csv", text_records), ("tfr", tf_records)):
            found = sorted(records(f"{directory}/mnist/{form}/{split}"))
            print(f"{form} {split}: {len(found)} records")
            assert found == expected[split], f"{form}/{split} holds other records"
    shares = {}
    for mode in ("tensorflow", "spark"):
        shares[mode] = accuracy(trained(f"{directory}/{mode}", 2), expected["test"])
        print(f"{mode}: accuracy {shares[mode]}")
        assert shares[mode] > 0.9
    lines = []
    for number in range(2):
        with open(f"{directory}/predictions/part-{number:05d}", encoding="ascii") as file:
            lines += [line.split() for line in file]
    assert sorted(label for label, _ in lines) == sorted(line.split(",", 1)[0] for line in expected["test"]), "not a line for each digit"
    right = sum(label == found for label, found in lines)
    print(f"predictions: {right} of {len(lines)}")
    assert abs(right / len(lines) - shares["tensorflow"]) < 0.01  # the same model found them


if __name__ == "__main__":
    main(*sys.argv[1:])
