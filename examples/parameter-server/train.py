# SPDX-License-Identifier: Apache-2.0
"""Trains on digits asynchronously: the chief hands steps to workers, a parameter server has the variables (ParameterServerStrategy), and the
evaluator tries each checkpoint meanwhile. TF_CONFIG says which of them this process is."""
import argparse
import os
import time

import tensorflow as tf


def parse(record):
    row = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
    return tf.cast(tf.ensure_shape(tf.io.decode_raw(row["image"], tf.uint8), [784]), tf.float32) / 255, row["label"]


def digits(pattern):
    return tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(pattern)), num_parallel_reads=2).map(parse)


def build():
    model = tf.keras.Sequential([tf.keras.layers.InputLayer((784,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(10)])
    model.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def serve(resolver):
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True)
    server.join()  # until the job is over, and its pod goes


class Checkpoints(tf.keras.callbacks.Callback):
    def __init__(self, checkpoint, out):
        super().__init__()
        # The chief writes all of it: variables of a parameter server are otherwise written by that, and renamed by the chief.
        self.checkpoint, self.out, self.options = checkpoint, out, tf.train.CheckpointOptions(experimental_io_device="/job:chief")

    def on_epoch_end(self, epoch, logs=None):
        self.checkpoint.write(f"{self.out}/epoch-{epoch + 1}", options=self.options)
        with open(f"{self.out}/epoch-{epoch + 1}.done", "w", encoding="ascii") as done:
            done.write("all of it is there\n")
        print(f"chief: epoch {epoch + 1} loss {logs['loss']:.4f}", flush=True)


def train(args, resolver):
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        model = build()
        checkpoint = tf.train.Checkpoint(model=model)

    def batches(context):
        data = digits(f"{args.data}/train/*.tfrecord").shard(context.num_input_pipelines, context.input_pipeline_id)
        return data.shuffle(5000).repeat().batch(args.batch).prefetch(2)

    tf.io.gfile.makedirs(args.out)
    model.fit(tf.keras.utils.experimental.DatasetCreator(batches), epochs=args.epochs, steps_per_epoch=args.steps, verbose=0,
              callbacks=[Checkpoints(checkpoint, args.out)])
    wait_for(f"{args.out}/accuracy-{args.epochs}", args.patience)  # when the chief ends, the job is over


def evaluate(args):
    model = build()
    data = digits(f"{args.data}/test/*.tfrecord").batch(500)
    for epoch in range(1, args.epochs + 1):
        if not wait_for(f"{args.out}/epoch-{epoch}.done", args.patience):
            raise SystemExit(f"no checkpoint of epoch {epoch} in {args.patience} s")
        tf.train.Checkpoint(model=model).read(f"{args.out}/epoch-{epoch}").expect_partial()
        accuracy = model.evaluate(data, verbose=0)[1]
        with open(f"{args.out}/accuracy-{epoch}", "w", encoding="ascii") as out:
            out.write(f"{accuracy:.4f}\n")
        print(f"evaluator: epoch {epoch} accuracy {accuracy:.4f}", flush=True)


def wait_for(path, seconds):
    end = time.monotonic() + seconds
    while not tf.io.gfile.exists(path) and time.monotonic() < end:
        time.sleep(1)
    return tf.io.gfile.exists(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="/mnt/fuse")
    parser.add_argument("--out", default="/mnt/fuse/out/parameter-server")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--patience", type=int, default=900, help="seconds to wait for another replica's file")
    args = parser.parse_args()
    os.environ["GRPC_FAIL_FAST"] = "use_caller"  # the chief notices a worker that went, and goes on when it is back
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "evaluator":
        evaluate(args)
    elif resolver.task_type in ("worker", "ps"):
        serve(resolver)
    else:
        train(args, resolver)


if __name__ == "__main__":
    main()
