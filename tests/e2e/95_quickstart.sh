#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# docs/quickstart.md as its reader types it, the installation included: what each command prints is what the page shows.
. "$(dirname "$0")/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null # the page's job is written for such ones

step "the reader's bucket"
s3_up
n exec s3 -c s3 -- /bin/busybox mkdir -p /srv/my-bucket
for i in 1 2 3 4; do
    head -c 3000000 /dev/urandom >"$WORK/part"
    put "$WORK/part" "part-$i"
    n exec s3 -c s3 -- /bin/busybox sh -c "mkdir -p /srv/my-bucket/imagenet/train && mv /srv/data/part-$i /srv/my-bucket/imagenet/train/"
done

step "a cluster without Millrace, with the page's images"
helm uninstall "$RELEASE" --namespace "$SYSTEM" --ignore-not-found --wait --timeout 2m
k delete namespace "$SYSTEM" --ignore-not-found --wait --timeout=120s
for node in $(k get nodes -o name); do
    "$ROOT/hack/cluster" exec "${node#node/}" ctr -n k8s.io images tag --force "$TEST_IMAGE" docker.io/library/busybox:1.37
done

step "the page"
reader ln -s "$ROOT/charts" .
printf 'AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\nAWS_ENDPOINT_URL=http://s3.%s.svc.cluster.local:7070\n' "$S3_KEY" "$S3_SECRET" "$NS" >"$WORK/reader/s3.env"
reader env HELM_ARGS="" python3 "$ROOT/tests/e2e/pages.py" run "$ROOT/docs/quickstart.md" ||
    fail "docs/quickstart.md is not what happens"
