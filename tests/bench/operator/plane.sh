#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# plane.sh DIR KUBE KWOK NODES COMMAND… — a control plane without nodes, and KWOK's nodes in it, in namespaces of its own; runs COMMAND
# there, and everything ends with it. DIR: where files and logs go; admin.kubeconfig, operator.kubeconfig and audit.log are there.
# The scheduler and the controller manager may ask as much as they like: what is measured is the operator. Audited: who wrote what.
set -euo pipefail

dir=$1 kube=$2 kwok=$3 nodes=$4
here=$(dirname "$(readlink -f "$0")")
address=10.89.0.1

if [ -z "${BENCH_INSIDE:-}" ]; then
    export BENCH_INSIDE=1
    exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
shift 4
trap 'exit 143' INT TERM # process 1 of its namespace would not hear them; with it everything ends
ip link set lo up
ip addr add "$address/32" dev lo
mkdir -p "$dir"
cd "$dir"

certificate() # NAME SUBJECT
{
    openssl req -x509 -CA ca.crt -CAkey ca.key -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "$2" \
        -addext "subjectAltName=IP:$address,IP:10.96.0.1,DNS:kubernetes.default.svc" -addext basicConstraints=critical,CA:FALSE \
        -keyout "$1.key" -out "$1.crt" 2>>openssl.log
    cat >"$1.kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: bench
contexts: [{name: bench, context: {cluster: bench, user: $1}}]
clusters: [{name: bench, cluster: {server: "https://$address:6443", certificate-authority-data: $(base64 -w 0 ca.crt)}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w 0 "$1.crt"), client-key-data: $(base64 -w 0 "$1.key")}}]
END
}

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bench -keyout ca.key -out ca.crt 2>openssl.log
openssl genrsa -traditional -out sa.key 2048 2>>openssl.log
openssl rsa -in sa.key -pubout -out sa.pub 2>>openssl.log
for name in admin apiserver operator kwok; do certificate $name "/O=system:masters/CN=$name"; done
certificate controller-manager /CN=system:kube-controller-manager
certificate scheduler /CN=system:kube-scheduler
echo '{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}' >policy.yaml

"$kube" etcd --data-dir etcd --unsafe-no-fsync --log-level warn --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 >etcd.log 2>&1 &
"$kube" kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address="$address" --advertise-address="$address" \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=RBAC --enable-aggregator-routing --client-ca-file=ca.crt \
    --tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file=sa.pub --service-account-signing-key-file=sa.key --audit-policy-file=policy.yaml \
    --audit-log-path="$PWD/audit.log" >apiserver.log 2>&1 &
for i in $(seq 600); do
    if curl -sfo /dev/null --cacert ca.crt "https://$address:6443/readyz"; then break; fi
    if [ "$i" = 600 ]; then
        echo "the API server does not start: $(tail -n 5 apiserver.log)" >&2
        exit 1
    fi
    sleep 0.1
done
"$kube" kube-controller-manager --kubeconfig=controller-manager.kubeconfig --leader-elect=false --use-service-account-credentials \
    --service-account-private-key-file=sa.key --root-ca-file=ca.crt --kube-api-qps=5000 --kube-api-burst=10000 \
    --flex-volume-plugin-dir="$PWD/plugins" >controller-manager.log 2>&1 &
"$kube" kube-scheduler --kubeconfig=scheduler.kubeconfig --leader-elect=false --kube-api-qps=5000 --kube-api-burst=10000 >scheduler.log 2>&1 &
"$kwok" --kubeconfig kwok.kubeconfig --config "$here/kwok.yaml" --manage-all-nodes --cidr 10.0.0.0/8 --node-ip "$address" >kwok.log 2>&1 &
for i in $(seq "$nodes"); do
    printf -- '---\n{apiVersion: v1, kind: Node, metadata: {name: kwok-%s, annotations: {kwok.x-k8s.io/node: fake}}}\n' "$i"
done | KUBECONFIG=$dir/admin.kubeconfig "$kube" kubectl --cache-dir "$dir/cache" apply -f - >/dev/null
KUBECONFIG=$dir/admin.kubeconfig "$kube" kubectl --cache-dir "$dir/cache" wait --for=condition=Ready node --all --timeout=60s >/dev/null
"$@"
