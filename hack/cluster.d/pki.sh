# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# pki.sh — certificates and kubeconfigs of a cluster, in $RUN/pki. Sourced by hack/cluster.

certificate() # NAME SUBJECT SUBJECT_ALT_NAMES: signed by the cluster's authority
{
    openssl req -x509 -CA ca.crt -CAkey ca.key -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 \
        -subj "$2" -addext "subjectAltName=$3" -addext basicConstraints=critical,CA:FALSE \
        -keyout "$1.key" -out "$1.crt"
}

base64_of()
{
    base64 -w 0 "$1"
}

kubeconfig() # USER SERVER: stands alone, so that it can be copied anywhere
{
    cat <<END
apiVersion: v1
kind: Config
current-context: $CLUSTER
contexts: [{name: $CLUSTER, context: {cluster: $CLUSTER, user: $1}}]
clusters: [{name: $CLUSTER, cluster: {server: "$2", certificate-authority-data: $(base64_of "$RUN/pki/ca.crt")}}]
users:
- name: $1
  user:
    client-certificate-data: $(base64_of "$RUN/pki/$1.crt")
    client-key-data: $(base64_of "$RUN/pki/$1.key")
END
}

make_pki()
(
    local name names=DNS:localhost,IP:127.0.0.1,IP:$CONTROL_IP,IP:$API_SERVICE_IP
    for name in kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local; do
        names+=,DNS:$name
    done
    mkdir -p "$RUN/pki"
    cd "$RUN/pki" || exit
    exec 2>>openssl.log
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=millrace-test-ca \
        -keyout ca.key -out ca.crt
    openssl genrsa -traditional -out sa.key 2048
    openssl rsa -in sa.key -pubout -out sa.pub
    certificate apiserver /O=system:masters/CN=kube-apiserver "$names"
    certificate admin /O=system:masters/CN=admin DNS:admin
    for name in controller-manager scheduler proxy; do
        certificate "$name" "/CN=system:kube-$name" "DNS:$name"
    done
    for name in $(node_names); do
        certificate "$name" "/O=system:nodes/CN=system:node:$name" "DNS:$name,IP:$(node_ip "$name")"
    done
    for name in admin controller-manager scheduler proxy $(node_names); do
        kubeconfig "$name" "https://$CONTROL_IP:6443" >"$name.kubeconfig"
    done
)
