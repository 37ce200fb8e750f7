#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: tensorflow
# timeout: 600
# examples/imagenet, as its README has it: TFRecords and JPEGs of ImageNet's sizes are read through tf.data, each epoch all of them, from the mount
# and from the node's disk; the loss falls; the weights in the bucket are whole. How fast they came is in the log.
. "$(dirname "$0")/../e2e/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null # the examples are written for such ones
STORE=millrace-demo # the namespace of the S3 server in examples/mnist
leave() { k delete namespace "$STORE" --ignore-not-found --wait=false >/dev/null; }
at_end leave
k delete namespace "$STORE" --ignore-not-found --wait --timeout=180s >/dev/null # another test's, on its way

in_store() { k -n "$STORE" exec -i s3 -c s3 -- /bin/busybox "$@"; }
has_ended() { [ -n "$(jsonpath "job/$1" '{.status.conditions[?(@.type=="Complete")].status}{.status.conditions[?(@.type=="Failed")].status}')" ]; }

step "images, in the bucket of examples/mnist"
PYTHONPATH=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/trainer/site CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=2 \
    /usr/bin/python3 "$ROOT/tests/programs/imagenet_made.py" "$WORK/bucket/imagenet" 4 300
k apply -f "$ROOT/hack/demo.d/s3.yaml" >/dev/null
k -n "$STORE" wait --for=condition=Ready pod/s3 --timeout=180s >/dev/null
tar -C "$WORK/bucket" -cf - . | in_store tar -xf - -C /srv/mnist

step "the page"
reader ln -s "$ROOT/examples" .
reader bash -ec "$(page_block examples/imagenet/README.md 1)" >/dev/null
for form in records files; do
    expect 240 "the program over $form has ended" has_ended "imagenet-$form"
    n logs "job/imagenet-$form" --tail=20 | tee "$WORK/log"
    [ "$(jsonpath "job/imagenet-$form" '{.status.succeeded}')" = 1 ] || fail "the program over $form has failed"
    count=$([ $form = records ] && echo 512 || echo 300)
    [ "$(grep -cE "^epoch [0-2] (mount|disk): $count images, [0-9.]+ images/s, loss [0-9.]+$" "$WORK/log")" = 6 ] || fail "not each epoch has all images"
    awk '/^epoch/ { sub(/.*loss /, ""); loss[++n] = $0 } END { exit !(n == 6 && loss[6] < loss[1] * 0.9) }' "$WORK/log" || fail "the loss did not fall"
done

step "what is in the bucket"
in_store tar -cf - -C /srv/mnist out/imagenet | tar -xf - -C "$WORK"
[ "$(ls "$WORK/out/imagenet" | tr '\n' ' ')" = "files.h5 records.h5 " ] || fail "$(ls "$WORK/out/imagenet")"
PYTHONPATH=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/trainer/site /usr/bin/python3 - "$WORK"/out/imagenet/*.h5 <<'PY' || fail "the weights are not whole"
import sys, h5py, numpy
for path in sys.argv[1:]:
    with h5py.File(path) as file:
        found = []
        file.visititems(lambda name, item: found.append(numpy.asarray(item)) if isinstance(item, h5py.Dataset) else None)
    assert len(found) == 2 and all(numpy.isfinite(part).all() and part.any() for part in found), path
PY
