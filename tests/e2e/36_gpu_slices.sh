#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# Device plugins on a real kubelet; only the devices are no GPUs. Ten pods of 10 % share one, the eleventh waits for its turn; kubelet is started
# again and has the devices back within 5 s. examples/tfjob/rdma.yaml, beside a plugin that offers rdma/hca, gets what it asks for, as it is.
. "$(dirname "$0")/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=privileged --overwrite >/dev/null # the plugins mount kubelet's directory
NODE=$(k get nodes -o jsonpath='{.items[0].metadata.name}')
DEVICES=/run/e2e-devices
KUBELETS=/var/lib/kubelet/device-plugins

on_node() { "$ROOT/hack/cluster" exec "$NODE" "$@"; }
offers() { [ "$(k get node "$NODE" -o json | jq -r --arg name "$1" '.status.allocatable[$name]')" = "$2" ]; } # RESOURCE COUNT
running() { n get pods -l app=sharer --field-selector status.phase=Running -o name | sed 's|pod/||'; }
run_pods() { [ "$(running | wc -l)" = "$1" ]; }
waiting() { n get pods -l app=sharer --field-selector status.phase=Pending -o name; }
why_waiting() { n get "$(waiting)" -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}'; }
plugin_says() { n logs -l "app.kubernetes.io/instance=$1" --tail=-1; } # PLUGIN
registered() { [ "$(plugin_says slices | grep -c 'registered with kubelet')" -ge "$1" ]; } # TIMES

plugin() # NAME [FLAG]: the chart's, in this namespace, on one node; our devices are its GPUs
{
    helm template "$1" "$ROOT/charts/millrace" --kube-version 1.34.0 --namespace "$NS" --show-only templates/gpu.yaml --set gpuSlices.enabled=true \
        --set gpuSlices.memory=80Gi --set "gpuSlices.devDir=$DEVICES" --set-json "gpuSlices.nodeSelector={\"kubernetes.io/hostname\": \"$NODE\"}" |
        sed "${2:+/--log-level=/i\\            - $2}" | n apply -f - >/dev/null
}

step "one GPU on $NODE"
on_node sh -c "mkdir -p $DEVICES; for name in nvidia0 nvidiactl; do [ -e $DEVICES/\$name ] || mknod -m 666 $DEVICES/\$name c 1 3; done"
plugin slices
expect 60 "kubelet offers 100 units" offers millrace.dev/gpu-percent 100

step "eleven pods of 10 %"
for i in $(seq 11); do
    jq -nc --arg name "sharer-$i" --arg image "$TEST_IMAGE" '{apiVersion: "v1", kind: "Pod", metadata: {name: $name, labels: {app: "sharer"}},
        spec: {terminationGracePeriodSeconds: 0, restartPolicy: "Never", containers: [{name: "main", image: $image, imagePullPolicy: "IfNotPresent",
            command: ["/bin/sh", "-ec", "ls /dev | grep nvidia; env | grep -E \"^(CUDA|MILLRACE|TF)_\" | sort; exec sleep 3600"],
            resources: {limits: {"millrace.dev/gpu-percent": "10"}}}]}}'
done | n apply -f - >/dev/null
expect 60 "ten run" run_pods 10
has_text "Insufficient millrace.dev/gpu-percent" why_waiting || fail "the eleventh does not wait for a share: $(why_waiting)"
given='nvidia0 nvidiactl CUDA_VISIBLE_DEVICES=0 MILLRACE_GPU_MEMORY_MIB=8192 MILLRACE_GPU_MEMORY_PERCENT=10 TF_FORCE_GPU_ALLOW_GROWTH=true'
says_given() { [ "$(n logs "$1" | xargs)" = "$given" ]; }
for pod in $(running); do
    within 30 says_given "$pod" || fail "$pod has something else: $(n logs "$pod" | xargs)"
done

step "kubelet is started again"
on_node pkill -f '^[^ ]*kube kubelet '
expect 30 "the plugin registers again" registered 2
back=$(plugin_says slices | sed -n 's/.*"ts":"\([^"]*\)".*registered with kubelet.*/\1/p' | tail -n 1)
took=$(awk -v a="$(on_node stat -c %.Y "$KUBELETS/kubelet.sock")" -v b="$(date -d "$back" +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
echo "devices are back $took s after kubelet's socket"
awk "BEGIN { exit !($took >= 0 && $took < 15) }" || fail "that is too long" # 5 s are the goal, of a machine that does nothing else
expect 60 "it offers them again" offers millrace.dev/gpu-percent 100
run_pods 10 || fail "pods were lost: $(running | xargs)"
n delete pod "$(running | head -n 1)" --wait >/dev/null
expect 60 "the eleventh has its turn" run_pods 10
[ -z "$(waiting)" ] || fail "$(waiting) still waits"

step "InfiniBand: the example as it is"
plugin hca --resource=rdma/hca
expect 60 "kubelet offers adapters" offers rdma/hca 100
n apply -f "$ROOT/examples/tfjob/rdma.yaml" >/dev/null
expect 60 "its pods are made" n get pod rdma-worker-0 rdma-worker-1
template=$(n create --dry-run=client -o json -f "$ROOT/examples/tfjob/rdma.yaml" | jq -S '.spec.tfReplicaSpecs.Worker.template.spec.containers[0]')
for i in 0 1; do
    got=$(n get pod "rdma-worker-$i" -o json | jq -S '.spec.containers[0]')
    jq -e -n --argjson a "$template" --argjson b "$got" 'def own: [.command, .image, (.resources.limits | map_values(tostring)), .securityContext,
        .env[], .volumeMounts[]]; ($a | own) - ($b | own) == []' >/dev/null || fail "rdma-worker-$i: $got"
    jsonpath "pod/rdma-worker-$i" '{.spec.volumes[?(@.name=="shm")].emptyDir.medium}' | grep -qx Memory || fail "/dev/shm is no memory"
    expect 60 "rdma-worker-$i has an adapter and a GPU" has_text "$NODE" jsonpath "pod/rdma-worker-$i" '{.spec.nodeName}'
done
n delete tfjob rdma --wait >/dev/null

step "and what a container of it sees"
n create --dry-run=client -o json -f "$ROOT/examples/tfjob/rdma.yaml" | jq -c --arg image "$TEST_IMAGE" '.metadata.name = "seen" |
    .spec.tfReplicaSpecs.Worker.template.spec.containers[0] |= (.image = $image | .imagePullPolicy = "IfNotPresent" |
        .command = ["/bin/sh", "-ec", "env | grep ^NCCL_ | sort; grep CapEff /proc/self/status; ls /dev | grep nvidia; grep \" /dev/shm \" /proc/mounts"])' |
    n apply -f - >/dev/null
expect 90 "both have ended well" job_is seen Succeeded
n logs seen-worker-0 | tee "$WORK/seen"
for words in NCCL_DEBUG=INFO NCCL_IB_HCA=mlx5 nvidia0 'tmpfs /dev/shm'; do grep -q "$words" "$WORK/seen" || fail "it does not see $words"; done
((0x$(awk '/CapEff/ { print $2 }' "$WORK/seen") >> 14 & 1)) || fail "it may not lock memory"
