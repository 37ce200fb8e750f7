# SPDX-License-Identifier: Apache-2.0
"""examples/tfos without TensorFlow: the ctx of each shape of TF_CONFIG, what a program imports and calls, and what is refused."""
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/tfos")
sys.path.insert(0, MODULE)
import tfos  # noqa: E402

HOSTS = {"chief": ["c:1"], "worker": ["w0:1", "w1:1"], "ps": ["p0:1", "p1:1"], "evaluator": ["e:1"]}
ARGS = object()


def config(types, job, index):
    return json.dumps({"cluster": {name: HOSTS[name] for name in types}, "task": {"type": job, "index": index}, "environment": "cloud"})


class Pod(unittest.TestCase):
    """Each test is in the environment of a pod."""

    def setUp(self):
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        for name in ("TF_CONFIG", "JOB_COMPLETION_INDEX"):
            os.environ.pop(name, None)

    def ctx(self, types, job, index, master=None):
        os.environ["TF_CONFIG"] = config(types, job, index)
        return tfos.make_ctx(master)


class Context(Pod):
    def test_each_task_of_a_whole_cluster(self):
        types = ("ps", "chief", "evaluator", "worker")
        numbers = []
        for job in types:
            for index in range(len(HOSTS[job])):
                ctx = self.ctx(types, job, index, "chief")
                self.assertEqual((ctx.job_name, ctx.task_index, ctx.num_workers), (job, index, 3))
                self.assertEqual(ctx.cluster_spec, HOSTS)
                self.assertEqual(ctx.worker_num, ctx.executor_id)
                self.assertEqual(ctx.is_driver(), job == "chief")
                numbers.append(ctx.executor_id)
        self.assertEqual(numbers, list(range(6)))

    def test_workers_alone(self):
        ctx = self.ctx(["worker"], "worker", 1)
        self.assertEqual((ctx.job_name, ctx.task_index, ctx.executor_id, ctx.num_workers), ("worker", 1, 1, 2))
        self.assertFalse(ctx.is_driver())
        self.assertTrue(self.ctx(["worker"], "worker", 0).is_driver())

    def test_a_program_that_wants_a_chief_takes_the_first_worker(self):
        for index, want in ((0, ("chief", 0)), (1, ("worker", 0))):
            ctx = self.ctx(["worker", "ps"], "worker", index, "chief")
            self.assertEqual((ctx.job_name, ctx.task_index), want)
            self.assertEqual(ctx.cluster_spec, {"ps": HOSTS["ps"], "chief": ["w0:1"], "worker": ["w1:1"]})
            told = json.loads(os.environ["TF_CONFIG"])
            self.assertEqual(told["task"], {"type": want[0], "index": want[1]})
            self.assertEqual(told["cluster"], ctx.cluster_spec)
        self.assertEqual(self.ctx(["worker", "ps"], "ps", 1, "chief").executor_id, 1)

    def test_a_program_that_wants_a_master_takes_the_chief(self):
        ctx = self.ctx(["chief", "worker"], "chief", 0, "master")
        self.assertEqual(ctx.job_name, "master")
        self.assertEqual(ctx.cluster_spec, {"master": ["c:1"], "worker": HOSTS["worker"]})

    def test_an_evaluator_that_nobody_is_told_of(self):
        ctx = self.ctx(["chief", "worker"], "evaluator", 0, "chief")
        self.assertEqual((ctx.job_name, ctx.task_index, ctx.num_workers), ("evaluator", 0, 3))

    def test_no_tf_config(self):
        ctx = tfos.make_ctx("chief")
        self.assertEqual((ctx.job_name, ctx.task_index, ctx.num_workers, list(ctx.cluster_spec)), ("chief", 0, 1, ["chief"]))
        host, port = ctx.cluster_spec["chief"][0].split(":")
        with socket.socket() as other, self.assertRaises(OSError):
            other.bind((host, int(port)))
        ctx.release_port()
        ctx.release_port()
        with socket.socket() as other:
            other.bind((host, int(port)))
        self.assertNotIn("TF_CONFIG", os.environ)

    def test_paths(self):
        ctx = tfos.make_ctx()
        ctx.release_port()
        self.assertEqual(ctx.absolute_path("/mnt/fuse/x"), "/mnt/fuse/x")
        self.assertEqual(ctx.absolute_path("hdfs://nn:8020/x"), "hdfs://nn:8020/x")
        self.assertEqual(ctx.absolute_path("mnist/x"), os.getcwd() + "/mnist/x")

    def test_what_is_no_tf_config(self):
        for text in ("{", "[]", "{}", '{"cluster": {"worker": ["w"]}, "task": {"type": "worker", "index": 1}}',
                     '{"cluster": {"worker": ["w"]}, "task": {"type": "ps", "index": 0}}', '{"cluster": {}, "task": {"type": "worker"}}'):
            with self.assertRaisesRegex(ValueError, "TF_CONFIG is not that of a TFJob"):
                tfos.read_tf_config(text)
        with self.assertRaisesRegex(ValueError, "enableDynamicWorker"):
            tfos.read_tf_config('{"sparseCluster": {"worker": {"0": "w"}}, "task": {"type": "worker", "index": 0}}')

    def test_rdma_and_data_of_spark_are_refused(self):
        ctx = self.ctx(["worker"], "worker", 0)
        self.assertRaisesRegex(ValueError, "verbs", ctx.start_cluster_server, 1, True)
        self.assertRaisesRegex(RuntimeError, "no Spark here", ctx.get_data_feed)


class Run(Pod):
    def setUp(self):
        super().setUp()
        self.seen = []

    def main(self, args, ctx):
        self.assertIs(args, ARGS)
        self.seen.append((ctx.job_name, ctx.task_index, ctx.worker_num, ctx.num_workers))

    def test_a_cluster(self):
        os.environ["TF_CONFIG"] = config(["chief", "worker"], "chief", 0)
        cluster = tfos.run_cluster(None, self.main, ARGS, 3, 0, master_node="chief")
        cluster.shutdown(grace_secs=30)
        self.assertEqual(self.seen, [("chief", 0, 0, 3)])
        self.assertRaisesRegex(RuntimeError, "no Spark here", cluster.train, None)
        self.assertRaisesRegex(RuntimeError, "no Spark here", cluster.inference, None)

    def test_what_follows_the_shutdown_is_the_drivers(self):
        os.environ["TF_CONFIG"] = config(["chief", "worker"], "worker", 1)
        cluster = tfos.run_cluster(None, self.main, ARGS, 3, 0, master_node="chief")
        with self.assertRaises(SystemExit) as end:
            cluster.shutdown()
        self.assertEqual(end.exception.code, 0)

    def test_what_a_job_has_not(self):
        os.environ["TF_CONFIG"] = config(["worker"], "worker", 0)
        self.assertRaisesRegex(ValueError, "1 parameter servers, the TFJob has 0", tfos.run_cluster, None, self.main, ARGS, 3, 1)
        self.assertRaisesRegex(RuntimeError, "no Spark here", tfos.run_cluster, None, self.main, ARGS, 2, 0, False, tfos.InputMode.SPARK)
        self.assertRaisesRegex(ValueError, "3 instances, the TFJob has 2", tfos.run_parallel, None, self.main, ARGS, 3)
        self.assertEqual(self.seen, [])

    def test_another_number_of_nodes_is_said(self):
        os.environ["TF_CONFIG"] = config(["worker"], "worker", 0)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            tfos.run_cluster(None, self.main, ARGS, 5, tensorboard=True)
        self.assertIn("asks for 5 nodes, the TFJob has 2", said.getvalue())
        self.assertIn("millrace.dev/tensorboard", said.getvalue())

    def parallel(self, n):
        with contextlib.suppress(SystemExit):
            tfos.run_parallel(None, self.main, ARGS, n)
        return [(worker, of) for _, _, worker, of in self.seen]

    def test_instances_of_a_tfjob(self):
        os.environ["TF_CONFIG"] = config(["chief", "worker"], "worker", 1)
        self.assertEqual(self.parallel(3), [(2, 3)])
        self.assertNotIn("TF_CONFIG", os.environ)

    def test_fewer_than_the_job_has(self):
        os.environ["TF_CONFIG"] = config(["worker"], "worker", 1)
        self.assertEqual(self.parallel(1), [])

    def test_instances_of_an_indexed_job(self):
        os.environ["JOB_COMPLETION_INDEX"] = "3"
        self.assertEqual(self.parallel(4), [(3, 4)])

    def test_neither(self):
        self.assertEqual(self.parallel(3), [(0, 3), (1, 3), (2, 3)])


class Program(Pod):
    SOURCE = '''
import argparse
def main_fun(args, ctx):
    from tensorflowonspark import TFNode, compat
    print(args.size, ctx.job_name, ctx.task_index, TFNode.hdfs_path(ctx, "/x"), callable(compat.export_saved_model))
if __name__ == "__main__":
    from pyspark.context import SparkContext
    from pyspark.conf import SparkConf
    from pyspark.sql import SparkSession
    from tensorflowonspark import TFCluster
    sc = SparkContext(conf=SparkConf().setAppName("x").setMaster("local"))
    executors = sc._conf.get("spark.executor.instances")
    assert SparkSession.builder.appName("x").getOrCreate().sparkContext.getConf().get("spark.app.name") == "x"
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=int(executors or 1))
    args = parser.parse_args()
    cluster = TFCluster.run(sc, main_fun, args, args.size, num_ps=0, input_mode=TFCluster.InputMode.TENSORFLOW, master_node="chief")
    cluster.shutdown()
    print("driver")
'''

    def run_program(self, source, *command, **environ):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "program.py"), "w", encoding="utf-8") as file:
                file.write(source)
            return subprocess.run([sys.executable, *command, directory + "/program.py", "--size", "7"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PYTHONPATH": MODULE, **environ})

    def test_it_runs_as_it_is(self):
        done = self.run_program(self.SOURCE, "-m", "tfos", TF_CONFIG=config(["chief", "worker"], "chief", 0))
        self.assertEqual(done.stdout, "7 chief 0 /x True\ndriver\n", done.stderr)

    def test_it_runs_with_an_import(self):
        done = self.run_program("import tfos\n" + self.SOURCE, TF_CONFIG=config(["chief", "worker"], "worker", 1))
        self.assertEqual((done.stdout, done.returncode), ("7 worker 1 /x True\n", 0), done.stderr)

    def test_a_failure_is_one(self):
        done = self.run_program("import tfos, sys\nsys.exit(3)\n")
        self.assertEqual(done.returncode, 3)
        done = self.run_program(self.SOURCE.replace('"/x"', "0"), "-m", "tfos")
        self.assertNotEqual(done.returncode, 0)

    def test_what_spark_does_is_not_played(self):
        done = self.run_program("from pyspark import SparkContext\nSparkContext().textFile('x')", "-m", "tfos")
        self.assertIn("SparkContext.textFile: there is no Spark here", done.stderr)


if __name__ == "__main__":
    unittest.main()
