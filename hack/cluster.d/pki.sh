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

# An authority, and the pair of keys for tokens of service accounts, as files $1ca.* and $1sa.*.
new_authority() # PREFIX
{
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=millrace-test-ca$1" \
        -keyout "$1ca.key" -out "$1ca.crt"
    openssl genrsa -traditional -out "$1sa.key" 2048
    openssl rsa -in "$1sa.key" -pubout -out "$1sa.pub"
}

new_certificates()
{
    local name names=DNS:localhost,IP:127.0.0.1,IP:$CONTROL_IP,IP:$API_SERVICE_IP
    for name in kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local; do
        names+=,DNS:$name
    done
    certificate apiserver /O=system:masters/CN=kube-apiserver "$names"
    certificate admin /O=system:masters/CN=admin DNS:admin
    for name in controller-manager scheduler proxy; do
        certificate "$name" "/CN=system:kube-$name" "DNS:$name"
    done
    for name in $(node_names); do
        certificate "$name" "/O=system:nodes/CN=system:node:$name" "DNS:$name,IP:$(node_ip "$name")"
    done
}

new_kubeconfigs()
{
    local name
    for name in admin controller-manager scheduler proxy $(node_names); do
        kubeconfig "$name" "https://$CONTROL_IP:6443" >"$name.kubeconfig"
    done
}

make_pki()
(
    mkdir -p "$RUN/pki"
    cd "$RUN/pki" || exit
    exec 2>>openssl.log
    new_authority ""
    new_certificates
    new_kubeconfigs
)

# A step of changing the authority and the keys of tokens, as the handbook of Kubernetes has it. Each file's first certificate signs.
rotate_pki() # trust | use | forget
(
    cd "$RUN/pki" || exit
    exec 2>>openssl.log
    case $1 in
    trust) # both are believed; of those that an unfinished change has left, the one that signs
        new_authority next-
        openssl x509 -in ca.crt -out former-ca.crt
        openssl pkey -in sa.key -pubout -out former-sa.pub
        cat former-ca.crt next-ca.crt >ca.crt
        cat former-sa.pub next-sa.pub >sa.pub
        ;;
    use) # the next one signs
        cat next-ca.crt former-ca.crt >ca.crt
        cp next-ca.key ca.key
        cp next-sa.key sa.key
        new_certificates
        ;;
    forget) # and is the only one
        mv next-ca.crt ca.crt
        mv next-sa.pub sa.pub
        rm former-ca.crt former-sa.pub next-ca.key next-sa.key
        ;;
    esac
    new_kubeconfigs
)
