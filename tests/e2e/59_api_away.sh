#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# alone
# The API server is killed and stays away for a minute, comes back slow (each answer 0.4 s late), then refuses most of what the operator
# asks (429): pods read on, what ended meanwhile is seen, an operator leads again, nothing is made twice, and what comes then is done.
. "$(dirname "$0")/lib.sh"
start_test

control() { "$ROOT/hack/cluster" exec control "$@"; }
# of the control machine: the API server's process, and the loop that starts it again
api_pid() { control sh -c 'for p in /proc/[0-9]*; do tr "\0" " " 2>/dev/null <$p/cmdline | grep -q "^[^ ]*kube kube-apiserver " && echo ${p#/proc/}; done; true'; }
SLOW=7443 LOOP=''
slow_rule() { control iptables -t nat "$1" PREROUTING -i kube0 -p tcp --dport 6443 -j REDIRECT --to-ports "$SLOW"; }
api_starts()
{
    [ -z "$LOOP" ] || control kill -CONT "$LOOP" || true
    LOOP=
}
fast_again()
{
    while slow_rule -D 2>/dev/null; do :; done
    [ ! -s "$WORK/slow.log" ] || control kill "$(head -n 1 "$WORK/slow.log")" 2>/dev/null || true
}
answers() { kubectl --request-timeout=5s get --raw /readyz; }
busy_no_more()
{
    rm -f "$WORK/hold"
    k delete flowschema,prioritylevelconfiguration e2e-busy --ignore-not-found >/dev/null
}
leave()
{
    fast_again
    api_starts
    within 120 answers
    busy_no_more
}
at_end leave

s3_up
random_files 2 300000 train
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
# shellcheck disable=SC2016
tfjob long data 'cd /mnt/fuse; until [ -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out || { cat /tmp/out; exit 1; }; date +%s; sleep 0.5; done' 0 2
tfjob ends data 'cd /mnt/fuse; sha256sum -c sums.txt; sleep 45' 0 1
for pod in long-worker-0 long-worker-1 ends-worker-0; do expect 120 "$pod runs" has_text Running jsonpath "pod/$pod" '{.status.phase}'; done
n wait --for=condition=Ready dataset/data --timeout=90s >/dev/null || fail "$(ready_message data)"
# what Millrace has made here, and that stays; clients come and go with the nodes of jobs, and a worker that holds little moves to them
made() { n get pods,services,secrets,pvc -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}' | grep -v '^Pod data-client-' | sed 's/^\(Pod data-cache-0\) .*/\1/' | sort; }
volumes() { k get pv -o jsonpath='{range .items[*]}{.spec.claimRef.namespace} {.metadata.name}{"\n"}{end}' | grep -c "^$NS "; }
holder() { k -n "$SYSTEM" get lease millrace-operator -o jsonpath='{.spec.holderIdentity}'; }
renewed() { k -n "$SYSTEM" get lease millrace-operator -o jsonpath='{.spec.renewTime}'; }
leads() { local at; at=$(renewed) && [ "$(date -d "$at" +%s)" -gt "$1" ] && [ -n "$(holder)" ]; } # since
clients_serve() { n wait --for=condition=ClientsReady dataset/data --timeout=1s; }
expect 60 "all clients serve" clients_serve
before=$(made)

step "the API server is killed"
pid=$(api_pid)
[[ $pid =~ ^[0-9]+$ ]] || fail "which process is the API server? '$pid'"
LOOP=$(control sh -c "awk '/^PPid/ { print \$2 }' /proc/$pid/status")
control kill -STOP "$LOOP"
control kill -9 "$pid"
away=$(date +%s)
expect 30 "it does not answer" eval '! answers'
cat >"$WORK/slow.py" <<'PY'
import asyncio, os, sys

async def late(reader, writer, wait):
    queue = asyncio.Queue()
    async def send():
        while (item := await queue.get()) is not None:
            await asyncio.sleep(max(0, item[0] - asyncio.get_event_loop().time()))
            writer.write(item[1])
            await writer.drain()
    task = asyncio.ensure_future(send())
    try:
        while data := await reader.read(1 << 16):
            queue.put_nowait((asyncio.get_event_loop().time() + wait, data))
        queue.put_nowait(None)
        await task
    except OSError:
        pass
    task.cancel()
    writer.close()

async def serve(reader, writer):
    try:
        up = await asyncio.open_connection(sys.argv[2], 6443)
    except OSError:
        writer.close()
        return
    # kubelets of this cluster give their own reports a second
    await asyncio.gather(late(reader, up[1], 0), late(up[0], writer, 0.4), return_exceptions=True)

async def main():
    async with await asyncio.start_server(serve, "0.0.0.0", int(sys.argv[1])) as server:
        print(os.getpid(), flush=True)
        await server.serve_forever()

asyncio.run(main())
PY
"$ROOT/hack/cluster" exec control python3 - "$SLOW" 10.89.0.1 <"$WORK/slow.py" >"$WORK/slow.log" 2>&1 &
expect 30 "there is a slow way to it" [ -s "$WORK/slow.log" ]
slow_rule -I
sleep $((60 - ($(date +%s) - away)))

step "it starts again, and is slow for who asks from a node"
back=$(date +%s)
api_starts
expect 60 "it answers" answers
expect 120 "an operator leads" leads "$((back + 5))"
control kill -0 "$(head -n 1 "$WORK/slow.log")" || fail "the proxy has ended: $(tail -n 3 "$WORK/slow.log")"
for i in 0 1; do
    n logs "long-worker-$i" -c tensorflow | awk -v from="$((away + 5))" -v to="$((back - 5))" '$1 > from && $1 < to { n++ } END { exit !n }' ||
        fail "worker $i read nothing while the API server was away: $(n logs "long-worker-$i" -c tensorflow --tail=5)"
done
expect 120 "the job that ended meanwhile has succeeded" job_is ends Succeeded
tfjob slow data 'cd /mnt/fuse; sha256sum -c sums.txt' 0 1
expect 150 "a job made now ends well" job_is slow Succeeded
leader=$(holder)

step "it is fast again"
fast_again

step "it refuses most of what the operator asks, but for its lease"
k apply -f - >/dev/null <<YAML
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: e2e-busy}
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: e2e-busy}
spec:
  priorityLevelConfiguration: {name: e2e-busy}
  matchingPrecedence: 2
  rules:
    - subjects: [{kind: ServiceAccount, serviceAccount: {name: $RELEASE-operator, namespace: $SYSTEM}}]
      resourceRules: [{verbs: ["*"], apiGroups: ["", kubeflow.org, millrace.dev, storage.k8s.io], resources: ["*"], clusterScope: true, namespaces: ["*"]}]
YAML
refusals() # how often operators were answered 429
{
    local pod
    for pod in $(k -n "$SYSTEM" get pods -l millrace.dev/component=operator -o jsonpath='{.items[*].metadata.name}'); do
        k get --raw "/api/v1/namespaces/$SYSTEM/pods/$pod:9402/proxy/metrics"
    done | awk '/^rest_client_requests_total.*code="429"/ { n += $NF } END { print n + 0 }'
}
refuses_more() { [ "$(refusals)" -ge $((were + 10)) ]; }
as_operator() { k --as="system:serviceaccount:$SYSTEM:$RELEASE-operator" get --raw "$1"; }
# A share of nothing still lets one request in at a time: some that wait three seconds each, for a version that will not come, are that one.
hold()
{
    while [ -e "$WORK/hold" ]; do as_operator '/api/v1/pods?resourceVersion=9000000000&resourceVersionMatch=NotOlderThan' || true; done >/dev/null 2>&1
}
touch "$WORK/hold"
for _ in 1 2 3 4; do hold & done
were=$(refusals)
tfjob busy data 'cd /mnt/fuse; sha256sum -c sums.txt' 0 1
expect 60 "ten answers to operators were 429" refuses_more
busy_no_more
expect 150 "the job made meanwhile ends well" job_is busy Succeeded
[ "$(holder)" = "$leader" ] || fail "another operator leads: was $leader, is $(holder)"

step "nothing was made twice, or restarted"
n delete tfjob slow busy --wait --timeout=60s >/dev/null
as_before() { [ "$(made)" = "$before" ]; }
expect 120 "all is as before: $(diff <(echo "$before") <(made))" as_before
[ "$(volumes)" = 1 ] || fail "there are $(volumes) volumes"
for i in 0 1; do
    [ "$(jsonpath "pod/long-worker-$i" '{.status.containerStatuses[0].restartCount}')" = 0 ] || fail "worker $i was restarted"
    n exec "long-worker-$i" -c tensorflow -- /bin/busybox touch /tmp/stop || true # it may have ended before the answer came
done
expect 120 "the job ends well" job_is long Succeeded
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=120s >/dev/null || fail "an operator is not ready"
