# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# traces: every object, mount and file that an installation could leave behind, one a line. Sourced after lib.sh.

traces()
{
    local node kind
    for kind in $(k api-resources --verbs=list -o name | grep -Ev '^(events|leases|endpoints|endpointslices|componentstatuses|pods\.metrics)|events.k8s.io|coordination' | sort); do
        k get "$kind" -A -o name --ignore-not-found 2>/dev/null | sed "s|^|object |"
    done | grep -v -e 'replicaset' -e 'controllerrevision' -e "namespace/$SYSTEM"
    for node in $(k get nodes -o jsonpath='{.items[*].metadata.name}'); do
        "$ROOT/hack/cluster" exec "$node" sh -c "grep -E 'fuse|csi.millrace.dev' /proc/self/mounts | cut -d ' ' -f 1-3
            find /var/lib/kubelet/plugins /var/lib/kubelet/plugins_registry 2>/dev/null | grep millrace; true" | sed "s|^|$node |"
    done
}
