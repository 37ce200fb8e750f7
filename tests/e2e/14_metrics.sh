#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# Every component tells its metrics over the pod network, on a port that has nothing else; the counters move with what is read. What the
# chart makes for a monitoring system is accepted by the API server where its kinds are known; the test cluster enforces no NetworkPolicy.
. "$(dirname "$0")/lib.sh"
start_test

ip() # NAMESPACE POD
{
    k -n "$1" get pod "$2" -o jsonpath='{.status.podIP}'
}

ask() # NAMESPACE POD PORT PATH: from a pod, as a Prometheus would
{
    n exec reader -- curl -sf -m 10 "http://$(ip "$1" "$2"):$3$4"
}

pod_of() # NAMESPACE COMPONENT
{
    k -n "$1" get pods -l "millrace.dev/component=$2" --field-selector status.phase=Running -o jsonpath='{.items[0].metadata.name}'
}

value() # NAMESPACE POD METRIC: with its labels, as it is written
{
    ask "$1" "$2" 9402 /metrics | sed -n "s/^$3 //p"
}

more_than() # LEAST NAMESPACE POD METRIC
{
    local now
    now=$(value "$2" "$3" "$4") && [ "${now:-0}" -gt "$1" ]
}

s3_up
random_files 3 1000000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
pod reader data 'cd /mnt/fuse; sha256sum -c sums.txt; sleep 3600'
expect 90 "the pod runs" has_text Running jsonpath pod/reader '{.status.phase}'

step "every component, on a port that has nothing else"
while read -r namespace component port metric; do
    pod=$(pod_of "$namespace" "$component")
    [ -n "$pod" ] || fail "no pod of $component runs"
    ask "$namespace" "$pod" 9402 /metrics >"$WORK/$component.metrics" || fail "$component has no metrics"
    grep -q "^$metric" "$WORK/$component.metrics" || fail "$component has no $metric: $(head -c 2000 "$WORK/$component.metrics")"
    grep -q '^process_resident_memory_bytes [1-9]' "$WORK/$component.metrics" || fail "$component: no memory"
    for path in / /status /healthz /readyz /v1/data; do
        if ask "$namespace" "$pod" 9402 "$path" >/dev/null 2>&1; then fail "$component: $path is on the port of metrics"; fi
    done
    if ask "$namespace" "$pod" "$port" /metrics >/dev/null 2>&1; then fail "$component: /metrics is on port $port, too"; fi
    k -n "$namespace" get pod "$pod" -o json | jq -e '(.metadata.annotations | .["prometheus.io/scrape"] == "true" and
        .["prometheus.io/port"] == "9402") and any(.spec.containers[0].ports[]; .name == "metrics" and .containerPort == 9402)' >/dev/null ||
        fail "$component does not tell where its metrics are"
    step "$component: $(grep -vc '^#' "$WORK/$component.metrics") values"
done <<END
$SYSTEM operator 8080 millrace_cache_objects
$SYSTEM csi 9401 millrace_csi_mounts
$NS client 9400 millrace_read_bytes_total
$NS worker 9400 millrace_served_bytes_total
END

step "what was read is counted"
expect 30 "the client has counted" more_than 2999999 "$NS" "$(pod_of "$NS" client)" 'millrace_read_bytes_total{from="worker"}'
leader=''
for pod in $(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o jsonpath='{.items[*].metadata.name}'); do
    [ "$(value "$SYSTEM" "$pod" millrace_leader)" != 1 ] || leader=$pod
done
[ -n "$leader" ] || fail "no operator says that it leads"
labels="dataset_namespace=\"$NS\",dataset=\"data\""
expect 60 "the operator has it of the Dataset" more_than 2999999 "$SYSTEM" "$leader" "millrace_dataset_read_bytes_total{$labels,from=\"worker\"}"
expect 30 "it is ready" more_than 0 "$SYSTEM" "$leader" "millrace_dataset_condition{$labels,type=\"Ready\",reason=\"Ready\"}"
expect 60 "its size" more_than 2999999 "$SYSTEM" "$leader" "millrace_dataset_size_bytes{$labels}"

step "the Dataset says whether it fits, and whether its nodes are as fast as can be"
told() { [[ " $2 " = *" $(jsonpath dataset/data "{.status.conditions[?(@.type==\"$1\")].reason}") "* ]]; }
expect 60 "CacheFits is known: $(n describe dataset data)" told CacheFits Fits
node_kernel=$(k get node "$(jsonpath pod/reader '{.spec.nodeName}')" -o jsonpath='{.status.nodeInfo.kernelVersion}')
newer=$([ "$(printf '%s\n' 6.9 "$node_kernel" | sort -V | head -n 1)" = 6.9 ] && echo 1 || echo 0)
expect 60 "FullSpeed is right for Linux $node_kernel: $(n describe dataset data)" told FullSpeed "$([ "$newer" = 1 ] && echo AllNodes || echo KernelTooOld)"
has_text AllNodes n describe dataset data || has_text KernelTooOld n describe dataset data || fail "describe does not show it"
grep -qF "millrace_csi_feature{name=\"resend\",kernel=\"$node_kernel\"} $newer" "$WORK/csi.metrics" ||
    fail "the node plugin does not tell of Linux $node_kernel: $(grep feature "$WORK/csi.metrics")"

step "connections that are held do not keep a scrape waiting"
client=$(pod_of "$NS" client)
n exec reader -- /bin/sh -c "for i in \$(seq 40); do { /bin/busybox sleep 20 | /bin/busybox nc $(ip "$NS" "$client") 9402; } >/dev/null 2>&1 & done; /bin/busybox sleep 1
    curl -sf -m 10 http://$(ip "$NS" "$client"):9402/metrics >/dev/null" || fail "no answer beside 40 connections"

step "objects for a monitoring system"
helm template "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --kube-version 1.34.0 >"$WORK/default.yaml"
k apply --dry-run=server -o json -f "$WORK/default.yaml" >"$WORK/default.json"
jq -e '[.items[] | select(.kind == "NetworkPolicy") | .spec.ingress[] | select(.ports[].port == 9402)] | length == 1 and all(.[]; .from == null)' \
    "$WORK/default.json" >/dev/null || fail "by default there is no policy, or one that keeps a Prometheus out"
jq -r '.items[] | select(.kind == "ConfigMap") | .data[]' "$WORK/default.json" >"$WORK/config"
grep -q '"ingress"' "$WORK/config" || fail "by default the operator makes no policies: $(cat "$WORK/config")"
helm template "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --kube-version 1.34.0 --set metrics.networkPolicy.enabled=true \
    --set metrics.dashboards.enabled=true --set 'metrics.namespaces={watchers}' --show-only templates/metrics.yaml \
    --show-only templates/dashboard.yaml >"$WORK/objects.yaml"
k apply --dry-run=server -o json -f "$WORK/objects.yaml" >"$WORK/objects.json"
jq -e '[.items[] | select(.kind == "NetworkPolicy")] | length == 3
    and all(.[]; .spec.policyTypes == ["Ingress"])
    and ([.[] | .spec.ingress[] | select(.ports[].port == 9402) | .from[].namespaceSelector.matchExpressions[0].values] == [["watchers"]])' \
    "$WORK/objects.json" >/dev/null || fail "the policies: $(jq -c .items "$WORK/objects.json")"
jq -e '.items[] | select(.kind == "ConfigMap") | .metadata.labels.grafana_dashboard == "1"
    and (.data["millrace.json"] | fromjson | .panels | length > 10)' "$WORK/objects.json" >/dev/null || fail "the dashboard is no JSON"
helm template "$RELEASE" "$ROOT/charts/millrace" --namespace "$SYSTEM" --kube-version 1.34.0 --set metrics.podMonitor.enabled=true \
    --set metrics.podMonitor.labels.release=p --set metrics.prometheusRule.enabled=true >"$WORK/monitors.yaml"
[ "$(grep -c '^kind: PodMonitor$' "$WORK/monitors.yaml")" = 2 ] || fail "there are not two PodMonitors"
[ "$(grep -c '^    release: p$' "$WORK/monitors.yaml")" = 2 ] || fail "the PodMonitors have not the label"
grep -qF 'alert: MillraceDatasetNotReady' "$WORK/monitors.yaml" || fail "the alerts are missing"
grep -qF '{{ $labels.dataset }}' "$WORK/monitors.yaml" || fail "Helm has eaten the alerts' templates"
