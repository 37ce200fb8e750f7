# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# gpus.sh — nodes get and lose GPUs: kubelet takes over what a node's status says. Sourced, after start_test, by tests that are alone.

NODES=$(k get nodes -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}')
declare -A GPUS_BEFORE
for node in $NODES; do GPUS_BEFORE[$node]=$(k get node "$node" -o 'jsonpath={.status.capacity.nvidia\.com/gpu}'); done
at_end gpus_as_before

set_gpus() # NODE COUNT
{
    k patch node "$1" --subresource=status --type=json -p '[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "'"$2"'"}]' >/dev/null
}

offers() # NODE COUNT
{
    [ "$(k get node "$1" -o 'jsonpath={.status.allocatable.nvidia\.com/gpu}')" = "$2" ]
}

offer() # NODE COUNT
{
    set_gpus "$1" "$2"
    expect 60 "kubelet offers $2 on $1" offers "$1" "$2"
}

gpu() # NODE: it has one from now on, and is tainted as usual
{
    k taint node "$1" nvidia.com/gpu=present:NoSchedule --overwrite >/dev/null
    offer "$1" 1
}

gpus_as_before()
{
    local node
    for node in $NODES; do
        k taint node "$node" nvidia.com/gpu- >/dev/null 2>&1 || true
        k label node "$node" e2e-pool- >/dev/null 2>&1 || true
        set_gpus "$node" "${GPUS_BEFORE[$node]:-0}" || true
    done
}

node_of() { n get pod "$1" -o "jsonpath={.spec.nodeName} {.status.conditions[?(@.type=='Ready')].status}"; }
is_on() { [ "$(node_of "$1")" = "$2 True" ]; } # POD NODE
moves() { n get events --field-selector reason=WorkerMoves -o jsonpath='{.items[*].message}' | grep -qF -- "$1"; } # WORDS
