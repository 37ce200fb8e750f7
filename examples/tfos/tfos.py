# SPDX-License-Identifier: Apache-2.0
"""Runs a program of TensorFlowOnSpark in the pods of a TFJob, without Spark. Python alone; InputMode.TENSORFLOW and TFParallel.

    python3 -m tfos program.py --its-arguments     # the program as it is; or `import tfos` as its first line

Every pod runs the whole program; TFCluster.run(sc, main_fun, args, …) calls main_fun(args, ctx) in it, with the ctx of its TF_CONFIG.
TFParallel.run(sc, main_fun, args, n) does so for independent instances, which know their number and how many there are: of a TFJob (with
successPolicy: AllWorkers), of an Indexed Job, or, where neither is, all of them one after the other. What follows the cluster's shutdown()
or TFParallel.run is the driver's, and runs in the chief, or the first worker, alone; it does not wait for the others.
"""
import json
import os
import runpy
import socket
import sys
import tempfile
import types

ORDER = ("ps", "chief", "master", "evaluator", "worker")  # in which executors get their numbers
WORKERS = ("chief", "master", "worker")
InputMode = types.SimpleNamespace(TENSORFLOW=0, SPARK=1)
NO_SPARK = "there is no Spark here: read the files with tf.data (InputMode.TENSORFLOW), or run it on Spark (InputMode.SPARK)"


def _tf():
    import tensorflow
    return tensorflow


def read_tf_config(text):
    """The cluster, the type and the index of the task; ValueError says what is wrong."""
    try:
        config = json.loads(text)
        if "sparseCluster" in config:
            raise ValueError("a job with enableDynamicWorker does not tell its workers how many there are: leave that out")
        cluster, job, index = config["cluster"], config["task"]["type"], config["task"]["index"]
        if job in cluster or job != "evaluator":  # the annotation millrace.dev/exclude-evaluator leaves it out
            cluster[job][int(index)]
    except (KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"TF_CONFIG is not that of a TFJob: {type(error).__name__}: {error}: {text[:200]}") from None
    return cluster, job, int(index)


def with_master(cluster, job, index, master):
    """The cluster with a chief or master, as the program calls it: that of the job, or else its first worker."""
    there = next((name for name in ("chief", "master") if name in cluster), "worker")
    if not master or master in cluster or not cluster.get(there):
        return cluster, job, index
    first, others = cluster[there][0], cluster[there][1:]
    cluster = {name: hosts for name, hosts in cluster.items() if name != there}
    cluster[master] = [first]
    if others:
        cluster[there] = others
    if job == there:
        job, index = (master, 0) if index == 0 else (job, index - 1)
    return cluster, job, index


def _size(cluster, names=None):
    return sum(len(hosts) for name, hosts in cluster.items() if names is None or name in names)


def _place(cluster, names, job, index):
    """The task's number among those of these types."""
    return index + _size(cluster, names[:names.index(job)] if job in names else names)


class TFNodeContext:
    """What main_fun is given: the node and its cluster."""

    def __init__(self, executor_id=0, job_name="", task_index=0, cluster_spec=None, defaultFS="file://", working_dir=".", mgr=None, tmp_socket=None):
        self.worker_num = self.executor_id = executor_id
        self.job_name, self.task_index, self.cluster_spec = job_name, task_index, cluster_spec or {}
        self.num_workers = _size(self.cluster_spec, WORKERS)
        self.defaultFS, self.working_dir, self.mgr, self.tmp_socket = defaultFS, working_dir, mgr, tmp_socket

    def absolute_path(self, path):
        """A URL and an absolute path stay; others are below the directory in which the pod began (its workingDir)."""
        return path if "://" in path else os.path.join(self.working_dir, path)

    def start_cluster_server(self, num_gpus=1, rdma=False):
        """The tf.train.ClusterSpec, and a server of this task that runs. A parameter server takes no GPU."""
        if rdma:
            raise ValueError("TensorFlow 2 has no grpc+verbs: leave rdma out")
        tf = _tf()
        if num_gpus == 0 or self.job_name == "ps":
            tf.config.set_visible_devices([], "GPU")
        self.release_port()
        spec = tf.train.ClusterSpec({name: hosts for name, hosts in self.cluster_spec.items() if name != "evaluator"})
        return spec, tf.distribute.Server(spec, job_name=self.job_name, task_index=self.task_index, protocol="grpc", start=True)

    def export_saved_model(self, sess, export_dir, tag_set, signatures):
        """Of a session of TensorFlow 1. signatures: {key: {"inputs": {alias: tensor}, "outputs": {…}, "method_name": …}}"""
        saved, final = _tf().compat.v1.saved_model, sess.graph.finalized
        if final:
            sess.graph._unsafe_unfinalize()  # a saver adds its operations
        with sess.graph.as_default():
            infos = {key: {way: {name: saved.build_tensor_info(tensor) for name, tensor in one[way].items()} for way in ("inputs", "outputs")}
                     for key, one in signatures.items()}
            definitions = {key: saved.build_signature_def(method_name=signatures[key].get("method_name", key), **infos[key]) for key in infos}
            builder = saved.Builder(export_dir)
            builder.add_meta_graph_and_variables(sess, tag_set.split(","), signature_def_map=definitions, clear_devices=True)
            builder.save()
        if final:
            sess.graph.finalize()

    def release_port(self):
        """Where there is no TFJob, the port of this node is held until now."""
        if self.tmp_socket:
            self.tmp_socket.close()
            self.tmp_socket = None

    def get_data_feed(self, *_, **__):
        raise RuntimeError(NO_SPARK)

    def is_driver(self):
        return self.task_index == 0 and self.job_name == next((name for name in WORKERS if self.cluster_spec.get(name)), self.job_name)


def make_ctx(master_node=None, environ=None):
    """The ctx of this pod; without TF_CONFIG, of a cluster of one."""
    environ = os.environ if environ is None else environ
    held = None
    if environ.get("TF_CONFIG"):
        cluster, job, index = with_master(*read_tf_config(environ["TF_CONFIG"]), master_node)
        environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}, "environment": "cloud"})
    else:
        held = socket.socket()
        held.bind(("localhost", 0))
        job, index = master_node or "worker", 0
        cluster = {job: [f"localhost:{held.getsockname()[1]}"]}
    return TFNodeContext(_place(cluster, ORDER, job, index), job, index, cluster, working_dir=os.getcwd(), tmp_socket=held)


class Cluster:
    def __init__(self, ctx):
        self.ctx = ctx

    def shutdown(self, *_, **__):
        if not self.ctx.is_driver():
            sys.exit(0)

    tensorboard_url = lambda self: None  # noqa: E731
    train = inference = TFNodeContext.get_data_feed


def run_cluster(sc, map_fun, tf_args, num_executors, num_ps=0, tensorboard=False, input_mode=InputMode.TENSORFLOW, log_dir=None,
                driver_ps_nodes=False, master_node=None, reservation_timeout=600, queues=None, eval_node=False, release_port=True, **_):
    if input_mode != InputMode.TENSORFLOW:
        raise RuntimeError(NO_SPARK)
    ctx = make_ctx(master_node)
    servers, size = _size(ctx.cluster_spec, ["ps"]), _size(ctx.cluster_spec)
    if num_ps > servers:
        raise ValueError(f"the program asks for {num_ps} parameter servers, the TFJob has {servers}: give it replicas of type PS")
    for odd, words in ((num_executors != size, f"the program asks for {num_executors} nodes, the TFJob has {size}: that counts"),
                       (tensorboard, "TensorBoard is the TFJob's: annotation millrace.dev/tensorboard: CLAIM/DIRECTORY")):
        if odd:
            print("tfos:", words, file=sys.stderr)
    if release_port:
        ctx.release_port()
    map_fun(tf_args, ctx)
    return Cluster(ctx)


def run_parallel(sc, map_fn, tf_args, num_executors, use_barrier=True):
    ctx, instances = make_ctx(), range(num_executors)
    ctx.release_port()
    if os.environ.get("TF_CONFIG"):
        size = _size(ctx.cluster_spec, WORKERS)
        if num_executors > size:
            raise ValueError(f"the program asks for {num_executors} instances, the TFJob has {size}: raise its replicas")
        instances = [_place(ctx.cluster_spec, WORKERS, ctx.job_name, ctx.task_index)]
    elif os.environ.get("JOB_COMPLETION_INDEX"):
        instances = [int(os.environ["JOB_COMPLETION_INDEX"])]
    os.environ.pop("TF_CONFIG", None)  # each is on its own: no strategy shall look for the others
    for instance in instances:
        if instance < num_executors:
            one = TFNodeContext(instance, working_dir=os.getcwd())
            one.num_workers = num_executors
            map_fn(tf_args, one)
    if instances[0] != 0:
        sys.exit(0)


# --- what programs import ------------------------------------------------------------------------------------------------


class SparkConf:
    """Settings, of which nothing follows; spark.executor.instances is the number of the job's replicas. Also SparkSession.builder."""

    def __init__(self, *_, **__):
        text = os.environ.get("TF_CONFIG")
        self.values = {"spark.executor.instances": str(_size(read_tf_config(text)[0]))} if text else {}

    def set(self, key, value):
        self.values[key] = value
        return self

    def get(self, key, default=None):
        return self.values.get(key, default)

    def getOrCreate(self):
        return types.SimpleNamespace(sparkContext=SparkContext(conf=self), stop=lambda: None)

    config = set
    setAppName = appName = lambda self, name: self.set("spark.app.name", name)
    setMaster = master = lambda self, url: self.set("spark.master", url)


class SparkContext:
    def __init__(self, *_, conf=None, **__):
        self._conf = conf or SparkConf()
        self.getConf, self.stop, self.setLogLevel = (lambda: self._conf), (lambda: None), (lambda level: None)

    def __getattr__(self, name):
        raise AttributeError(f"SparkContext.{name}: {NO_SPARK}")


def install():
    """From now on `import pyspark` and `import tensorflowonspark` find what is here."""
    def module(name, **members):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
        if "." in name:
            setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], sys.modules[name])

    module("pyspark", SparkContext=SparkContext, SparkConf=SparkConf, __path__=[])
    module("pyspark.context", SparkContext=SparkContext)
    module("pyspark.conf", SparkConf=SparkConf)
    module("pyspark.sql", SparkSession=types.SimpleNamespace(builder=SparkConf()))
    module("tensorflowonspark", __path__=[])
    module("tensorflowonspark.TFCluster", run=run_cluster, InputMode=InputMode, TFCluster=Cluster)
    module("tensorflowonspark.TFParallel", run=run_parallel)
    module("tensorflowonspark.TFSparkNode", TFNodeContext=TFNodeContext)
    module("tensorflowonspark.TFNode", hdfs_path=TFNodeContext.absolute_path, start_cluster_server=TFNodeContext.start_cluster_server,
           export_saved_model=lambda *args: TFNodeContext.export_saved_model(None, *args), DataFeed=TFNodeContext.get_data_feed)
    module("tensorflowonspark.compat", is_gpu_available=lambda: bool(_tf().config.list_physical_devices("GPU")),
           disable_auto_shard=lambda options: setattr(options.experimental_distribute, "auto_shard_policy", _tf().data.experimental.AutoShardPolicy.OFF),
           export_saved_model=lambda model, export_dir, is_chief=False:  # every worker has to save; the chief's stays
           model.save(export_dir if is_chief else tempfile.mkdtemp(), save_format="tf"))


install()
if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("tfos: which program? python3 -m tfos PROGRAM.py [ARGUMENT…]")
    sys.modules["tfos"] = sys.modules["__main__"]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
