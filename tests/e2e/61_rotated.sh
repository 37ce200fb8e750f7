#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# alone
# The cluster's authority and the keys of its tokens are changed while a job reads: who has the former ones is refused in the end. An operator
# that was not started again meanwhile follows the API server, by the certificates and the token that kubelet has written into its directory.
. "$(dirname "$0")/lib.sh"
start_test

operators() { k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o json | jq -c '.items[]'; }
scale() { k -n "$SYSTEM" scale deployment/millrace-operator --replicas="$1" >/dev/null; }
as_before() { scale "$REPLICAS"; }
started() { operators | jq -r '"\(.metadata.name) \(.status.containerStatuses[0].containerID)"' | sort; }
# kubelet's files of an operator's service account
account_files()
{
    "$ROOT/hack/cluster" exec "$1" sh -c "cd /var/lib/kubelet/pods/$2/volumes/kubernetes.io~projected/* && cat $3" </dev/null
}
each_has() # FILE COMMAND…: reads it from standard input
{
    local file=$1 node uid
    shift
    while read -r node uid; do account_files "$node" "$uid" "$file" | "$@" || return 1; done < <(operators | jq -r '"\(.spec.nodeName) \(.metadata.uid)"')
}
authorities() { [ "$(grep -c BEGIN)" = "$1" ]; }
another_token() { ! grep -qxFf "$WORK/tokens"; }
rotate()
{
    step "the next authority: $1"
    "$ROOT/hack/cluster" rotate "$1" # until the nodes have reported
}

# the API server starts again with each step, and a leader that it does not answer meanwhile gives up its lease: one more than may be hit
REPLICAS=$(k -n "$SYSTEM" get deployment/millrace-operator -o 'jsonpath={.spec.replicas}')
at_end as_before
scale 4
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=120s >/dev/null || fail "four operators are not ready"

s3_up
random_files 2 300000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
# shellcheck disable=SC2016
tfjob long data 'cd /mnt/fuse; until [ -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out || { cat /tmp/out; exit 1; }; sleep 0.5; done' 0 1
expect 120 "the job runs" has_text Running jsonpath pod/long-worker-0 '{.status.phase}'
started >"$WORK/started"
each_has token tee -a "$WORK/first-tokens" >/dev/null

rotate trust
expect 90 "kubelet has written both authorities" each_has ca.crt authorities 2
each_has token tee -a "$WORK/tokens" >/dev/null # the former key's, too, of kubelets that were started again
rotate use
expect 90 "kubelet has written other tokens" each_has token another_token
rotate forget
expect 90 "kubelet has written the next authority alone" each_has ca.crt authorities 1
k config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d >"$WORK/ca.crt"
answered() # TOKEN: as who has no certificate
{
    curl -s -o /dev/null -w '%{http_code}' --cacert "$WORK/ca.crt" -H "Authorization: Bearer $1" \
        "$(k config view --minify -o jsonpath='{.clusters[0].cluster.server}')/api/v1/nodes"
}
[ "$(answered "$(head -n 1 "$WORK/first-tokens")")" = 401 ] || fail "the former token is still good"

step "all goes on"
tfjob after data 'cd /mnt/fuse; sha256sum -c sums.txt' 0 1
expect 120 "a job made now ends well" job_is after Succeeded
# one that did not lead had no lease to lose, and was not started again
follows()
{
    local pod
    for pod in $(comm -12 "$WORK/started" <(started) | cut -d ' ' -f 1); do
        k get --raw "/api/v1/namespaces/$SYSTEM/pods/$pod:9402/proxy/metrics" >"$WORK/metrics" || return 1
        grep '^millrace_cache_stale_seconds' "$WORK/metrics" >"$WORK/stale" || return 1
        ! grep -v ' 0$' "$WORK/stale" || return 1
        grep -q '^millrace_cache_objects{resource="tfjobs".* 2$' "$WORK/metrics" && return 0
    done
    return 1
}
expect 60 "an operator that was not started again has heard of both jobs" follows
n exec long-worker-0 -c tensorflow -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
expect 120 "the job that was there before ends well" job_is long Succeeded
[ "$(n get pods -l training.kubeflow.org/job-name=long -o jsonpath='{.items[*].status.containerStatuses[0].restartCount}')" = 0 ] || fail "its worker was restarted"
