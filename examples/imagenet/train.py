#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on images as ImageNet lies on disks, with the input pipeline of TensorFlow's CNN benchmark: shards or files in random order, ten read at
a time, a buffer of records to shuffle, JPEGs decoded and cropped at random, the next batches made while the model is busy. Says images a second.

    train.py --data DIR            DIR/train-00000-of-01024 …: TFRecords (image/encoded, image/class/label from 1), or DIR/CLASS/NAME.jpg
             --model resnet50      or trivial, one layer: then the input is what takes the time, as with a fast GPU
             --model none          reads and decodes, and trains nothing; with --decode gpu, what a GPU decodes is only read
             --beside DIR          copies the data to DIR, a disk of the node, and reads from there too, in turns
             --save FILE.h5        the weights, after each epoch
"""
import argparse
import glob
import os
import shutil
import time

import tensorflow as tf

SIZE = 224  # pixels, of what the model sees
AUTO = tf.data.AUTOTUNE


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--beside")
    parser.add_argument("--save")
    parser.add_argument("--model", choices=("resnet50", "trivial", "none"), default="resnet50")
    parser.add_argument("--decode", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shuffle", type=int, default=10000, help="records in the buffer, of TFRecords")
    parser.add_argument("--threads", type=int, default=10, help="shards that are read at a time; of JPEGs, files")
    args = parser.parse_args()
    if args.decode == "gpu" and args.model != "none":
        parser.error("--decode gpu only reads: --model none")
    return args


def decoded(jpeg, label):
    """A random crop of an eighth of the picture or more, decoded alone, as the benchmark distorts it."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(jpeg), tf.zeros((1, 0, 4)), min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 1.0),
        max_attempts=100, use_image_if_no_bounding_boxes=True)
    image = tf.image.decode_and_crop_jpeg(jpeg, tf.concat((begin[:2], size[:2]), 0), channels=3)
    image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
    return image / 127.5 - 1, label


def from_records(shards, args):
    features = {"image/encoded": tf.io.FixedLenFeature((), tf.string), "image/class/label": tf.io.FixedLenFeature((), tf.int64)}

    def example(record):
        found = tf.io.parse_single_example(record, features)
        return found["image/encoded"], found["image/class/label"] - 1

    names = tf.data.Dataset.from_tensor_slices(shards).shuffle(len(shards))
    records = names.interleave(tf.data.TFRecordDataset, cycle_length=args.threads, num_parallel_calls=args.threads, deterministic=False)
    return records.shuffle(args.shuffle).map(example, num_parallel_calls=AUTO)


def from_files(paths, args):
    classes = {name: number for number, name in enumerate(sorted({os.path.basename(os.path.dirname(path)) for path in paths}))}
    labels = [classes[os.path.basename(os.path.dirname(path))] for path in paths]
    names = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths))
    return names.map(lambda path, label: (tf.io.read_file(path), label), num_parallel_calls=args.threads, deterministic=False)


def images(directory, args):
    shards = sorted(glob.glob(f"{directory}/train-*-of-*"))
    files = [] if shards else sorted(glob.glob(f"{directory}/*/*.jpg") + glob.glob(f"{directory}/*/*.JPEG"))
    if not shards and not files:
        raise SystemExit(f"{directory} holds neither train-*-of-* nor CLASS/NAME.jpg")
    data = from_records(shards, args) if shards else from_files(files, args)
    if args.decode == "cpu":
        data = data.map(decoded, num_parallel_calls=AUTO)
    options = tf.data.Options()  # else files are read by as many threads as there are processors, and the others of --threads wait
    options.threading.private_threadpool_size = max(args.threads, os.cpu_count())
    return data.batch(args.batch).prefetch(AUTO).with_options(options)


def model_of(args):
    inputs = (SIZE, SIZE, 3)
    if args.model == "resnet50":
        model = tf.keras.applications.ResNet50(weights=None, classes=args.classes, classifier_activation=None)
    else:
        model = tf.keras.Sequential([tf.keras.layers.AveragePooling2D(16, input_shape=inputs), tf.keras.layers.Flatten(), tf.keras.layers.Dense(args.classes)])
    return model, tf.keras.optimizers.SGD(0.01, momentum=0.9)


def trainer(args):
    """A function that takes a batch, and gives its loss."""
    if args.model == "none":
        return None, lambda batch, labels: None
    model, optimizer = model_of(args)

    @tf.function(reduce_retracing=True)
    def step(batch, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(batch, training=True), from_logits=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return model, step


def epoch(directory, args, step):
    """Images, images a second, and the mean loss of the last ten batches."""
    data, count, losses, begin = images(directory, args), 0, [], time.monotonic()
    for batch, labels in data:
        losses.append(step(batch, labels))
        count += len(labels)
    rate = count / (time.monotonic() - begin)
    last = [float(loss) for loss in losses[-10:] if loss is not None]
    return count, rate, sum(last) / len(last) if last else None


def main():
    args = parse()
    places = [("mount", args.data)]
    if args.beside:
        shutil.copytree(args.data, args.beside, dirs_exist_ok=True)
        places.append(("disk", args.beside))
    model, step = trainer(args)
    for number in range(args.epochs):
        for name, directory in places:
            count, rate, loss = epoch(directory, args, step)
            print(f"epoch {number} {name}: {count} images, {rate:.1f} images/s" + (f", loss {loss:.3f}" if loss is not None else ""), flush=True)
        if args.save and model:
            write_weights(model, args.save)


def write_weights(model, path):
    """Under another name first: a reader sees the old ones or the new ones."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    model.save_weights(path + ".tmp.h5")
    os.replace(path + ".tmp.h5", path)


if __name__ == "__main__":
    main()
