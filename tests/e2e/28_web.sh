#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# Datasets of a web server: of index pages, behind a password, by a list; preloaded, and read by a pod. What cannot be is refused or
# told in words: writing, a list that is not there, servers that limits.endpoints does not have, a cloud's metadata service.
. "$(dirname "$0")/lib.sh"
start_test
leave() { k delete validatingadmissionpolicy,validatingadmissionpolicybinding "$NS-limits" --ignore-not-found >/dev/null 2>&1; }
at_end leave
SERVER=http://web.$NS.svc.cluster.local:8080

openssl passwd -apr1 hushhush | sed 's/^/reader:/' >"$WORK/passwords"
cat >"$WORK/nginx.conf" <<'END'
daemon off; pid /tmp/nginx.pid; error_log /dev/stderr; worker_processes 1;
events {}
http {
    access_log /dev/stdout; default_type application/octet-stream;
    client_body_temp_path /tmp/1; proxy_temp_path /tmp/2; fastcgi_temp_path /tmp/3; uwsgi_temp_path /tmp/4; scgi_temp_path /tmp/5;
    server {
        listen 8080; root /srv;
        location /data/ { autoindex on; }
        location /closed/ { alias /srv/data/; autoindex on; auth_basic "x"; auth_basic_user_file /etc/web/passwords; }
        location /listed/ { alias /srv/data/; }
    }
}
END
n create configmap web --from-file="$WORK/nginx.conf" --from-file="$WORK/passwords" >/dev/null
n create secret generic login --from-literal=username=reader --from-literal=password=hushhush >/dev/null
n apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  initContainers:
    - name: files
      image: $TEST_IMAGE
      imagePullPolicy: IfNotPresent
      command: [/bin/sh, -ec, "mkdir -p /srv/data/deep; cd /srv/data; for i in 1 2 3 4; do head -c 1500000 /dev/urandom >deep/part-\$i; done;
        sha256sum deep/part-* >sums.txt; ls deep/part-* sums.txt >files.list"]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: data, mountPath: /srv}]
  containers:
    - name: web
      image: $TEST_IMAGE
      imagePullPolicy: IfNotPresent
      command: [/usr/sbin/nginx, -c, /etc/web/nginx.conf, -p, /tmp]
      readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: data, mountPath: /srv}, {name: web, mountPath: /etc/web}]
  volumes: [{name: data, emptyDir: {}}, {name: web, configMap: {name: web}}]
YAML
n wait --for=condition=Ready pod/web --timeout=90s >/dev/null

web() # NAME MOUNTS: as JSON
{
    n apply -f - <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "'"$1"'"}, "spec": {"mounts": '"$2"',
        "cache": {"preload": [{"path": "/"}], "tiers": [{"medium": "SSD", "quota": "256Mi"}]}}}'
}
refused() # WORDS MOUNTS [MORE OF THE SPEC]
{
    local said
    said=$(n apply --dry-run=server -f - 2>&1 <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "refused"},
        "spec": {"mounts": '"$2 ${3:-}"'}}') && fail "accepted: $2"
    has_text "$1" echo "$said" || fail "no '$1' in: $said"
}

step "three ways into one server, preloaded and read"
web data '[{"path": "/pages", "mountPoint": "'"$SERVER"'/data"},
    {"path": "/closed", "mountPoint": "'"$SERVER"'/closed/", "secretRef": {"name": "login"}, "options": {"tls-verify": "false"}},
    {"path": "/listed", "mountPoint": "'"$SERVER"'/listed", "options": {"manifest": "files.list"}}]' >/dev/null
preloaded() { has_text True jsonpath dataset/data '{.status.conditions[?(@.type=="Preloaded")].status}'; }
expect 120 "preloaded: $(n get dataset data -o jsonpath='{.status.conditions}')" preloaded
expect 60 "17 files: 6 by pages, twice, and 5 of a list: $(jsonpath dataset/data '{.status.fileNum}')" has_text 17 jsonpath dataset/data '{.status.fileNum}'
pod reader data 'cd /mnt/fuse; for at in pages closed listed; do (cd $at; sha256sum -c sums.txt; if echo x >new; then exit 1; fi); done'
expect 90 "the reader has ended well: $(n logs reader --tail=5 2>&1)" has_text Succeeded jsonpath pod/reader '{.status.phase}'
[ "$(n logs reader | grep -c OK)" = 12 ] || fail "not all was read: $(n logs reader)"
expect 30 "it is ready: $(ready_message data)" has_text "True Ready" ready_message data

step "a list that is not there, a password that is wrong, a server that is not there"
web lost '[{"path": "/", "mountPoint": "'"$SERVER"'/listed", "options": {"manifest": "nowhere.list"}}]' >/dev/null
began=$SECONDS
expect 60 "the missing list is named: $(ready_message lost)" has_text nowhere.list ready_message lost
step "told after $((SECONDS - began)) s: $(ready_message lost)"
web strange '[{"path": "/", "mountPoint": "'"$SERVER"'/closed"}]' >/dev/null
expect 60 "credentials are asked for: $(ready_message strange)" has_text "no credentials were given" ready_message strange
web cloud '[{"path": "/", "mountPoint": "http://169.254.169.254/latest/meta-data"}]' >/dev/null
expect 60 "the metadata service is refused: $(ready_message cloud)" has_text "metadata service" ready_message cloud

step "what the API server refuses"
refused "nothing can be written to a web server" '[{"mountPoint": "https://data.example/a"}]' ', "accessModes": ["ReadWriteMany"]'
refused "a user and a password belong into a Secret" '[{"mountPoint": "https://user:word@data.example/a"}]'
refused "holds a credential" '[{"mountPoint": "https://data.example/a", "options": {"password": "word"}}]'
refused "unknown option endpoint: https:// takes manifest" '[{"mountPoint": "https://data.example/a", "options": {"endpoint": "https://b"}}]'
refused "unknown option region: https:// takes user" '[{"mountPoint": "https://data.example/a", "encryptOptions": [{"name": "region", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}]'
refused "there is no bucket (claim, server, name node)" '[{"mountPoint": "https:///a"}]'
refused "unknown URL scheme" '[{"mountPoint": "ftp://data.example/a"}]'
n apply --dry-run=server -f "$ROOT/examples/dataset/web.yaml" >/dev/null || fail "the example is refused"

step "limits.endpoints holds servers of mounts"
helm template "$NS" "$ROOT/charts/millrace" --kube-version 1.34.0 --set fullnameOverride="$NS" --set "limits.endpoints={https://Data.example/,$SERVER}" --show-only templates/limits.yaml \
    --set "limits.namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=$NS" | k apply -f - >/dev/null
metadata() { has_text "does not allow" n apply --dry-run=server -f - <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "a"},
    "spec": {"mounts": [{"mountPoint": "http://169.254.169.254/latest"}]}}'; }
expect 60 "the policy is in force" metadata
for url in https://kubernetes.default.svc/api http://data.example/a https://data.example:8443/a https://data.example.thief.example/ https://thief.example/data.example/; do
    refused "$url is on a server that this cluster does not allow" '[{"mountPoint": "'"$url"'"}]'
done
for url in https://data.example https://DATA.example/a/b "$SERVER/data"; do
    n apply --dry-run=server -f - >/dev/null <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "a"},
        "spec": {"mounts": [{"mountPoint": "'"$url"'"}]}}' || fail "$url is refused"
done
