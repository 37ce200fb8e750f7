# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# net.sh — the addresses of a cluster. They are the same in every cluster: each has network namespaces of its own.
# shellcheck disable=SC2034 # used by those who source this

CONTROL_IP=10.89.0.1         # the control machine: API server, DNS, gateway of the nodes
NODE_NET=10.89.0             # node N is .10 + N
POD_NET=10.88                # pods of node N are in .N.0/24
SERVICE_CIDR=10.96.0.0/16
API_SERVICE_IP=10.96.0.1

node_names()
{
    seq -f 'node%g' "$NODES"
}

node_ip()
{
    echo "$NODE_NET.$((10 + ${1#node}))"
}

pod_cidr()
{
    echo "$POD_NET.${1#node}.0/24"
}
