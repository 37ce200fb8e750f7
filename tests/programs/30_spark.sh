#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: spark
# timeout: 900
# examples/spark, as its README has it: Spark's cluster in pods, and programs for TensorFlowOnSpark in both of its input modes, on a Dataset.
# By content.
. "$(dirname "$0")/../e2e/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null # the examples are written for such ones
STORE=millrace-demo # the namespace of the S3 server in examples/mnist
leave() { k delete namespace "$STORE" --ignore-not-found --wait=false >/dev/null; }
at_end leave
k delete namespace "$STORE" --ignore-not-found --wait --timeout=180s >/dev/null # another test's, on its way
SITE=${XDG_CACHE_HOME:-$HOME/.cache}/millrace

in_store() { k -n "$STORE" exec -i s3 -c s3 -- /bin/busybox "$@"; }
python() { PYTHONPATH=$SITE/spark/site:$SITE/trainer/site PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=2 /usr/bin/python3 "$@"; }

job_ended() { [ -n "$(jsonpath job/spark-mnist '{.status.conditions[?(@.type=="Complete")].status}{.status.conditions[?(@.type=="Failed")].status}')" ]; }

step "digits as TensorFlow Datasets prepares them, in the bucket of examples/mnist"
python "$ROOT/tests/programs/digits_tfds.py" "$WORK/bucket/tensorflow_datasets" "$WORK/sums"
k apply -f "$ROOT/hack/demo.d/s3.yaml" >/dev/null
k -n "$STORE" wait --for=condition=Ready pod/s3 --timeout=180s >/dev/null
tar -C "$WORK/bucket" -cf - . | in_store tar -xf - -C /srv/mnist

step "the page"
reader ln -s "$ROOT/examples" .
reader bash -ec "$(page_block examples/spark/README.md 1)" >/dev/null
expect 240 "the programs have ended" job_ended
if [ "$(jsonpath job/spark-mnist '{.status.succeeded}')" != 1 ]; then
    for program in prepare train-tensorflow train-spark infer; do n logs job/spark-mnist -c "$program" --tail=30 || true; done
    fail "the programs have failed"
fi
nodes=$(n get pods -l 'app=spark-worker' -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u | wc -l)
[ "$nodes" = 2 ] || [ "$(k get nodes -o name | wc -l)" = 1 ] || fail "the executors are on one node: nothing is shown of several"

step "what is in the bucket"
in_store tar -cf - -C /srv/mnist mnist tensorflow spark predictions | tar -xf - -C "$WORK"
python "$ROOT/tests/programs/spark_written.py" "$WORK" "$WORK/sums" || fail "it is not what Spark had to write: $(cd "$WORK" && find mnist tensorflow spark predictions)"
