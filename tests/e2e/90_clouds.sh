#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# alone
# What clouds and policies refuse, played here, all at once: a quota on priority classes (GKE; hack/cluster.d/machine), ranges of users
# and privileges that must be granted (OpenShift), a mesh that puts a proxy into every pod (Istio), nodes that are none for us, disks for
# the cache, a store with a certificate of its own, defaults and limits. All our pods run, and a dataset is read.
# It sets what docs/install/gke.md, docs/install/openshift.md and docs/install/helm.md say, in one upgrade, by values of its own.
. "$(dirname "$0")/lib.sh"
start_test
USER_RANGE=1000660000
GPU_NODE=node3 NEW_NODE=node2

upgrade() # FLAG…
{
    helm upgrade "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --reset-values --wait --timeout 90s "$@" >/dev/null
}

restore()
{
    local node
    if [ "$1" != 0 ]; then k -n "$SYSTEM" get pods,daemonset -o wide >&2; k -n "$SYSTEM" get events | tail -n 30 | cut -c 1-300 >&2; fi
    {
        k delete "validatingadmissionpolicybinding/played-scc" "validatingadmissionpolicy/played-scc" --ignore-not-found
        for what in user mesh; do k delete "mutatingadmissionpolicybinding/played-$what" "mutatingadmissionpolicy/played-$what" --ignore-not-found; done
        k label namespace "$SYSTEM" played-
        k delete node played-windows played-fargate --ignore-not-found # first: no kubelet there ends pods
        k delete datasets.millrace.dev,dataloads.millrace.dev,pods -n "$NS" --all --wait --timeout=90s
        k taint node "$GPU_NODE" nvidia.com/gpu-
        k taint node "$NEW_NODE" csi.millrace.dev/agent-not-ready-
        k label node "$GPU_NODE" example.com/disks-
        upgrade --set logLevel=debug
        k -n "$SYSTEM" delete "daemonset/$RELEASE-csi-1" "resourcequota/$RELEASE-critical-pods" --ignore-not-found # of an upgrade that failed
        k delete crd securitycontextconstraints.security.openshift.io --ignore-not-found
        k delete priorityclass counted-node-critical counted-cluster-critical --ignore-not-found
        for node in $(real_nodes); do "$ROOT/hack/cluster" exec "$node" umount /mnt/played-disk; done
        for node in $(real_nodes); do "$ROOT/hack/cluster" exec "$node" rmdir /mnt/played-disk; break; done # nodes share it
    } >"$WORK/restore.log" 2>&1 || cat "$WORK/restore.log" >&2
}

real_nodes() { k get nodes -o name | sed 's|node/||' | grep -v played; }
all_pods() { k get pods -A -l 'millrace.dev/component in (operator, csi, client, worker, loader)' -o json; }

# --- what is there before us ----------------------------------------------------------------------------------------------

real_nodes >"$WORK/nodes"
at_end restore
step "nodes: Windows and Fargate ones that are not for us, one with a GPU's taint, a new one with ours, disks"
for os in windows:played=windows linux:eks.amazonaws.com/compute-type=fargate; do
    k create -f - >/dev/null <<YAML
{apiVersion: v1, kind: Node, metadata: {name: played-$([ "${os%%:*}" = windows ] && echo windows || echo fargate),
    labels: {kubernetes.io/os: ${os%%:*}, $(sed 's/=/: /' <<<"${os#*:}")}},
    spec: {taints: [{key: csi.millrace.dev/agent-not-ready, effect: NoSchedule}]}}
YAML
done
k taint node "$GPU_NODE" nvidia.com/gpu=present:NoSchedule >/dev/null
k taint node "$NEW_NODE" csi.millrace.dev/agent-not-ready=:NoSchedule >/dev/null
k label node "$GPU_NODE" example.com/disks=nvme >/dev/null
while read -r node; do
    "$ROOT/hack/cluster" exec "$node" sh -c 'mkdir -p /mnt/played-disk && mount -t tmpfs -o size=256m disk /mnt/played-disk && mkdir /mnt/played-disk/nvme' </dev/null
done <"$WORK/nodes"

step "a store with a certificate of its own"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=e2e" -addext "subjectAltName=DNS:s3.$NS.svc.cluster.local" \
    -keyout "$WORK/tls.key" -out "$WORK/tls.crt" 2>/dev/null
n create secret tls certs --cert="$WORK/tls.crt" --key="$WORK/tls.key" >/dev/null
sed -e "s/@NS@/$NS/g; s/@KEY@/$S3_KEY/; s/@SECRET@/$S3_SECRET/" -e 's#--keep-alive#--keep-alive, --cert, /certs/tls.crt, --key, /certs/tls.key#' \
    -e 's#volumes: \[#volumes: [{name: certs, secret: {secretName: certs}}, #' \
    -e '/name: s3$/,$s#mountPath: /srv}\]#mountPath: /srv}, {name: certs, mountPath: /certs}]#' "$ROOT/tests/e2e/s3.yaml" | k apply -f - >/dev/null
n wait --for=condition=Ready pod/s3 --timeout=90s >/dev/null
in_bucket sh -c 'cd /srv/data; mkdir train; for i in 1 2 3; do head -c 2000000 /dev/urandom >train/part-$i; done; sha256sum train/* >sums.txt'
n create secret generic keys --from-literal="AWS_ACCESS_KEY_ID=$S3_KEY" --from-literal="AWS_SECRET_ACCESS_KEY=$S3_SECRET" >/dev/null

step "policies: they refuse what they are here for"
for class in node cluster; do k create priorityclass "counted-$class-critical" --value=2000000 >/dev/null; done
k apply -f - >/dev/null <<YAML
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: securitycontextconstraints.security.openshift.io}
spec:
  group: security.openshift.io
  scope: Cluster
  names: {kind: SecurityContextConstraints, plural: securitycontextconstraints, singular: securitycontextconstraint}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
YAML
k apply -f - >/dev/null <<YAML
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: played-scc}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: ours, expression: "!(has(object.metadata.name) && object.metadata.name.startsWith('reader'))"}]
  variables:
    - {name: granted, expression: "authorizer.serviceAccount(object.metadata.namespace, object.spec.serviceAccountName).group('security.openshift.io')
        .resource('securitycontextconstraints').name('$RELEASE-csi').namespace(object.metadata.namespace).check('use').allowed()"}
  validations:
    - expression: "variables.granted || (has(object.spec.securityContext.runAsUser) && object.spec.securityContext.runAsUser == $USER_RANGE)"
      message: "unable to validate against any security context constraint: runAsUser must be in the range of the namespace"
    - expression: "variables.granted || !(has(object.spec.hostPID) && object.spec.hostPID)"
      message: "unable to validate against any security context constraint: Host PID is not allowed to be used"
    - expression: "variables.granted || !has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))"
      message: "unable to validate against any security context constraint: hostPath volumes are not allowed to be used"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: played-scc}
spec: {policyName: played-scc, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {played: "yes"}}}}
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicy
metadata: {name: played-user}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: unset, expression: "!(has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser)) && !(has(object.spec.hostPID) && object.spec.hostPID)"}]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration: {expression: "Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: $USER_RANGE, fsGroup: $USER_RANGE}}}"}
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicyBinding
metadata: {name: played-user}
spec: {policyName: played-user, matchResources: {namespaceSelector: {matchLabels: {played: "yes"}}}}
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicy
metadata: {name: played-mesh}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions:
    - {name: reader, expression: "!(has(object.metadata.name) && object.metadata.name.startsWith('reader'))"}
    - {name: asked, expression: "!(has(object.metadata.labels) && 'sidecar.istio.io/inject' in object.metadata.labels && object.metadata.labels['sidecar.istio.io/inject'] == 'false')"}
  mutations:
    - patchType: JSONPatch
      jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'istio-proxy', image: 'istio/none'}}]"}
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicyBinding
metadata: {name: played-mesh}
spec: {policyName: played-mesh, matchResources: {namespaceSelector: {matchLabels: {played: "yes"}}}}
YAML
k label namespace "$NS" "$SYSTEM" played=yes >/dev/null
try_pod() # NAMESPACE JSON: a pod of BusyBox with this more in its spec
{
    k -n "$1" create --dry-run=server -o json -f - 2>&1 <<<"{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"plain\"},
        \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"$TEST_IMAGE\"}], $2}}"
}
expect 20 "the mesh is there" has_text istio-proxy try_pod "$SYSTEM" '"priority": 0'
expect 20 "users are given" has_text "runAsUser\": $USER_RANGE" try_pod "$SYSTEM" '"priority": 0'
expect 20 "other users are refused" has_text "unable to validate" try_pod "$SYSTEM" '"securityContext": {"runAsUser": 65532}'
expect 20 "the class is counted" has_text "insufficient quota" try_pod "$SYSTEM" '"priorityClassName": "counted-node-critical"'

# --- the installation -----------------------------------------------------------------------------------------------------

step "helm upgrade with values for all of that"
cat >"$WORK/values.yaml" <<YAML
operator: {priorityClassName: counted-cluster-critical}
csi:
  priorityClassName: counted-node-critical
  cacheDir: /mnt/played-disk
  cacheDirs: [{nodeSelector: {example.com/disks: nvme}, path: /mnt/played-disk/nvme}]
  allowRootDisk: false
resourceQuota: {create: true}
openshift: {enabled: true}
startupTaint: true
tfjob: {enabled: false}
env: {E2E_PLAYED: "yes", https_proxy: "http://proxy.invalid:3128", no_proxy: ".svc.cluster.local"}
commonLabels: {team: platform}
commonAnnotations: {owner: e2e}
caBundle: |
$(sed 's/^/  /' "$WORK/tls.crt")
defaults:
  options: {s3: {endpoint: "https://s3.$NS.svc.cluster.local:7070", region: us-east-1}}
  cache: {replicas: 4, tiers: [{medium: SSD, quota: 32Mi}]}
limits:
  replicas: 4
  tierQuota: 1Gi
  schemes: [s3]
  endpoints: ["https://s3.$NS.svc.cluster.local:7070"]
  namespaceSelector: {matchLabels: {played: "yes"}}
YAML
upgrade -f "$WORK/values.yaml"

desired() { k -n "$SYSTEM" get "daemonset/$1" -o jsonpath='{.status.desiredNumberScheduled} {.status.numberReady}'; }
last_of_csi() { [ "$(desired "$RELEASE-csi") $(desired "$RELEASE-csi-1")" = "2 2 1 1" ]; }
expect 60 "a node plugin on each of our nodes, by its disks, and on no other" last_of_csi
[ "$(k -n "$SYSTEM" get pods -l millrace.dev/cache-dir=1 -o jsonpath='{.items[*].spec.nodeName}')" = "$GPU_NODE" ] || fail "cacheDirs are not for $GPU_NODE"
[ "$(k -n "$SYSTEM" get resourcequota "$RELEASE-critical-pods" -o jsonpath='{.status.used.pods}')" -ge 5 ] || fail "the quota counts no pods"
untainted() { if has_text agent-not-ready k get node "$1" -o jsonpath='{.spec.taints}'; then return 1; fi; }
expect 30 "the new node has lost its startup taint" untainted "$NEW_NODE"
for node in played-windows played-fargate; do ! untainted "$node" || fail "$node has no driver and lost its startup taint"; done
has_text nvidia.com/gpu k get node "$GPU_NODE" -o jsonpath='{.spec.taints}' || fail "another taint is gone"
account=system:serviceaccount:$SYSTEM:$RELEASE-operator
k auth can-i patch nodes -q --as "$account" || fail "the operator may not take taints away"
coproc AS_OPERATOR { exec kubectl --as "$account" proxy --port=0 2>&1; }
read -r -t 60 as_operator <&"${AS_OPERATOR[0]}" || fail "kubectl proxy does not answer"
as_operator=${as_operator##*:}
for patch in '{"metadata": {"labels": {"lured": "yes"}}}' '{"spec": {"taints": null}}' '{"spec": {"unschedulable": true}}'; do
    # kubectl patch reads first, which the account may not
    curl -s -X PATCH -H 'Content-Type: application/merge-patch+json' -d "$patch" "http://127.0.0.1:$as_operator/api/v1/nodes/$GPU_NODE" >"$WORK/answer"
    grep -qF "agent-not-ready away from nodes, and changes nothing else" "$WORK/answer" || fail "$patch: $(cat "$WORK/answer")"
done
kill "$AS_OPERATOR_PID"
! k auth can-i list tfjobs.kubeflow.org -A -q --as "$account" || fail "without TFJobs the operator may still list them"
k get crd tfjobs.kubeflow.org >/dev/null || fail "the CRD of TFJob was not kept"

step "the nodes that are none for us have room and no taint now: only what they are is left to tell"
for node in played-windows played-fargate; do
    k patch node "$node" --subresource=status -p '{"status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": "'"$(date -u +%FT%TZ)"'"}]}}' >/dev/null
    k taint node "$node" csi.millrace.dev/agent-not-ready- >/dev/null
done
no_taints() { [ -z "$(k get node played-windows played-fargate -o jsonpath='{.items[*].spec.taints}')" ]; }
expect 30 "Kubernetes takes them for ready" no_taints

step "a Dataset that says nothing but where its data is"
n apply -f - >/dev/null <<YAML
{apiVersion: millrace.dev/v1alpha1, kind: Dataset, metadata: {name: data}, spec: {mounts: [{mountPoint: "s3://data", secretRef: {name: keys}}]}}
YAML
worker_nodes() { n get pods -l millrace.dev/component=worker -o json | jq -r '[.items[].spec.nodeName | strings] | sort | join(" ")'; }
have_nodes() { [ "$(worker_nodes | wc -w)" = 4 ]; }
expect 60 "all workers have a node" have_nodes
step "their nodes: $(worker_nodes)"
[ "$(worker_nodes | tr ' ' '\n' | uniq)" = "$(sort "$WORK/nodes")" ] || fail "workers belong on each of our nodes, the one with the GPU's taint too, and on no other: $(worker_nodes)"
expect 90 "the dataset is Ready" has_text "True Ready" ready_message data
expect 60 "four workers, by default" has_text 4/4 jsonpath dataset/data '{.status.workers.summary}'
[ "$(jsonpath dataset/data '{.status.cache.replicas}')" = 4 ] || fail "the status does not show the default of replicas"
has_text nvidia.com/gpu jsonpath dataset/data '{.status.cache.worker.tolerations[*].key}' || fail "the status does not show which taints workers tolerate"
[ "$(jsonpath dataset/data '{.status.cache.metadataSyncSeconds}')" = 600 ] || fail "the status does not show how old names may be"
[ -z "$(jsonpath dataset/data '{.status.mounts[0].options}')" ] || fail "the status shows defaults that the Secret may say otherwise: $(jsonpath dataset/data '{.status.mounts[0].options}')"
n apply -f - >/dev/null <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "open"},
    "spec": {"mounts": [{"mountPoint": "s3://data", "options": {"anonymous": "true"}}], "cache": {"replicas": 0}}}'
expect 30 "the status shows the default endpoint" has_text "$NS.svc" jsonpath dataset/open '{.status.mounts[0].options.endpoint}'
n delete dataset open --wait --timeout=60s >/dev/null
n apply -f - >/dev/null <<YAML
{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: all}, spec: {dataset: {name: data}, target: [{path: /train}]}}
YAML
restricted data 'cd /mnt/fuse; sha256sum -c sums.txt; sleep 600' main | jq -c --arg node "$GPU_NODE" '{apiVersion: "v1", kind: "Pod", metadata: {name: "reader"},
    spec: (. + {restartPolicy: "Never", nodeSelector: {"kubernetes.io/hostname": $node}, tolerations: [{key: "nvidia.com/gpu", operator: "Exists"}]})}' |
    n apply -f - >/dev/null
expect 90 "a pod on the GPU's node has read it" has_text "part-3: OK" n logs reader
expect 60 "the load is complete" has_text Complete jsonpath dataload/all '{.status.conditions[?(@.status=="True")].type}'

step "what reached which pod"
all_pods >"$WORK/pods.json"
jq -r '.items[] | [.metadata.labels["millrace.dev/component"], .spec.priorityClassName, .status.phase, (.spec.containers | length), .metadata.name] | @tsv' "$WORK/pods.json"
told() # WHAT JQ: true of all pods that it is said of
{
    jq -e "[.items[] | ($2)] | length > 0 and all" "$WORK/pods.json" >/dev/null || fail "not true of all pods: $1"
}
for component in operator csi client worker loader; do
    jq -e --arg c "$component" '[.items[] | select(.metadata.labels["millrace.dev/component"] == $c)] | length > 0' "$WORK/pods.json" >/dev/null ||
        fail "there is no $component"
done
told "one container, no proxy" '.spec.containers | length == 1'
told "env" '.spec.containers[0].env | any(.name == "E2E_PLAYED" and .value == "yes")'
told "labels" '.metadata.labels.team == "platform"'
told "annotations" '.metadata.annotations.owner == "e2e"'
told "out of the mesh" '.metadata.labels["sidecar.istio.io/inject"] == "false" and .metadata.annotations["linkerd.io/inject"] == "disabled"'
told "it runs, or has ended well" '.status.phase | IN("Running", "Succeeded")'
told "no restarts" '.status.containerStatuses[0].restartCount == 0'
cache='select(.metadata.namespace == "'$NS'")'
told "certificates" "$cache | .spec.containers[0].env | any(.name == \"MILLRACE_CA_BUNDLE\")"
told "the namespace's user" "$cache | .spec.securityContext.runAsUser == $USER_RANGE"
told "priority" "$cache | .spec.priorityClassName == \"$RELEASE-cache\" and .spec.preemptionPolicy == \"Never\""
on_disk() { [ "$("$ROOT/hack/cluster" exec "$1" sh -c "du -sk $2 | cut -f 1")" -gt "$3" ]; }
on_disk "$GPU_NODE" /mnt/played-disk/nvme/csi.millrace.dev/volumes 1000 || fail "the client's cache is not on the disk of csi.cacheDirs"
! "$ROOT/hack/cluster" exec "$GPU_NODE" test -e "/var/lib/kubelet/plugins/csi.millrace.dev/volumes/$NS" || fail "there is a cache on kubelet's disk"

step "limits"
refused() # WORDS SPEC
{
    local answer
    if answer=$(n apply -f - 2>&1 <<<"{\"apiVersion\": \"millrace.dev/v1alpha1\", \"kind\": \"Dataset\", \"metadata\": {\"name\": \"much\"}, \"spec\": $2}"); then
        fail "accepted: $2"
    fi
    grep -qF -- "$1" <<<"$answer" || fail "no '$1' in: $answer"
    step "refused: $(tail -n 1 <<<"$answer" | sed 's/.*denied request: //' | cut -c 1-220)"
}
refused "5 cache workers are more than the 4" '{"mounts": [{"mountPoint": "s3://data"}], "cache": {"replicas": 5}}'
refused "spec.cache.tiers: a quota of 2Gi is more than the 1Gi" '{"mounts": [{"mountPoint": "s3://data"}], "cache": {"tiers": [{"medium": "SSD", "quota": "2Gi"}]}}'
refused "spec.cache.client.tiers: a quota of 2Ti" '{"mounts": [{"mountPoint": "s3://data"}], "cache": {"client": {"tiers": [{"medium": "SSD", "quota": "2Ti"}]}}}'
refused "pvc://claim is not of a kind" '{"mounts": [{"mountPoint": "pvc://claim"}]}'
refused "this cluster allows https://s3.$NS" '{"mounts": [{"mountPoint": "s3://data", "options": {"endpoint": "https://other.example"}}]}'
refused "options.sts-endpoint of s3://data: this cluster allows https://s3.$NS" '{"mounts": [{"mountPoint": "s3://data", "options": {"sts-endpoint": "https://other.example"}}]}'
refused "options.sts-endpoint of s3://data: this cluster allows https://s3.$NS" '{"mounts": [{"mountPoint": "s3://data",
    "encryptOptions": [{"name": "sts-endpoint", "valueFrom": {"secretKeyRef": {"name": "elsewhere", "key": "AWS_ENDPOINT_URL"}}}]}]}'
n apply --dry-run=server -f - >/dev/null <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "enough"},
    "spec": {"mounts": [{"mountPoint": "s3://data"}], "cache": {"replicas": 2, "tiers": [{"medium": "SSD", "quota": "1Gi"}]}}}'
n create secret generic elsewhere --from-literal="AWS_ACCESS_KEY_ID=$S3_KEY" --from-literal="AWS_SECRET_ACCESS_KEY=$S3_SECRET" \
    --from-literal="AWS_ENDPOINT_URL=https://other.$NS.svc.cluster.local:7070" >/dev/null
n apply -f - >/dev/null <<<'{"apiVersion": "millrace.dev/v1alpha1", "kind": "Dataset", "metadata": {"name": "elsewhere"},
    "spec": {"mounts": [{"mountPoint": "s3://data", "secretRef": {"name": "elsewhere"}}], "cache": {"replicas": 3}}}'
n scale dataset elsewhere --replicas 4 >/dev/null || fail "it cannot be scaled to what is allowed"
if answer=$(n scale dataset elsewhere --replicas 5 2>&1); then fail "it was scaled to more than is allowed"; fi
has_text "5 cache workers are more than the 4" echo "$answer" || fail "no such words: $answer"
expect 60 "a Secret leads to no other server" has_text "False InvalidOption" ready_message elsewhere
has_text "this cluster allows https://s3.$NS" ready_message elsewhere || fail "it does not say which: $(ready_message elsewhere)"

step "no disk for the cache: the plugin says so, and does not start"
n delete pod reader --wait --timeout=60s >/dev/null
n delete dataloads.millrace.dev,datasets.millrace.dev --all --wait --timeout=90s >/dev/null # which needs the plugin
helm upgrade "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --reset-values -f "$WORK/values.yaml" --set csi.cacheDir= --set-json csi.cacheDirs=[] >/dev/null
says_why() { k -n "$SYSTEM" get pods -l millrace.dev/component=csi -o jsonpath='{.items[*].status.containerStatuses[0].*.terminated.message}'; }
expect 60 "the plugin refuses kubelet's disk" has_text "would share the file system of kubelet" says_why
