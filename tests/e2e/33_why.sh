#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 400
# alone
# `kubectl millrace why`: what people get wrong and what a cluster lacks, each as a sentence and the next command; as kubectl's plugin, by a
# kubeconfig whose credentials a program makes, and by a person who may only look at one namespace. What docs/guides/slow-job.md shows.
. "$(dirname "$0")/lib.sh"
start_test

mkdir "$WORK/bin"
ln -s "$(readlink -f "$BUILD/bin/millrace")" "$WORK/bin/kubectl-millrace"
export PATH=$WORK/bin:$PATH

why() # ARGS…: what it says; its status is in $status
{
    status=0
    said=$(kubectl millrace why "$@" -n "$NS" 2>&1) || status=$?
}

says() # STATUS TEXT NEXT OBJECT
{
    why "$4"
    [ "$status" = "$1" ] && grep -qF -- "$2" <<<"$said" && grep -qF -- "$3" <<<"$said"
}

must_say() # SECONDS STATUS TEXT NEXT OBJECT
{
    local seconds=$1
    shift
    within "$seconds" says "$@" || fail "why $4 ends with $status, not $1, and says '$said', not '$2' and '$3'"
    step "$4: $said"
}

s3_up
random_files 1 200000 train
secret keys "$S3_KEY" "$S3_SECRET"
secret wrong "$S3_KEY" wrong-secret-0123456789
dataset good
dataset denied s3://data "http://s3.$NS.svc.cluster.local:7070" wrong
expect 90 "the dataset is Ready" has_text "True Ready" ready_message good
pod healthy good 'cat /mnt/fuse/train/part-1 /mnt/fuse/train/part-1 >/dev/null; sleep 3600'
pod misspelled goood 'sleep 3600'
pod unkeyed denied 'sleep 3600'
pod broken good 'exit 3'
restricted denied 'sleep 3600' main | jq '{apiVersion: "v1", kind: "Pod", metadata: {name: "gated", labels: {"millrace.dev/data": "Ready"}},
    spec: (. + {schedulingGates: [{name: "millrace.dev/data"}]})}' | n apply -f - >/dev/null

step "a wrong claim, wrong keys, a gate, a container that fails, and nothing wrong"
must_say 30 3 "waits for the PersistentVolumeClaim goood, which is not in namespace $NS: did you mean good?" \
    "next: kubectl -n $NS get datasets.millrace.dev,persistentvolumeclaims" misspelled
must_say 60 3 "waits for Dataset denied: AccessDenied: s3://data" "next: kubectl millrace status denied -n $NS" pod/unkeyed
must_say 30 3 "is gated: Dataset denied is not ready: AccessDenied" "next: kubectl millrace status denied -n $NS" gated
must_say 60 3 "container main ended with exit code 3; nothing is wrong with its data" "next: kubectl -n $NS logs broken -c main" broken
expect 60 "the pod runs" has_text Running jsonpath pod/healthy '{.status.phase}'
must_say 60 0 "runs, and nothing is wrong with Dataset good" "user.millrace.why" healthy
must_say 1 1 "there is no pod and no job healty in namespace $NS: did you mean pod healthy?" "" healty

step "status"
expect 60 "the pod has failed" has_text Failed jsonpath pod/broken '{.status.phase}' # and is not counted as running
kubectl millrace status -n "$NS" >"$WORK/status"
cat "$WORK/status"
for words in "$NS/good  Ready" "$NS/denied  not Ready (AccessDenied)" "store    s3://data at /" "readers  running: 1" \
    "waiting  pod unkeyed waits for Dataset denied"; do
    grep -qF "$words" "$WORK/status" || fail "status does not say '$words'"
done
[ "$(kubectl millrace status good -n "$NS" --json | jq -r '.datasets[0].workers[0].pod')" = good-cache-0 ] || fail "status --json names no worker"
for spelling in good mds/good datasets/good dataset.millrace.dev/good; do
    kubectl millrace status "$spelling" -n "$NS" | grep -qF "$NS/good  Ready" || fail "status $spelling says something else"
done
must_say 30 3 "dataset denied is not ready: AccessDenied" "next: kubectl millrace status denied -n $NS" mds/denied
must_say 30 0 "dataset good is Ready, and nothing is wrong with it" "next: kubectl millrace status good -n $NS" good
kubectl millrace status pod/healthy -n "$NS" 2>"$WORK/out" && fail "a pod has a status"
grep -qF "kubectl millrace why pod/healthy" "$WORK/out" || fail "$(cat "$WORK/out")"
kubectl millrace status nothing -n "$NS" 2>"$WORK/out" && fail "a Dataset that is not there has a status"
grep -qF "there is no Dataset nothing in namespace $NS" "$WORK/out" || fail "$(cat "$WORK/out")"

step "who may look at one namespace only, with credentials that a program makes"
n create serviceaccount looker >/dev/null
n create rolebinding looker --clusterrole=view --serviceaccount="$NS:looker" >/dev/null
cat >"$WORK/bin/credentials" <<'SH'
#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" >"$INFO"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$(cat "$1")"
SH
chmod +x "$WORK/bin/credentials"
n create token looker >"$WORK/token"
kubectl config view --raw --minify -o json | jq --arg token "$WORK/token" --arg info "$WORK/info" '.users[0].user = {exec: {
    apiVersion: "client.authentication.k8s.io/v1", command: "bin/credentials", args: [$token], provideClusterInfo: true,
    env: [{name: "INFO", value: $info}], interactiveMode: "Never"}}' >"$WORK/looker"
looker() { millrace=$BUILD/bin/millrace && "$millrace" "$@" --kubeconfig "$WORK/looker" -n "$NS"; }
looker why unkeyed >"$WORK/out" && fail "it ends well"
cat "$WORK/out"
grep -qF "waits for Dataset denied: AccessDenied" "$WORK/out" || fail "with the role view it does not say why"
grep -qF "note: not looked at, because you may not read them: volumeattachments" "$WORK/out" || fail "it does not say what was skipped"
[ "$(jq -r .spec.cluster.server "$WORK/info")" = "$(kubectl config view --minify -o json | jq -r '.clusters[0].cluster.server')" ] ||
    fail "the program was not told of the cluster: $(cat "$WORK/info")"
looker doctor >"$WORK/out" && fail "doctor does not miss the right to make Datasets"
cat "$WORK/out"
grep -qF "FAILED  rights: in namespace $NS you may not create datasets" "$WORK/out" || fail "doctor does not name the right"
grep -qF "skipped operator: you may not list pods of all namespaces" "$WORK/out" || fail "doctor does not say what it skips"
sed -i 's|bin/credentials|bin/nothing|' "$WORK/looker"
looker why unkeyed 2>"$WORK/out" && fail "without its program the kubeconfig is of use"
grep -qF "kubectl proxy" "$WORK/out" || fail "$(cat "$WORK/out")"

step "a node without the plugin"
node=$(k get nodes -o name | sed -n '$s|node/||p')
k label node "$node" eks.amazonaws.com/compute-type=hybrid >/dev/null
leave() { k label node "$node" eks.amazonaws.com/compute-type- >/dev/null; }
at_end leave
no_driver()
{
    local drivers
    drivers=$(k get csinode "$node" -o jsonpath='{.spec.drivers[*].name}') && [[ $drivers != *csi.millrace.dev* ]]
}
expect 60 "the driver is gone from $node" no_driver
pod nowhere good 'sleep 3600' "$node"
must_say 60 3 "cannot mount Dataset good on node $node: Millrace's node plugin is not registered there" \
    "next: kubectl get pods -A -o wide -l millrace.dev/component=csi --field-selector spec.nodeName=$node" nowhere
k label node "$node" eks.amazonaws.com/compute-type- >/dev/null
expect 120 "the pod runs once the plugin is there" has_text Running jsonpath pod/nowhere '{.status.phase}'

step "doctor"
kubectl millrace doctor >"$WORK/out" || { cat "$WORK/out"; grep -qF "FAILED  Datasets: " "$WORK/out" || fail "doctor finds fault with the cluster"; }
cat "$WORK/out"
grep -qF "$NS/denied: AccessDenied" "$WORK/out" || fail "doctor does not name the Dataset"
