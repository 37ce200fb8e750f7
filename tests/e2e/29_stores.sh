#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 500
# needs: hadoop
# One tree of many stores, as the guides of Alluxio have it: S3 at /imagenet, HDFS at /hdfs, a web server at /web, a claim at /labels; two
# pods on two nodes read and write it. The same objects by the S3 server's own files, by Hadoop's own client, by millrace and by ls. Then
# HDFS dies, and the others serve on; it comes back, and so does its directory.
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/hdfs_lib.sh
. "$ROOT/tests/integration/hdfs_lib.sh"
start_test
leave()
{
    hdfs_end
    k delete pv "$NS-labels" --ignore-not-found --wait=false >/dev/null 2>&1
}
at_end leave

step "HDFS, on the machine that all nodes reach"
HDFS_ON=("$ROOT/hack/cluster" net control)
HDFS_HOST=$("${HDFS_ON[@]}" ip -j -4 address show kube0 | jq -r '.[0].addr_info[0].local')
hdfs_start
hdfs dfs -mkdir -p /data/deep /data/late
hdfs dfs -chmod -R 777 /data
for i in 1 2; do head -c 5000000 /dev/urandom >"$WORK/block-$i"; done # two blocks each
hdfs dfs -put "$WORK/block-1" "$WORK/block-2" /data/deep
hdfs dfs -put "$WORK/block-2" /data/late/block # not read before HDFS dies

step "S3, a web server, a directory of a claim"
s3_up
random_files 2 1500000 train
secret keys "$S3_KEY" "$S3_SECRET"
printf 'daemon off; pid /tmp/nginx.pid; error_log /dev/stderr; worker_processes 1; events {}
http { access_log off; client_body_temp_path /tmp/1; proxy_temp_path /tmp/2; fastcgi_temp_path /tmp/3; uwsgi_temp_path /tmp/4; scgi_temp_path /tmp/5;
    server { listen 8080; root /etc/web; autoindex on; } }\n' >"$WORK/nginx.conf"
echo "a page" >"$WORK/page.txt"
n create configmap web --from-file="$WORK/nginx.conf" --from-file="$WORK/page.txt" >/dev/null
chmod 711 "$WORK"
mkdir -p "$WORK/labels"
echo "cat dog" >"$WORK/labels/names.txt"
chmod -R a+rwX "$WORK/labels"
k delete pv "$NS-labels" --ignore-not-found >/dev/null
k apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Service
metadata: {name: web, namespace: $NS}
spec: {selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: $NS, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: web
      image: $TEST_IMAGE
      imagePullPolicy: IfNotPresent
      command: [/usr/sbin/nginx, -c, /etc/web/nginx.conf, -p, /tmp]
      readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: web, mountPath: /etc/web}]
  volumes: [{name: web, configMap: {name: web}}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NS-labels}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: $NS, name: labels}
  hostPath: {path: "$WORK/labels", type: Directory}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: labels, namespace: $NS}
spec:
  storageClassName: ""
  volumeName: $NS-labels
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
YAML
n wait --for=condition=Ready pod/web --timeout=90s >/dev/null

step "one tree"
n apply -f - <<YAML
apiVersion: millrace.dev/v1alpha1
kind: Dataset
metadata: {name: data}
spec:
  mounts:
    - path: /imagenet
      mountPoint: s3://data
      options: {endpoint: "http://s3.$NS.svc.cluster.local:7070", region: us-east-1}
      encryptOptions:
        - {name: access-key-id, valueFrom: {secretKeyRef: {name: keys, key: access}}}
        - {name: secret-access-key, valueFrom: {secretKeyRef: {name: keys, key: secret}}}
    - {path: /hdfs, mountPoint: "hdfs://${HDFS_RPC[0]}/data", options: {http-port: "${HDFS_HTTP[0]#*:}", user: alice}}
    - {path: /web, mountPoint: "http://web.$NS.svc.cluster.local:8080", readOnly: true}
    - {path: /labels, mountPoint: pvc://labels}
  accessModes: [ReadWriteMany]
  cache: {replicas: 1, tiers: [{medium: SSD, quota: 256Mi}]}
YAML
mapfile -t nodes < <(k get nodes -o name | head -n 2 | cut -d / -f 2)
pod writer data 'cd /mnt/fuse; ls -l imagenet/train hdfs/deep web labels
    (cd imagenet && sha256sum -c sums.txt); sha256sum hdfs/deep/*; cat web/page.txt labels/names.txt
    for store in imagenet hdfs labels; do mkdir -p $store/out; cp hdfs/deep/block-1 $store/out/copy; mv $store/out/copy $store/out/$store; done
    if echo x >web/new; then exit 1; fi
    ls -l */out' "${nodes[0]}"
expect 120 "the writer has ended well: $(n logs writer --tail=20 2>&1)" has_text Succeeded jsonpath pod/writer '{.status.phase}'
n logs writer >"$WORK/said"
sum=$(sha256sum <"$WORK/block-1")
for words in "train/part-1: OK" "train/part-2: OK" "${sum%% *}  hdfs/deep/block-1" "a page" "cat dog"; do
    grep -qF -- "$words" "$WORK/said" || fail "the writer has not seen '$words': $(cat "$WORK/said")"
done

step "the same by the stores' own means"
[ "$(hdfs dfs -cat /data/out/hdfs | sha256sum)" = "$sum" ] || fail "Hadoop's client reads other bytes"
hdfs dfs -ls /data/out /data/deep >"$WORK/hadoop-ls"
grep -qE '^-rw.* alice .* 5000000 .* /data/out/hdfs$' "$WORK/hadoop-ls" || fail "hdfs dfs -ls: $(cat "$WORK/hadoop-ls")"
[ "$(in_bucket sha256sum /srv/data/out/imagenet | cut -d ' ' -f 1)" = "${sum%% *}" ] || fail "the S3 server has other bytes"
[ "$(sha256sum <"$WORK/labels/out/labels")" = "$sum" ] || fail "the claim's directory has other bytes"
"${HDFS_ON[@]}" env HADOOP_USER_NAME=alice "$BUILD/bin/millrace" ls -l "webhdfs://${HDFS_HTTP[0]}/data/out/" >"$WORK/our-ls"
grep -qE '5000000 .*hdfs$' "$WORK/our-ls" || fail "millrace ls: $(cat "$WORK/our-ls")"

step "another pod, on another node"
pod reader data 'sleep 3600' "${nodes[1]}"
expect 90 "the reader runs" has_text Running jsonpath pod/reader '{.status.phase}'
in_tree() { n exec reader -- timeout 120 /bin/sh -ec "cd /mnt/fuse; $1"; }
[ "$(in_tree 'cat imagenet/out/imagenet hdfs/out/hdfs labels/out/labels | sha256sum')" = "$(cat "$WORK"/block-{1,1,1} | sha256sum)" ] || fail "it reads other bytes"

step "HDFS dies: its directory says so, the others serve"
hdfs_kill name1
began=$SECONDS
if in_tree 'cat hdfs/late/block >/dev/null' 2>"$WORK/said"; then fail "what only HDFS has is read without it"; fi
grep -qi 'Input/output error' "$WORK/said" || fail "not EIO: $(cat "$WORK/said")"
step "EIO after $((SECONDS - began)) s"
in_tree 'cd imagenet; sha256sum -c sums.txt; cat ../web/page.txt ../labels/names.txt; echo new >../labels/out/new; cat ../labels/out/new' >"$WORK/said" ||
    fail "another store fails, too: $(cat "$WORK/said")"
grep -c -e OK -e 'a page' -e 'cat dog' -e new <"$WORK/said" | grep -qx 5 || fail "it says $(cat "$WORK/said")"
workers() { jsonpath dataset/data '{.status.conditions[?(@.type=="WorkersReady")].message}'; }
expect 60 "the Dataset names it: $(workers)" has_text "hdfs://${HDFS_RPC[0]}/data: Unreachable" workers
has_text "True Ready" ready_message data || fail "it is not ready for new pods: $(ready_message data)"

step "and comes back"
hdfs_run name1
hdfs_until "HDFS serves again" hdfs_serves "${HDFS_HTTP[0]}"
back() { [ "$(in_tree 'sha256sum <hdfs/late/block')" = "$(sha256sum <"$WORK/block-2")" ]; }
expect 90 "its directory is read again" back
expect 90 "the Dataset no longer says so: $(workers)" has_text "1 of 1" workers
