#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# Somebody who may make pods in his own namespace, and a stolen operator's account: what they must not get.
. "$(dirname "$0")/lib.sh"
start_test

refused() # WHAT MANIFEST WORD…
{
    local what=$1 manifest=$2 answer
    shift 2
    ! answer=$("${who[@]}" create -f - <<<"$manifest" 2>&1) || fail "$what is accepted: $answer"
    for word; do grep -qF -- "$word" <<<"$answer" || fail "$what: no '$word' in: $answer"; done
    step "refused: $what"
}

hostile() # NAME VOLUME [MORE OF THE METADATA]; in the plugin's namespace, where pods may have privileges
{
    cat <<EOF
{apiVersion: v1, kind: Pod, metadata: {name: $1, namespace: $SYSTEM${3:+, $3}}, spec: {containers: [{name: c, image: $TEST_IMAGE, command: [/bin/sleep, "1000"],
  volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, $2}]}}
EOF
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
refused "a pod of a Dataset with another image" "$(hostile stolen "emptyDir: {}" "$OWNER")" "have Millrace's image"
refused "a pod of a job with a volume of the driver" \
    "$(hostile stolen "$INLINE" "ownerReferences: [{apiVersion: kubeflow.org/v1, kind: TFJob, name: x, uid: 11111111-2222-3333-4444-555555555555, controller: true}]")" \
    "is for Millrace's own pods"
image=$(k get validatingadmissionpolicy "$RELEASE-operator" -o json | jq -r '.spec.validations[].expression' | sed -n "s/.*c.image == '\([^']*\)'.*/\1/p")
cache_pod() # PART OF THE SPEC
{
    echo "{apiVersion: v1, kind: Pod, metadata: {name: stolen, namespace: $SYSTEM, $OWNER}, spec: {containers: [{name: c, image: $image}], $1}}"
}
refused "a pod of a Dataset with another image that runs first" "$(cache_pod "initContainers: [{name: i, image: $TEST_IMAGE}]")" "have Millrace's image"
refused "a pod of a Dataset with privileges that runs first" \
    "$(cache_pod "initContainers: [{name: i, image: $image, securityContext: {privileged: true}}]")" "no privileges"
refused "a pod of a Dataset with a capability" \
    "$(cache_pod "initContainers: [{name: i, image: $image, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]")" "no privileges"
refused "a pod of a Dataset that sees the node's processes" "$(cache_pod "hostPID: true")" "no privileges"

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
key=$(n get secret "millrace-key-$uid" -o jsonpath='{.data.key}' | base64 -d)
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
