#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# helm install and upgrade with the real Helm; what was there before is noted, for 99_uninstall.sh to compare with.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/traces.sh"

helm lint "$ROOT/charts/millrace"
helm template x "$ROOT/charts/millrace" --kube-version 1.34.0 --namespace y >"$WORK/rendered.yaml"
! helm template x "$ROOT/charts/millrace" --kube-version 1.34.0 --set csi.kubeletDir=relative >"$WORK/bad" 2>&1 || fail "a relative kubeletDir is accepted"
grep -q kubeletDir "$WORK/bad" || fail "the error does not name the value: $(cat "$WORK/bad")"
while read -r value words; do
    ! helm template x "$ROOT/charts/millrace" --kube-version 1.34.0 --set "$value" >"$WORK/bad" 2>&1 || fail "$value is accepted"
    grep -qF -- "$words" "$WORK/bad" || fail "$value: the error does not say '$words': $(cat "$WORK/bad")"
done <<'END'
limits.tierQuota=100GB limits.tierQuota is 100GB, which is no size as Kubernetes writes them: 100Gi
limits.tierQuota=100m no part of a byte
limits.namespaceSelector.matchExpressions[0].key=team missing property 'operator'
gpuSlices.enabled=true,gpuSlices.mps.pipeDir=/run/mps a share's memory is known only with gpuSlices.memory
gpuSlices.enabled=true,openshift.enabled=true SELinux keeps this device plugin from kubelet's socket on OpenShift
gpuSlices.memory=5TB does not match pattern
END
helm template x "$ROOT/charts/millrace" --kube-version 1.34.0 --set limits.tierQuota=1.5Ti >"$WORK/good" || fail "1.5Ti is refused"

helm uninstall "$RELEASE" --namespace "$SYSTEM" --ignore-not-found --no-hooks --wait --timeout 2m # of a run before this one
traces >"$ROOT/build/e2e-before.txt"
step "what helm install tells"
helm install "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --create-namespace --dry-run=server >"$WORK/told"
for words in "Expect 2 pods millrace-operator, and one millrace-csi on each Linux node" "create secret generic s3-keys --from-env-file=s3.env" \
    "The first command deletes EVERY TEAM'S TFJobs, loads and Datasets" "which no registry has: nodes find it only if it was imported"; do
    grep -qF -- "$words" "$WORK/told" || fail "the notes do not say '$words': $(sed -n '/^NOTES/,$p' "$WORK/told")"
done
! grep -qE 'FLUID|THIS IS GKE|--from-literal' "$WORK/told" || fail "the notes say what is not so here: $(sed -n '/^NOTES/,$p' "$WORK/told")"
helm install "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --create-namespace --dry-run=server --set image.repository=registry.example/ml/millrace >"$WORK/told"
! grep -qF "which no registry has" "$WORK/told" || fail "the notes say of an image with a registry that it has none"
step "helm install"
helm upgrade --install "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --create-namespace --wait --timeout 2m
step "helm upgrade"
helm upgrade "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --set logLevel=debug --set csi.callers=true --set 'metrics.namespaces={monitoring}' --wait --timeout 2m
step "what it tells to paste can be pasted"
helm get notes "$RELEASE" -n "$SYSTEM" | sed -n '/^kubectl apply -f - /,/^YAML$/p' | sed 's/kubectl apply/& --dry-run=server -n default/' >"$WORK/paste"
has_text "mydata created" timeout 60 bash -eu "$WORK/paste" || fail "it cannot: $(bash -eu "$WORK/paste" 2>&1)"
k -n "$SYSTEM" get pods -o wide
[ "$(k get csidriver csi.millrace.dev -o jsonpath='{.spec.attachRequired}')" = true ] || fail "attachRequired is not true"
for node in $(k get nodes -o name); do
    expect 30 "the driver is registered on $node" has_text csi.millrace.dev k get "csinode/${node#node/}" -o yaml
done

step "a second release"
for crds in true false; do
    ! helm install second "$ROOT/charts/millrace" -n default --set crds.install=$crds >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
    for words in "Millrace is installed already, as release $RELEASE in namespace $SYSTEM." "helm upgrade $RELEASE charts/millrace -n $SYSTEM"; do
        grep -qF -- "$words" "$WORK/answer" || fail "the refusal does not say '$words': $(cat "$WORK/answer")"
    done
done

step "policies that the API server has no doubts of"
checked() { k get validatingadmissionpolicies -l "app.kubernetes.io/instance=$RELEASE" -o json | jq -e '.items | length > 0 and all(.status.observedGeneration == .metadata.generation)'; }
expect 60 "they are checked" checked
doubts=$(k get validatingadmissionpolicies -l "app.kubernetes.io/instance=$RELEASE" -o json | jq -r '.items[].status.typeChecking.expressionWarnings // [] | .[].warning')
[ -z "$doubts" ] || fail "doubts: $doubts"

step "least privilege"
allowed() { k auth can-i "$@" -q; }
account=system:serviceaccount:$SYSTEM:$RELEASE
! allowed get secrets --all-namespaces --as "$account-operator" || fail "the operator may read Secrets"
for verb in list watch patch update delete; do
    ! allowed "$verb" secrets --all-namespaces --as "$account-operator" || fail "the operator may $verb Secrets"
done
allowed get secret/millrace-key -n "$SYSTEM" --as "$account-operator" || fail "the operator may not read its own key"
! allowed get secret/other -n "$SYSTEM" --as "$account-operator" || fail "the operator may read other Secrets of its namespace"
has_key() { [ "$(k -n "$SYSTEM" get secret millrace-key -o jsonpath='{.data.key}' | base64 -d | wc -c)" = 64 ]; } # once one operator leads
expect 60 "the installation has a key" has_key
! allowed create pods --subresource=exec --all-namespaces --as "$account-operator" || fail "the operator may exec into pods"
for what in "delete datasets" "patch tfjobs" "patch dataloads" "get nodes" "patch volumeattachments" "update clusterroles"; do
    # shellcheck disable=SC2086 # verb and kind
    ! allowed $what --all-namespaces --as "$account-operator" || fail "the operator may $what"
done
! allowed patch nodes --as "$account-operator" || fail "the operator may change nodes"
allowed create pods --all-namespaces --as "$account-operator" || fail "the operator may not create pods"
for verb in get list create delete; do
    ! allowed "$verb" pods --all-namespaces --as "$account-csi" || fail "the node plugin may $verb pods"
done
