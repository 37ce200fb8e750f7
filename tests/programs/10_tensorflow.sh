#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: tensorflow
# timeout: 900
# The examples with real TensorFlow in pods, side by side on one Dataset, applied as their READMEs say: a program of TensorFlowOnSpark trains on
# two workers, TensorBoard shows its curve meanwhile, three instances classify with what it exported; a parameter server and two workers train
# beside an evaluator; a model's archive is unpacked and loaded in the mount; a Job, torchrun and a TFJob count the same. By content.
. "$(dirname "$0")/../e2e/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null # the examples are written for such ones
STORE=millrace-demo # the namespace of the S3 server in examples/mnist
leave() { k delete namespace "$STORE" --ignore-not-found --wait=false >/dev/null; }
at_end leave
k delete namespace "$STORE" --ignore-not-found --wait --timeout=180s >/dev/null # another test's, on its way

typed() # COMMANDS: as the reader of a README types them
{
    reader bash -ec "$1" >/dev/null
}

in_store() { k -n "$STORE" exec -i s3 -c s3 -- /bin/busybox "$@"; }

ended_well() # TFJOB|job/NAME
{
    case $1 in
    job/*) [ "$(jsonpath "$1" '{.status.conditions[?(@.type=="Complete")].status}')" = True ] ;;
    *) job_is "$1" Succeeded ;;
    esac
}

await() # SECONDS NAME: that job's end, and what its pods said
{
    expect "$1" "$2 has succeeded" ended_well "$2"
    step "$2 has succeeded"
}

board() # PATH: what the job's TensorBoard answers
{
    k get --raw "/api/v1/namespaces/$NS/services/tfos-tensorboard:6006/proxy/$1"
}

curve() { board "data/plugin/scalars/scalars?run=train&tag=$1"; } # TAG: [[time, step, value]…]
has_curve() { curve "$1" | jq -e "length >= $2"; }                # TAG POINTS

step "digits, pictures and a model, in the bucket of examples/mnist"
export PYTHONPATH=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/trainer/site PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=2
/usr/bin/python3 "$ROOT/tests/programs/digits.py" "$WORK/bucket" "$WORK/sums"
/usr/bin/python3 "$ROOT/tests/programs/pictures.py" "$WORK/made"
mkdir "$WORK/bucket/models"
tar -C "$WORK/made" -czf "$WORK/bucket/models/recognition.tgz" recognition
mv "$WORK/made/images" "$WORK/bucket/"
k apply -f "$ROOT/hack/demo.d/s3.yaml" >/dev/null
k -n "$STORE" wait --for=condition=Ready pod/s3 --timeout=180s >/dev/null
tar -C "$WORK/bucket" -cf - . | in_store tar -xf - -C /srv/mnist
for node in $(k get nodes -o name); do # the names of the images that the examples ask for
    "$ROOT/hack/cluster" exec "${node#node/}" ctr -n k8s.io images tag --force localhost/millrace-trainer:1 docker.io/library/python:3.11-slim
    "$ROOT/hack/cluster" exec "${node#node/}" ctr -n k8s.io images tag --force localhost/millrace-torch:1 \
        docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
done >/dev/null

step "all of them"
reader ln -s "$ROOT/examples" .
typed "$(page_block examples/parameter-server/README.md 1)"
typed "$(page_block examples/tfos/README.md 1)"
typed "$(page_block examples/recognition/README.md 1)"
typed "$(page_block examples/one-job-three-ways/README.md 1)"

step "TensorBoard shows the curve while the job writes it"
expect 120 "a loss: $(board data/runs || true)" has_curve epoch_loss 1
job_is tfos Running || fail "the job had ended before: $(jsonpath tfjob/tfos '{.status.conditions}')"
beside=$(n get pods -l millrace.dev/component=tensorboard -o jsonpath='{.items[0].spec.nodeName}')
[ "$beside" = "$(jsonpath pod/tfos-chief-0 '{.spec.nodeName}')" ] ||
    fail "TensorBoard is not on the chief's node, where what is written is seen at once"

await 240 tfos
typed "$(page_block examples/inference/README.md 1)"
for name in job/recognition job/count job/count-torchrun count; do await 120 "$name"; done
step "what was in the pictures"
n logs job/recognition | tee "$WORK/recognition"
for kind in lying standing; do
    [ "$(grep -m 1 "^$kind.jpg: " "$WORK/recognition" | cut -d ' ' -f 2)" = "$kind" ] || fail "$kind.jpg was taken for something else"
done
await 240 inference
await 420 parameter-server

step "what is in the bucket"
in_store tar -cf - -C /srv/mnist out models | tar -xf - -C "$WORK"
diff -r "$WORK/made/recognition" "$WORK/models/recognition" || fail "the archive was unpacked to something else"
for way in job tfjob torchrun; do
    [ "$(find "$WORK/out/count-$way" -type f | wc -l)" = 2 ] || fail "count-$way: $(ls "$WORK/out/count-$way")"
    sort "$WORK/out/count-$way"/part-0000[01] | cmp - "$WORK/sums" || fail "count-$way found something else"
done

for pod in tfos-chief-0 tfos-worker-0; do
    n logs "$pod" | grep ' of 2: loss ' | tee "$WORK/loss"
    awk '{ bad = !($8 < $6 / 2) } END { exit bad || !NR }' "$WORK/loss" || fail "the loss of $pod did not fall"
done
n logs tfos-chief-0 | grep -q '^the driver goes on$' || fail "the chief does not go on as the driver"
for file in model/weights-0010.index model/checkpoint export/saved_model.pb export/variables/variables.index; do
    [ -s "$WORK/out/tfos/$file" ] || fail "$file is not in the bucket: $(find "$WORK/out" -type f)"
done
expect 30 "TensorBoard has ten epochs" has_curve epoch_loss 10
curve epoch_loss | jq -e '.[9][2] < .[0][2] / 2' >/dev/null || fail "the curve does not fall: $(curve epoch_loss)"

for part in 0 1 2; do [ "$(wc -l <"$WORK/out/predictions/part-0000$part")" = 200 ] || fail "part $part is not of two files"; done
[ "$(find "$WORK/out/predictions" -type f | wc -l)" = 3 ] || fail "$(ls "$WORK/out/predictions")"
cat "$WORK"/out/predictions/part-* | awk '$1 == $2 { right++ } END { print right " of " NR; exit !(NR == 600 && right > 540) }' || fail "wrong predictions"

n logs parameter-server-chief-0 | grep '^chief: epoch' | awk '{ loss[$3] = $5 } END { exit !(loss[3] < loss[1] / 2) }' || fail "the loss did not fall"
awk '{ print "accuracy " $1; exit !($1 > 0.9) }' "$WORK/out/parameter-server/accuracy-3" || fail "the evaluator was not content"
[ -s "$WORK/out/parameter-server/epoch-3.index" ] || fail "no checkpoint in the bucket"
