#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: tensorflow
# timeout: 300
# examples/pytorch with real PyTorch, as docs/guides/pytorch.md has it applied: two pods wait until the images are in the cache, torchrun ties
# them together, a ResNet is trained on both, and its checkpoint is in the other Dataset's bucket.
. "$(dirname "$0")/../e2e/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null # the examples are written for such ones

is_complete() { [ "$(jsonpath job/resnet '{.status.conditions[?(@.type=="Complete")].status}')" = True ]; }
gates() { n get pods -l job-name=resnet -o jsonpath='{.items[*].spec.schedulingGates[*].name}'; }

step "the reader's bucket, and keys"
s3_up
PYTHONPATH=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/trainer/site CUDA_VISIBLE_DEVICES='' /usr/bin/python3 "$ROOT/tests/programs/pictures.py" "$WORK/made"
in_bucket mkdir -p /srv/my-bucket/imagenet
tar -C "$WORK/made" -cf - train | n exec -i s3 -c s3 -- /bin/busybox tar -xf - -C /srv/my-bucket/imagenet
reader ln -s "$ROOT/examples" .
printf 'AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\nAWS_REGION=us-east-1\nAWS_ENDPOINT_URL=http://s3.%s.svc.cluster.local:7070\n' \
    "$S3_KEY" "$S3_SECRET" "$NS" >"$WORK/reader/s3.env"
for node in $(k get nodes -o name); do # the name of the image that the example asks for
    "$ROOT/hack/cluster" exec "${node#node/}" ctr -n k8s.io images tag --force localhost/millrace-torch:1 \
        docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
done >/dev/null

step "the page"
reader bash -c "$(page_block docs/guides/pytorch.md 1)" || true # whoever follows the log must ask again where the pods start late
[ "$(jsonpath dataset/imagenet '{.status.preload.percent}')" = 100 ] || fail "the images are not in the cache: $(ready_message imagenet)"
expect 30 "the pods wait no more" [ -z "$(gates)" ]
expect 240 "two epochs on two nodes" is_complete

n logs -l job-name=resnet --prefix --tail=20 | grep 'epoch' | tee "$WORK/log"
grep -qE 'epoch 0: loss [0-9.]+$' "$WORK/log" && grep -qE 'epoch 1: loss [0-9.]+$' "$WORK/log" || fail "no two epochs"
[ "$(in_bucket find /srv/my-bucket/runs/resnet -type f)" = /srv/my-bucket/runs/resnet/checkpoint.pt ] ||
    fail "$(in_bucket find /srv/my-bucket/runs)"
in_bucket cat /srv/my-bucket/runs/resnet/checkpoint.pt >"$WORK/checkpoint.pt"
python3 - "$WORK/checkpoint.pt" <<'PY' || fail "the checkpoint is not whole"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as file:
    assert file.testzip() is None and sum(entry.file_size for entry in file.infolist()) > 44e6, file.namelist()
PY
