# SPDX-License-Identifier: Apache-2.0
"""Trains on the digits that prepare.py wrote, with MultiWorkerMirroredStrategy, a TensorFlow process in each of Spark's executors. --input tensorflow:
each process reads its part of the TFRecords by tf.data (InputMode.TENSORFLOW). --input spark: Spark reads the csv and feeds its lines to the
processes (InputMode.SPARK)."""


def from_files(args, ctx):
    """Digits of this process' part of the files, over and over."""
    import tensorflow as tf

    def parse(record):
        row = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([784], tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.cast(row["image"], tf.float32), row["label"]

    files = sorted(tf.io.gfile.glob(ctx.absolute_path(args.data) + "/tfr/train/part-*"))[ctx.worker_num::ctx.num_workers]
    return tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, cycle_length=4).map(parse).shuffle(5000).repeat()


def from_feed(feed, args):
    """Digits of the lines that Spark feeds to this process."""
    import tensorflow as tf

    def lines():
        while not feed.should_stop():
            yield from feed.next_batch(args.batch)

    def parse(line):
        row = tf.ensure_shape(tf.strings.to_number(tf.strings.split(line, ",")), [785])
        return row[1:], tf.cast(row[0], tf.int64)

    return tf.data.Dataset.from_generator(lines, output_signature=tf.TensorSpec([], tf.string)).map(parse)


def train(args, ctx):
    import tempfile
    import tensorflow as tf
    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    feed = ctx.get_data_feed() if args.input == "spark" else None
    options = tf.data.Options()
    compat.disable_auto_shard(options)  # each process has digits of its own already; a batch is that of all of them
    data = (from_feed(feed, args) if feed else from_files(args, ctx)).batch(args.batch).with_options(options)

    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.InputLayer((784,), name="image"), tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(10, name="digit")])
        model.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    chief = ctx.job_name == "chief"
    model_dir = ctx.absolute_path(args.model) if chief else tempfile.mkdtemp()  # one writer for each file
    callbacks = [tf.keras.callbacks.ModelCheckpoint(model_dir + "/weights-{epoch:04d}", save_weights_only=True)]
    if chief:
        callbacks.append(tf.keras.callbacks.TensorBoard(model_dir, update_freq=10))
    history = model.fit(data, epochs=args.epochs, steps_per_epoch=args.steps, callbacks=callbacks, verbose=2)
    compat.export_saved_model(model, ctx.absolute_path(args.export), chief)
    print(f"{ctx.job_name} {ctx.task_index} of {ctx.num_workers}: loss {history.history['loss'][0]:.4f} to {history.history['loss'][-1]:.4f}", flush=True)
    if feed:
        feed.terminate()  # what is left is not needed; until here the driver waits in cluster.train


if __name__ == "__main__":
    import argparse
    from pyspark.context import SparkContext
    from tensorflowonspark import TFCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster_size", type=int, default=2)
    parser.add_argument("--input", choices=("tensorflow", "spark"), default="tensorflow")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--model", default="model")
    parser.add_argument("--export", default="export")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="digits a step, of all processes together")
    args = parser.parse_args()
    sc = SparkContext(appName="train")
    lines = sc.textFile(f"{args.data}/csv/train")
    args.steps = lines.count() // args.batch
    mode = TFCluster.InputMode.SPARK if args.input == "spark" else TFCluster.InputMode.TENSORFLOW
    cluster = TFCluster.run(sc, train, args, args.cluster_size, num_ps=0, input_mode=mode, master_node="chief")
    if args.input == "spark":  # an epoch more than is trained: no process waits for lines when another one got a few of its
        cluster.train(lines.repartition(args.cluster_size), args.epochs + 1)
    cluster.shutdown()
    sc.stop()
