#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# Every mistake gets an answer that names the object, the field and what to do.
. "$(dirname "$0")/lib.sh"
start_test

refused() # TEXT… -- reads a manifest: the API server must refuse it with all these words
{
    local word
    if n apply -f - >"$WORK/answer" 2>&1; then fail "accepted: $(cat "$WORK/answer")"; fi
    for word; do grep -qiF -- "$word" "$WORK/answer" || fail "no '$word' in: $(cat "$WORK/answer")"; done
    step "refused: $(tail -n 1 "$WORK/answer" | cut -c 1-160)"
}

says() # DATASET REASON TEXT…: its Ready condition
{
    local name=$1 reason=$2 word message=
    shift 2
    within 60 said "$name" "$reason" || fail "not in three minutes: dataset $name says $reason, but: $message"
    for word; do grep -qiF -- "$word" <<<"$message" || fail "no '$word' in: $message"; done
    step "$name: ${message:0:200}"
}
said() { message=$(ready_message "$1") && grep -qiF -- "False $2" <<<"$message"; } # sets message: the next one may be another

s3_up
secret keys "$S3_KEY" "$S3_SECRET"

step "what the examples say is accepted"
find "$ROOT/examples" -name '*.yaml' ! -path '*/kustomize/*' -exec sed -s '$a---' {} + |
    k -n default apply --dry-run=server -f - # whose namespaces refuse nobody

step "refused at once"
dataset ftp ftp://host/x 2>"$WORK/err" && fail "a bad scheme is accepted"
grep mountPoint "$WORK/err" | grep -q s3:// || fail "the answer names neither field nor remedy: $(cat "$WORK/err")"
dataset "$(printf 'a%.0s' $(seq 60))" 2>"$WORK/err" && fail "a long name is accepted"
grep -q 46 "$WORK/err" || fail "the answer does not say how long a name may be: $(cat "$WORK/err")"
refused Chief Worker Evaluator <<YAML
{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: t}, spec: {tfReplicaSpecs: {Slave: {template: {spec: {containers: [{name: tensorflow, image: x}]}}}}}}
YAML
refused tensorflow <<YAML
{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: t}, spec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: main, image: x}]}}}}}}
YAML

step "said in the condition"
dataset nosecret s3://data '' absent >/dev/null
n create secret generic halfway --from-literal=access=x >/dev/null
dataset nokey s3://data '' halfway >/dev/null
dataset nobucket s3://nothere >/dev/null
dataset nohost s3://data http://no-such-host.invalid:7070 >/dev/null
dataset refused s3://data "http://s3.$NS.svc.cluster.local:7071" >/dev/null
says nosecret SecretMissing absent access
says nokey SecretMissing halfway secret
says nobucket BucketNotFound nothere
says nohost NameNotResolved no-such-host.invalid
says refused Unreachable 7071

step "a claim that comes before its dataset"
random_files 1 1000 train
pod early late 'cd /mnt/fuse; sha256sum -c sums.txt'
sleep 2
[ "$(jsonpath pod/early '{.status.phase}')" = Pending ] || fail "the pod does not wait"
dataset late >/dev/null
expect 90 "the early pod has read its data" has_text Succeeded jsonpath pod/early '{.status.phase}'

step "a claim of that name that is somebody else's"
n apply -f - >/dev/null <<YAML
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: taken}, spec: {accessModes: [ReadWriteOnce], storageClassName: other, resources: {requests: {storage: 1Gi}}}}
YAML
dataset taken >/dev/null
says taken NameTaken taken
[ "$(jsonpath pvc/taken '{.spec.storageClassName}')" = other ] || fail "somebody else's claim was changed"

restarts=$(n get pods -l millrace.dev/component -o jsonpath='{range .items[*]}{.status.containerStatuses[*].restartCount} {end}')
[ -z "${restarts//[0 ]/}" ] || fail "pods were restarted: $restarts"
