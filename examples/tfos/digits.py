# SPDX-License-Identifier: Apache-2.0
"""Trains on digits with MultiWorkerMirroredStrategy: a program for TensorFlowOnSpark, InputMode.TENSORFLOW. spark-submit runs it on Spark, and
`python3 -m tfos digits.py` in a TFJob (tfjob.yaml), the same lines."""


def main_fun(args, ctx):
    import tensorflow as tf
    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def parse(record):
        row = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
        return tf.cast(tf.ensure_shape(tf.io.decode_raw(row["image"], tf.uint8), [784]), tf.float32) / 255, row["label"]

    files = tf.io.gfile.glob(ctx.absolute_path(args.images) + "/*.tfrecord")
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    data = tf.data.Dataset.from_tensor_slices(sorted(files)).interleave(tf.data.TFRecordDataset, cycle_length=4)
    data = data.shard(ctx.num_workers, ctx.worker_num).map(parse).shuffle(5000).repeat().batch(args.batch).with_options(options)

    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.InputLayer((784,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(10)])
        model.compile(tf.keras.optimizers.Adam(3e-3), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model_dir = ctx.absolute_path(args.model) if ctx.job_name == "chief" else f"/tmp/{ctx.job_name}-{ctx.task_index}"
    callbacks = [tf.keras.callbacks.ModelCheckpoint(model_dir + "/weights-{epoch:04d}", save_weights_only=True)]
    if ctx.job_name == "chief":
        callbacks.append(tf.keras.callbacks.TensorBoard(model_dir, update_freq=10))
    history = model.fit(data, epochs=args.epochs, steps_per_epoch=args.steps, callbacks=callbacks, verbose=2)
    compat.export_saved_model(model, ctx.absolute_path(args.export), ctx.job_name == "chief")
    print(f"{ctx.job_name} {ctx.task_index} of {ctx.num_workers}: loss {history.history['loss'][0]:.4f} to {history.history['loss'][-1]:.4f}", flush=True)


if __name__ == "__main__":
    import argparse
    from pyspark.conf import SparkConf
    from pyspark.context import SparkContext
    from tensorflowonspark import TFCluster

    sc = SparkContext(conf=SparkConf().setAppName("digits"))
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster_size", type=int, default=int(sc.getConf().get("spark.executor.instances", 1)))
    parser.add_argument("--images", default="train")
    parser.add_argument("--model", default="out/tfos/model")
    parser.add_argument("--export", default="out/tfos/export")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    args = parser.parse_args()
    cluster = TFCluster.run(sc, main_fun, args, args.cluster_size, num_ps=0, input_mode=TFCluster.InputMode.TENSORFLOW, master_node="chief")
    cluster.shutdown()
    print("the driver goes on", flush=True)
