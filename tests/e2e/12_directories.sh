#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# A dataset in a directory of a PersistentVolumeClaim, as NFS has it: the same on every node. Pods read and write it on two nodes.
# Then claims that are not there, or not bound.
. "$(dirname "$0")/lib.sh"
start_test
leave() { k delete pv "$NS-store" --ignore-not-found --wait=false >/dev/null 2>&1; }
at_end leave

claim() # NAME VOLUME
{
    n apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  storageClassName: ""
  volumeName: "$2"
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
YAML
}

directories() # NAME URL
{
    n apply -f - >/dev/null <<YAML
apiVersion: millrace.dev/v1alpha1
kind: Dataset
metadata: {name: $1}
spec:
  mounts: [{mountPoint: "$2", path: /}]
  accessModes: [ReadWriteMany]
  cache:
    replicas: 1
    tiers: [{medium: SSD, quota: 256Mi}]
YAML
}

chmod 711 "$WORK"
mkdir -p "$WORK/store/train/deep"
for i in 1 2 3 4; do head -c 1500000 /dev/urandom >"$WORK/store/train/deep/part-$i"; done
(cd "$WORK/store/train" && sha256sum deep/* >sums.txt)
echo "not part of it" >"$WORK/store/beside"
chmod -R a+rwX "$WORK/store" # no fsGroup changes a directory that many nodes share
k delete pv "$NS-store" --ignore-not-found >/dev/null
k apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NS-store}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $NS, name: store}
  hostPath: {path: "$WORK/store", type: Directory}
YAML
claim store "$NS-store"
directories data pvc://store/train

step "two pods on two nodes read it, and write to it"
mapfile -t nodes < <(k get nodes -o name | head -n 2 | cut -d / -f 2)
for i in 0 1; do
    pod "user-$i" data "cd /mnt/fuse; sha256sum -c sums.txt; [ ! -e beside ]
        mkdir -p out; echo from $i >out/user-$i; mv out/user-$i out/result-$i; echo gone >out/gone-$i; rm out/gone-$i" "${nodes[i]}"
done
for i in 0 1; do
    expect 90 "user-$i has ended well: $(n logs "user-$i" --tail=5 2>&1)" has_text Succeeded jsonpath "pod/user-$i" '{.status.phase}'
    [ "$(cat "$WORK/store/train/out/result-$i")" = "from $i" ] || fail "what user-$i wrote is not in the directory: $(ls -l "$WORK/store/train/out")"
    [ ! -e "$WORK/store/train/out/gone-$i" ] || fail "what user-$i removed is still there"
done
expect 30 "the dataset is ready: $(ready_message data)" has_text "True" ready_message data

step "a claim that is not there"
directories absent pvc://nowhere/train
expect 60 "the dataset says which claim is missing: $(ready_message absent)" has_text nowhere ready_message absent
step "a claim that nothing is bound to"
claim unbound "$NS-no-such-volume"
directories waiting pvc://unbound
expect 60 "the dataset says which claim is not bound: $(ready_message waiting)" has_text unbound ready_message waiting
