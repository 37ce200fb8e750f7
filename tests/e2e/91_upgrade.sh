#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# alone
# docs/install/upgrade.md, command by command: an upgrade with a change of a CustomResourceDefinition, beside a pod that reads; back
# again; an image that is not there; CustomResourceDefinitions that are somebody else's; from kubectl apply to Helm; and an uninstallation
# while somebody has Datasets (docs/install/uninstall.md).
. "$(dirname "$0")/lib.sh"
start_test
CHART=$WORK/charts/millrace
mkdir "$WORK/charts"
cp -r "$ROOT/charts/millrace" "$CHART"

column() { k get crd datasets.millrace.dev -o jsonpath='{.spec.versions[*].additionalPrinterColumns[*].name}'; }
step "a pod that reads"
s3_up
random_files 1 3000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data >/dev/null
pod reader data 'cd /mnt/fuse; while true; do sha256sum -c sums.txt; sleep 1; done'
expect 90 "the pod reads" has_text "part-1: OK" n logs reader

step "upgrade: $(page_block docs/install/upgrade.md 1)"
sed -i 's/^    additionalPrinterColumns:$/&\n    - {name: Played, type: string, jsonPath: .metadata.name}/' "$CHART/files/crds/millrace.dev_datasets.yaml"
echo 'braces: "{{ .Values }} in a file of the chart mean nothing"' | sed 's/^/# /' >>"$CHART/files/crds/millrace.dev_datasets.yaml"
if has_text Played column; then fail "the column was there before"; fi
(cd "$WORK" && bash -euc "$(page_block docs/install/upgrade.md 1)") >/dev/null
has_text Played column || fail "helm upgrade does not upgrade the CRD"
has_text keep k get crd datasets.millrace.dev -o jsonpath='{.metadata.annotations.helm\.sh/resource-policy}' || fail "helm uninstall would take the CRD along"
n wait --for=condition=Ready dataset.millrace.dev/data --timeout=60s

step "back: $(page_block docs/install/upgrade.md 2)"
bash -euc "$(page_block docs/install/upgrade.md 2)"
if has_text Played column; then fail "the roll-back leaves the CRD"; fi

step "an image that nobody can pull: what is there goes on, and serves new pods"
! helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-then-reuse-values --set image.tag=0.0.0-missing --wait --timeout 20s >"$WORK/answer" 2>&1 ||
    fail "accepted: $(cat "$WORK/answer")"
served=$(k -n "$SYSTEM" get pods -l millrace.dev/component=csi -o json |
    jq -r '[.items[] | select(all(.status.containerStatuses[]; .ready)).spec.nodeName][0]')
dataset late >/dev/null
pod late late 'cd /mnt/fuse; sha256sum -c sums.txt' "$served"
expect 60 "a pod on $served reads: $(n describe pod late | tail -n 3)" has_text Succeeded jsonpath pod/late '{.status.phase}'
helm rollback "$RELEASE" -n "$SYSTEM" --wait --timeout 90s
n delete pod,dataset late --timeout=60s >/dev/null

step "a CustomResourceDefinition of another release"
k annotate --overwrite crd tfjobs.kubeflow.org meta.helm.sh/release-name=other >/dev/null
! helm upgrade "$RELEASE" "$CHART" -n "$SYSTEM" >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
cat "$WORK/answer"
for word in "tfjobs.kubeflow.org" "Helm release other in namespace $SYSTEM" tfjob.enabled=false crds.install=false; do
    grep -qF -- "$word" "$WORK/answer" || fail "the answer does not say $word"
done
has_text other k get crd tfjobs.kubeflow.org -o jsonpath='{.metadata.annotations}' || fail "the CRD was changed"
step "taken over as it says"
bash -euc "$(grep -E '^ *kubectl (label|annotate)' "$WORK/answer")"
helm upgrade "$RELEASE" "$CHART" -n "$SYSTEM" >/dev/null
step "kinds that Helm would delete, with all that is of them"
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values --set crds.keep=false >/dev/null
for value in tfjob.enabled crds.install; do
    ! helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values --set crds.keep=false --set "$value=false" >"$WORK/answer" 2>&1 ||
        fail "$value=false is accepted"
    grep -qF "Helm would delete " "$WORK/answer" || fail "$value=false: $(cat "$WORK/answer")"
done
bash -euc "$(grep -E '^ *kubectl annotate' "$WORK/answer")" >/dev/null # of the last answer: all of them
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values --set crds.install=false >/dev/null
jsonpath dataset/data '{.metadata.deletionTimestamp}' | grep . && fail "the Dataset is being deleted"
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values >/dev/null

step "what Kubernetes does not change, and a kind that is going"
! helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values --set cachePods.priorityClass.value=2000 >"$WORK/answer" 2>&1 || fail "accepted"
grep -qF -- "--set cachePods.priorityClassName=millrace-cache-2000" "$WORK/answer" || fail "another value: $(cat "$WORK/answer")"
n apply -f - >/dev/null <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "DataLoad", "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    "spec": {"dataset": {"name": "nothing"}, "target": [{"path": "/"}]}}'
k delete crd dataloads.millrace.dev --wait=false >/dev/null
! helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values >"$WORK/answer" 2>&1 || fail "accepted, though a kind is going"
grep -qF "These kinds are being deleted, with all their objects: dataloads.millrace.dev" "$WORK/answer" || fail "$(cat "$WORK/answer")"
n patch dataload held --type=merge -p '{"metadata": {"finalizers": null}}' >/dev/null
k wait --for=delete crd/dataloads.millrace.dev --timeout=60s >/dev/null
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values >/dev/null
has_text dataloads k get crd -o name || fail "the kind is not there again"

step "from kubectl apply to Helm, as the page says"
helm get manifest "$RELEASE" -n "$SYSTEM" >"$WORK/all.yaml"
k annotate -f "$WORK/all.yaml" meta.helm.sh/release-name- meta.helm.sh/release-namespace- >/dev/null
k -n "$SYSTEM" delete secret -l "owner=helm,name=$RELEASE" >/dev/null
before=$(k -n "$SYSTEM" get pods -o name | sort)
! helm install "$RELEASE" "$CHART" -n "$SYSTEM" >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
for words in "no release of Helm" "--take-ownership"; do
    grep -qF -- "$words" "$WORK/answer" || fail "the answer does not say '$words': $(cat "$WORK/answer")"
done
bash -euc "$(page_block docs/install/upgrade.md 4)" >/dev/null
(cd "$WORK" && bash -euc "$(page_block docs/install/upgrade.md 3)") >/dev/null
sleep 2
k get -f "$WORK/all.yaml" -o name >"$WORK/names"
while read -r object; do
    has_text "meta.helm.sh/release-name" k get "$object" -n "$SYSTEM" -o jsonpath='{.metadata.annotations}' || fail "$object is nobody's now"
done <"$WORK/names"
[ "$(k -n "$SYSTEM" get pods -o name | sort)" = "$before" ] || fail "pods were replaced: $before"
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values --set logLevel=debug --wait --timeout 90s >/dev/null

step "a namespace that admits no privileged pods"
k create namespace "$NS-2" >/dev/null
k label namespace "$NS-2" pod-security.kubernetes.io/enforce=baseline >/dev/null
! helm install second "$CHART" -n "$NS-2" --set crds.install=false >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
k delete namespace "$NS-2" --wait=false >/dev/null
grep -qF "kubectl label namespace $NS-2 pod-security.kubernetes.io/enforce=privileged" "$WORK/answer" || fail "the answer says no remedy: $(cat "$WORK/answer")"

step "helm uninstall, while somebody has a Dataset"
! helm uninstall "$RELEASE" -n "$SYSTEM" >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
cat "$WORK/answer"
grep -q "namespace $NS: 1 Datasets (data)" "$WORK/answer" || fail "the answer does not name the Dataset"
grep -q "namespace $NS: 1 Datasets (data)" <(k -n "$SYSTEM" logs "job/$RELEASE-uninstall-check") || fail "the log of the job does not name the Dataset"
[ "$(k -n "$SYSTEM" get deployment "$RELEASE-operator" -o jsonpath='{.status.readyReplicas}')" = 2 ] || fail "something was removed"
helm rollback "$RELEASE" "$(helm status "$RELEASE" -n "$SYSTEM" | sed -n 's/^REVISION: //p')" -n "$SYSTEM" --wait --timeout 90s
k -n "$SYSTEM" delete "job/$RELEASE-uninstall-check" >/dev/null
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reset-values --set logLevel=debug --wait --timeout 90s >/dev/null

step "all the while"
n logs reader | sort | uniq -c
! grep -qv ': OK$' <(n logs reader) || fail "a read failed"
[ "$(jsonpath pod/reader '{.status.containerStatuses[0].restartCount} {.status.phase}')" = "0 Running" ] || fail "the reader was restarted"
n delete pod reader --wait --timeout=60s >/dev/null
n delete datasets.millrace.dev data --wait --timeout=60s >/dev/null
