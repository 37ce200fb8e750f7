#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# An operator for one namespace: what it does there, and that its account may do nothing elsewhere.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
secret keys "$S3_KEY" "$S3_SECRET"
random_files 1 100000 train
as_operator() { k auth can-i --as "system:serviceaccount:$SYSTEM:$RELEASE-operator" "$@"; }
[ "$(as_operator create pods --all-namespaces)" = yes ] || fail "an operator of all namespaces may not make pods"
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-then-reuse-values --set "watchNamespace=$NS" --wait --timeout 2m >/dev/null

dataset data
# shellcheck disable=SC2016
pod reader data 'cd /mnt/fuse && sha256sum -c sums.txt && sleep 1000'
expect 120 "the pod reads" has_text OK n logs reader
for what in "create pods" "delete persistentvolumeclaims" "create secrets" "patch datasets.millrace.dev" "delete networkpolicies"; do
    # shellcheck disable=SC2086
    [ "$(as_operator $what -n "$NS")" = yes ] || fail "it may not $what where it works"
    # shellcheck disable=SC2086
    ! as_operator $what -n default >"$WORK/answer" || fail "it may $what in another namespace: $(cat "$WORK/answer")"
done
k -n "$SYSTEM" logs -l millrace.dev/component=operator --tail=-1 >"$WORK/operator.log"
! grep -i forbidden "$WORK/operator.log" || fail "it asks for what it may not have"

step "it is not taken away from its Datasets"
narrow() { helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-then-reuse-values --set "$1" --dry-run=server 2>&1; }
if narrow watchNamespace=default >"$WORK/refused"; then fail "another namespace is taken, and Dataset $NS/data is nobody's"; fi
grep -qF "Dataset $NS/data" "$WORK/refused" || fail "the refusal names no Dataset: $(cat "$WORK/refused")"
narrow watchNamespace= >/dev/null || fail "all namespaces are refused"

n get dataset data -o json | jq 'del(.metadata.uid, .metadata.resourceVersion, .status, .metadata.finalizers, .metadata.ownerReferences) | .metadata.namespace = "default"' |
    k create -f - >/dev/null
step "another namespace is let alone"
sleep 3
[ -z "$(k -n default get dataset data -o jsonpath='{.status.phase}')" ] || fail "a Dataset of another namespace is worked on"

step "and that is said, wherever somebody looks"
millrace() { "$BUILD/bin/millrace" "$@" -n default; }
says() # WORDS COMMAND…
{
    local words=$1 said
    shift
    said=$("$@" 2>&1) || true
    grep -qF -- "$words" <<<"$said" || fail "no '$words' in: $said"
}
says "Unknown WaitingForOperator" bash -c "kubectl -n default get dataset data --no-headers | awk '{print \$2, \$3}'"
only="Millrace watches namespace $NS only"
says "dataset data waits for Millrace, and $only, not default (value watchNamespace of its chart)" millrace why dataset/data
says "not Ready ($only: value watchNamespace)" millrace status
says "note    operator: $only (value watchNamespace)" millrace doctor
says "as default/data: $only" millrace doctor
restricted data 'exit 0' main | jq '{apiVersion: "v1", kind: "Pod", metadata: {name: "gated", labels: {"millrace.dev/data": "Ready"}},
    spec: (. + {schedulingGates: [{name: "millrace.dev/data"}]})}' | k -n default create -f - >/dev/null
says "pod gated waits for Millrace, and $only" millrace why pod/gated
says "helm upgrade $RELEASE charts/millrace -n $SYSTEM --reset-then-reuse-values --set watchNamespace=" millrace why pod/gated
k -n default delete pod gated --now >/dev/null
k -n default delete dataset data >/dev/null

n delete pod reader --now >/dev/null
n delete dataset data >/dev/null
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-then-reuse-values --set watchNamespace= --wait --timeout 2m >/dev/null
[ "$(as_operator create pods --all-namespaces)" = yes ] || fail "an operator of all namespaces may not make pods any more"
k get roles -A -o name | grep -q -- '-watched' && fail "the Role is left behind"
exit 0
