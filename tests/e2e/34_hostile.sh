#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 360
# Somebody who may make pods in his own namespace, and a stolen operator's account: what they must not get.
. "$(dirname "$0")/lib.sh"
start_test
leave()
{
    k delete volumeattachment e2e-theirs --ignore-not-found --wait=false >/dev/null 2>&1
    k delete namespace "$NS-open" --ignore-not-found --wait --timeout=60s >/dev/null 2>&1
}
at_end leave
k delete namespace "$NS-open" --ignore-not-found --wait --timeout=60s >/dev/null
k create namespace "$NS-open" >/dev/null

refused() # WHAT MANIFEST WORD…
{
    local what=$1 manifest=$2 answer
    shift 2
    ! answer=$("${who[@]}" create -f - <<<"$manifest" 2>&1) || fail "$what is accepted: $answer"
    for word; do grep -qF -- "$word" <<<"$answer" || fail "$what: no '$word' in: $answer"; done
    step "refused: $what"
}

hostile() # NAME VOLUME [MORE OF THE METADATA]; in a namespace that admits everything
{
    cat <<EOF
{apiVersion: v1, kind: Pod, metadata: {name: $1, namespace: $NS-open${3:+, $3}}, spec: {containers: [{name: c, image: $TEST_IMAGE, command: [/bin/sleep, "1000"],
  volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, $2}]}}
EOF
}

object() # KIND NAMESPACE SPEC METADATA
{
    echo "{apiVersion: ${5:-v1}, kind: $1, metadata: {name: stolen, namespace: $2, $4}, $3}"
}

deployment() # NAMESPACE PART OF THE POD'S SPEC [METADATA]
{
    object Deployment "$1" "spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
        spec: {containers: [{name: c, image: $TEST_IMAGE}], $2}}}" "${3-$JOB}" apps/v1
}
CLAIM="spec: {accessModes: [ReadWriteMany], storageClassName: '', volumeName: millrace-x, resources: {requests: {storage: 1Gi}}}"

cannot() # WHAT WORDS ARGUMENT…: kubectl's, refused with those words
{
    local what=$1 words=$2 answer
    shift 2
    ! answer=$("${who[@]}" "$@" 2>&1) || fail "it can $what: $answer"
    grep -qF -- "$words" <<<"$answer" || fail "who would $what is told: $answer"
    step "refused: $what"
}

INLINE="csi: {driver: csi.millrace.dev, volumeAttributes: {kind: client, uid: 11111111-2222-3333-4444-555555555555}}"
OWNER="ownerReferences: [{apiVersion: millrace.dev/v1alpha1, kind: Dataset, name: x, uid: 11111111-2222-3333-4444-555555555555, controller: true}]"
who=(k)
refused "a pod with a volume of the driver" "$(hostile inline "$INLINE")" "is for Millrace's own pods" "PersistentVolumeClaim"
refused "one that says it belongs to a Dataset" "$(hostile inline "$INLINE" "$OWNER")" "is for Millrace's own pods"

# With the operator's rights, and no more.
who=(k --as "system:serviceaccount:$SYSTEM:$RELEASE-operator")
refused "a volume of the node's disk" '{apiVersion: v1, kind: PersistentVolume, metadata: {name: millrace-stolen}, spec: {capacity: {storage: 1Gi},
  accessModes: [ReadWriteOnce], hostPath: {path: /}}}' "csi.millrace.dev alone"
refused "a Secret of its own" "{apiVersion: v1, kind: Secret, metadata: {name: stolen, namespace: $SYSTEM}}" "with the keys of Datasets alone"
refused "a token of another account" "{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: millrace-key-stolen, namespace: $SYSTEM,
  annotations: {kubernetes.io/service-account.name: default}, $OWNER}}" "with the keys of Datasets alone"
refused "a NetworkPolicy that is no Dataset's" "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: stolen, namespace: $SYSTEM},
  spec: {podSelector: {}, ingress: [{}]}}" "NetworkPolicies of Datasets alone"
who=(k)
"${who[@]}" create -f - >/dev/null <<<"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: theirs, namespace: $SYSTEM}, spec: {podSelector: {matchLabels: {a: b}}}}"
who=(k --as "system:serviceaccount:$SYSTEM:$RELEASE-operator")
! answer=$("${who[@]}" -n "$SYSTEM" delete networkpolicy theirs 2>&1) || fail "the operator deletes a NetworkPolicy of others"
grep -qF "NetworkPolicies of Datasets alone" <<<"$answer" || fail "another refusal: $answer"
k -n "$SYSTEM" delete networkpolicy theirs >/dev/null
refused "a pod of a Dataset with a directory of the node" "$(hostile stolen "hostPath: {path: /}" "$OWNER")" "no directories of the node"
refused "a pod of a Dataset with another image" "$(hostile stolen "emptyDir: {}" "$OWNER")" "have an image of Millrace's repository"
refused "a pod of a job with a volume of the driver" \
    "$(hostile stolen "$INLINE" "ownerReferences: [{apiVersion: kubeflow.org/v1, kind: TFJob, name: x, uid: 11111111-2222-3333-4444-555555555555, controller: true}]")" \
    "is for Millrace's own pods"
image=$(k -n "$SYSTEM" get deployment "$RELEASE-operator" -o jsonpath='{.spec.template.spec.containers[0].image}')
cache_pod() # PART OF THE SPEC [NAMESPACE]
{
    echo "{apiVersion: v1, kind: Pod, metadata: {name: stolen, namespace: ${2:-$NS-open}, $OWNER}, spec: {containers: [{name: c, image: $image}], $1}}"
}
refused "a pod of a Dataset with another image that runs first" "$(cache_pod "initContainers: [{name: i, image: $TEST_IMAGE}]")" "have an image of Millrace's repository"
refused "a pod of a Dataset with privileges that runs first" \
    "$(cache_pod "initContainers: [{name: i, image: $image, securityContext: {privileged: true}}]")" "no privileges"
refused "a pod of a Dataset with a capability" \
    "$(cache_pod "initContainers: [{name: i, image: $image, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]")" "no privileges"
refused "a pod of a Dataset that sees the node's processes" "$(cache_pod "hostPID: true")" "no privileges"


# Who owns it is what its maker says: so it is not what saves the nodes. In a namespace that admits everything, and in the release's.
pod_of_job() # NAMESPACE PART OF THE SPEC [METADATA]
{
    echo "{apiVersion: v1, kind: Pod, metadata: {name: stolen, namespace: $1, ${3-$JOB}}, spec: {containers: [{name: c, image: $TEST_IMAGE}], $2}}"
}
k -n "$NS-open" create -f - >/dev/null <<<"{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x}, spec: {runPolicy: {suspend: true}, tfReplicaSpecs: {Worker: {template: {spec: {
  containers: [{name: tensorflow, image: $TEST_IMAGE}]}}}}}}"
JOB="ownerReferences: [{apiVersion: kubeflow.org/v1, kind: TFJob, name: x, uid: $(k -n "$NS-open" get tfjob x -o jsonpath='{.metadata.uid}'), controller: true}]"
PLAIN="automountServiceAccountToken: false"
ROOT_OF_NODE="initContainers: [{name: i, image: $TEST_IMAGE, securityContext: {privileged: true}}]"
refused "a pod of nobody" "$(pod_of_job "$NS-open" "$PLAIN" "")" "of Datasets, DataLoads and TFJobs alone"
refused "a pod of another kind of job" "$(pod_of_job "$NS-open" "$PLAIN" "${JOB/kind: TFJob/kind: PyTorchJob}")" "of Datasets, DataLoads and TFJobs alone"
refused "a pod that is not controlled by its job" "$(pod_of_job "$NS-open" "$PLAIN" "${JOB/, controller: true/}")" "of Datasets, DataLoads and TFJobs alone"
refused "a pod of a job with privileges" "$(pod_of_job "$NS-open" "$ROOT_OF_NODE")" "no pods with privileged" "tfjob.hostAccess"
refused "a pod of a job that sees the node's processes" "$(pod_of_job "$NS-open" "hostPID: true")" "no pods with hostPID"
refused "a pod of a job with all capabilities" "$(pod_of_job "$NS-open" \
    "initContainers: [{name: i, image: $TEST_IMAGE, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]")" "no pods with privileged"
for namespace in "$SYSTEM" kube-system; do
    refused "a pod of a job in $namespace" "$(pod_of_job "$namespace" "$PLAIN")" "none in $namespace"
    refused "a Deployment in $namespace" "$(deployment "$namespace" "$PLAIN")" "none in $namespace"
done
refused "a pod of a Dataset in the plugin's namespace" "$(cache_pod "$PLAIN" "$SYSTEM")" "none in $SYSTEM"
for access in "hostNetwork: true" "hostIPC: true" "volumes: [{name: v, hostPath: {path: /mnt}}]"; do
    "${who[@]}" create --dry-run=server -f - >"$WORK/answer" 2>&1 <<<"$(pod_of_job "$NS-open" "$access")" ||
        fail "a job that its namespace admits is refused: $access: $(cat "$WORK/answer")"
done
refused "a Deployment of nobody" "$(deployment "$NS-open" "$PLAIN" "")" "of Datasets, DataLoads and TFJobs alone"
refused "a Deployment with privileges" "$(deployment "$NS-open" "$ROOT_OF_NODE")" "no pods with privileged"
"${who[@]}" create -f - >/dev/null <<<"$(deployment "$NS-open" "$PLAIN")" || fail "a TensorBoard is refused"
cannot "give a TensorBoard privileges" "no pods with hostPID" -n "$NS-open" patch deployment stolen --type=merge -p '{"spec": {"template": {"spec": {"hostPID": true}}}}'
cannot "give a TensorBoard away" "of Datasets, DataLoads and TFJobs alone" -n "$NS-open" patch deployment stolen --type=merge -p '{"metadata": {"ownerReferences": null}}'
refused "a Service of nobody" "$(object Service "$NS-open" "spec: {ports: [{port: 80}]}" "")" "of Datasets, DataLoads and TFJobs alone"
refused "a Service that takes an address from the nodes" "$(object Service "$NS-open" "spec: {ports: [{port: 80}], externalIPs: [192.0.2.1]}" "$JOB")" "without externalIPs"
refused "a claim of nobody" "$(object PersistentVolumeClaim "$NS-open" "$CLAIM" "")" "of Datasets, DataLoads and TFJobs alone"
refused "a claim of another's volume" "$(object PersistentVolumeClaim "$NS-open" "${CLAIM/millrace-x/other}" "$OWNER")" "claims of Millrace's volumes alone"

# Who asks for it in good faith reads why not.
k -n "$NS-open" create -f - >/dev/null <<<"{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: greedy}, spec: {tfReplicaSpecs: {Worker: {template: {spec: {
  containers: [{name: tensorflow, image: $TEST_IMAGE, securityContext: {privileged: true}}]}}}}}}"
expect 60 "the job says why it does not run" has_text "makes no pods with privileged: take it out of the TFJob" k -n "$NS-open" get tfjob greedy -o json

# What is there of others stays as it is.
who=(k)
for manifest in "$(pod_of_job "$NS-open" "$PLAIN" "")" "$(object Service "$NS-open" "spec: {ports: [{port: 80}]}" "")" \
    "$(object PersistentVolumeClaim "$NS-open" "$CLAIM" "")" "$(deployment "$NS-open" "$PLAIN" "" | sed 's/name: stolen/name: theirs/')"; do
    "${who[@]}" create -f - >/dev/null <<<"$manifest"
done
who=(k --as "system:serviceaccount:$SYSTEM:$RELEASE-operator")
for what in pod/stolen service/stolen pvc/stolen deployment/theirs; do
    cannot "delete another's $what" "of Datasets, DataLoads and TFJobs alone" -n "$NS-open" delete "$what"
    cannot "take another's $what over" "of Datasets, DataLoads and TFJobs alone" -n "$NS-open" patch "$what" --type=merge \
        -p '{"metadata": {"ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "x", "uid": "1", "controller": true}]}}'
done
plugin=$(k -n "$SYSTEM" get pods -l millrace.dev/component=csi -o jsonpath='{.items[0].metadata.name}')
cannot "change the plugin's program" "of Datasets, DataLoads and TFJobs alone" -n "$SYSTEM" set image "pod/$plugin" "csi=$TEST_IMAGE"
cannot "end another's pod" "of Datasets, DataLoads and TFJobs alone" -n "$NS-open" patch pod/stolen --type=merge -p '{"spec": {"activeDeadlineSeconds": 1}}'
who=(k)
"${who[@]}" create -f - >/dev/null <<<"{apiVersion: v1, kind: Pod, metadata: {name: gated, namespace: $NS-open, labels: {millrace.dev/data: Later}}, spec: {schedulingGates: [{name: millrace.dev/data}],
  containers: [{name: c, image: $TEST_IMAGE}]}}"
"${who[@]}" create -f - >/dev/null <<<"{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: e2e-theirs}, spec: {attacher: other.example.com,
  nodeName: none, source: {persistentVolumeName: none}}}"
who=(k --as "system:serviceaccount:$SYSTEM:$RELEASE-operator")
cannot "change the program of a pod that waits" "keep their images and owners" -n "$NS-open" set image pod/gated "c=$TEST_IMAGE-2"
cannot "have a pod that waits collected" "keep their images and owners" -n "$NS-open" patch pod/gated --type=merge \
    -p '{"metadata": {"ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "x", "uid": "1", "controller": true}]}}'
"${who[@]}" -n "$NS-open" patch pod/gated --type=merge -p '{"metadata": {"annotations": {"a": "b"}}, "spec": {"schedulingGates": null}}' >"$WORK/answer" 2>&1 ||
    fail "a gate is not opened: $(cat "$WORK/answer")"
# kubectl would read it first, which the operator may not
server=$(k config view --minify -o jsonpath='{.clusters[0].cluster.server}')
k config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d >"$WORK/ca.crt"
curl -sS --cacert "$WORK/ca.crt" -H "Authorization: Bearer $(k -n "$SYSTEM" create token "$RELEASE-operator")" -X PATCH \
    -H "Content-Type: application/merge-patch+json" -d '{"status": {"attached": true}}' \
    "$server/apis/storage.k8s.io/v1/volumeattachments/e2e-theirs/status" >"$WORK/answer" 2>&1 || fail "$(cat "$WORK/answer")"
grep -qF "VolumeAttachments of csi.millrace.dev alone" "$WORK/answer" || fail "who would attach another's volume is told: $(cat "$WORK/answer")"
step "refused: attach another's volume"
who=(k)
k delete volumeattachment e2e-theirs --wait=false >/dev/null

# The pods that are to have it do; and nobody gets at it by another container in them.
s3_up
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
pod reader data 'ls /mnt/fuse && sleep 1000'
expect 120 "the reader runs" has_text Running jsonpath pod/reader '{.status.phase}'
uid=$(jsonpath dataset/data '{.metadata.uid}')
n get networkpolicy data-cache -o json | jq -e --arg uid "$uid" --arg system "$SYSTEM" '.spec | .podSelector.matchLabels == {"millrace.dev/dataset-uid": $uid}
    and .policyTypes == ["Ingress"] and (.ingress | map([.ports[].port, (.from[] | .podSelector.matchLabels["millrace.dev/dataset-uid"],
    .namespaceSelector.matchLabels["kubernetes.io/metadata.name"], .namespaceSelector.matchExpressions[0].values[0])]))
    == [[9400, $uid, null, null], [9400, null, $system, null], [9402, null, null, "monitoring"]]' >/dev/null || fail "the policy: $(n get networkpolicy data-cache -o yaml)"
for component in client worker; do
    [ "$(n get pod -l "millrace.dev/dataset-uid=$uid,millrace.dev/component=$component" -o name | wc -l)" -gt 0 ] || fail "the policy selects no $component"
done
# Bytes are for those who have the Dataset's key: its pods do, and nobody reads it out of the operator's log.
asks() { n get --raw "/api/v1/namespaces/$NS/pods/data-cache-0:9400/proxy$1" >"$WORK/answer" 2>&1; }
asks /status || fail "the worker does not answer: $(cat "$WORK/answer")"
! asks "/v1/data?mount=0&path=x&version=1&size=1" || fail "a stranger gets bytes of a worker"
grep -qiE "credentials|unauthorized" "$WORK/answer" || fail "the stranger is told: $(cat "$WORK/answer")"
head -c 3000000 /dev/urandom >"$WORK/bytes"
put "$WORK/bytes" bytes
sum=$(sha256sum <"$WORK/bytes")
expect 60 "the reader reads the same" has_text "${sum%% *}" n exec reader -- sha256sum /mnt/fuse/bytes
n get --raw "/api/v1/namespaces/$NS/pods/data-cache-0:9400/proxy/status" | jq -e '.reads.storeBytes == 3000000' >/dev/null || fail "the bytes did not come by the worker"
uid=$(n get dataset data -o jsonpath='{.metadata.uid}')
secret=$(n get secrets -o name | grep "secret/millrace-key-$uid-")
key=$(n get "$secret" -o jsonpath='{.data.key}' | base64 -d)
[ "${#key}" = 64 ] || fail "the Dataset has no key: $key"
k -n "$SYSTEM" logs -l millrace.dev/component=operator --tail=-1 >"$WORK/operator.log"
grep -qF "millrace-key-$uid" "$WORK/operator.log" || fail "the log does not show what is planned"
! grep -qF "$key" "$WORK/operator.log" || fail "the key is in the operator's log"

client=$(n get pods -l millrace.dev/component=client -o jsonpath='{.items[0].metadata.name}')
volume=$(n get pod "$client" -o json | jq -r '.spec.volumes[] | select(.csi.driver == "csi.millrace.dev") | .name')
guest() # FILTER: asks for another container in the client's pod as it is now
{
    n get pod "$client" -o json | jq --arg volume "$volume" --arg image "$TEST_IMAGE" 'del(.metadata.resourceVersion) | .spec.ephemeralContainers = [{name: "guest", image: $image,
        command: ["/bin/sleep", "1000"], volumeMounts: [{name: $volume, mountPath: "/v"}], securityContext: .spec.containers[0].securityContext}] | '"$1" |
        k replace --raw "/api/v1/namespaces/$NS/pods/$client/ephemeralcontainers" -f - >"$WORK/answer" 2>&1
}
asked_of_now() # FILTER: the same, once more if its status changed meanwhile
{
    guest "$1" && return
    grep -q "the object has been modified" "$WORK/answer" && guest "$1"
}
! asked_of_now . || fail "a guest has the client's volume"
grep -qF "leave it out of the ephemeral container's volumeMounts" "$WORK/answer" || fail "the guest is told: $(cat "$WORK/answer")"
# nor by its processes, which are of a user that anybody may be
! asked_of_now 'del(.spec.ephemeralContainers[0].volumeMounts) | .spec.ephemeralContainers[0].targetContainerName = .spec.containers[0].name' ||
    fail "a guest sees the client's processes"
grep -qF "leave out targetContainerName" "$WORK/answer" || fail "the guest is told: $(cat "$WORK/answer")"
main=$(n get pod "$client" -o jsonpath='{.spec.containers[0].name}')
! n set image "pod/$client" "$main=$TEST_IMAGE" >"$WORK/answer" 2>&1 || fail "a client gets another program"
grep -qF "is not changed" "$WORK/answer" || fail "who changes the image is told: $(cat "$WORK/answer")"
n label pod "$client" looked-at=yes >"$WORK/answer" 2>&1 || fail "a client cannot be labelled: $(cat "$WORK/answer")"
asked_of_now 'del(.spec.ephemeralContainers[0].volumeMounts)' || fail "nobody can look into a client any more: $(cat "$WORK/answer")"
