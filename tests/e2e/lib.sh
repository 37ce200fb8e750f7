# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the end-to-end tests share. They run a few at once, those that say `# alone` alone, against the cluster that kubectl points at,
# with Millrace installed by 00_install.sh; each works in a namespace of its own, which refuses every pod that is not of the restricted profile.
# Sourced; sets NS, WORK (a directory) and the variables below.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
BUILD=${MILLRACE_BUILD:-$ROOT/build/release}
SYSTEM=millrace-system
export RELEASE=millrace
TEST_IMAGE=localhost/millrace-test:1
NS=e2e-$(basename "$0" .sh | tr '_' '-' | sed 's/^[0-9]*-//')
WORK=$(mktemp -d)
export NS

step()
{
    printf '%(%H:%M:%S)T %s\n' -1 "$*"
}

fail()
{
    echo "FAIL: $*" >&2
    : "${FAILURE:=FAIL: $*}" # the first one is the cause
    [ -n "${FINISHING:-}" ] || exit 1
}

k()
{
    kubectl --request-timeout=60s "$@"
}

n() # in the test's namespace
{
    k -n "$NS" "$@"
}

# at_end FUNCTION: is called when the test ends, however that is, before its namespace goes, with the status; it may fail, and is not stopped by
# what fails in it. What it calls a failure by `fail` counts if the test had none.
at_end()
{
    AT_END=$1
}

# What a person would look at, when a test fails; then its namespace goes.
finish()
{
    local status=$?
    trap - ERR
    set +e # what there is to do is done, whatever of it fails
    exec >&7 2>&8 # the command that failed may have had others
    if [ -n "${AT_END:-}" ]; then
        FINISHING=yes
        "$AT_END" "$status"
    fi
    [ -z "${FAILURE:-}" ] || [ "$status" != 0 ] || status=1
    if [ "$status" != 0 ]; then
        {
            n get dataset,tfjob,pvc,pods -o wide
            n describe dataset
            n get events --sort-by=.lastTimestamp | tail -n 30
            k get volumeattachment
            k -n "$SYSTEM" get pods -o wide
            k -n "$SYSTEM" logs -l millrace.dev/component=operator --tail=30 --prefix
            for pod in $(n get pods -l millrace.dev/component -o name); do n logs "$pod" --tail=15 --prefix; done
            n logs s3 -c s3 --tail=60
        } 2>&1 | cut -c 1-400 || true # what there is; a namespace without a server has no log of one
        echo "${FAILURE:-FAIL: status $status}" >&2 # said last, too: of a log, its end is shown
    fi
    [ -z "${FORWARD_PID:-}" ] || kill "$FORWARD_PID" 2>/dev/null || true
    if [ -z "${KEEP:-}" ]; then
        k delete namespace "$NS" --ignore-not-found --wait --timeout=120s >/dev/null 2>&1 ||
            { echo "FAIL: namespace $NS is not gone after 120 s" >&2 && status=1; }
        rm -rf "$WORK"
    fi
    exit "$status"
}

start_test()
{
    exec 7>&1 8>&2
    trap finish EXIT
    set -o errtrace
    trap '[ -n "${FAILURE:-}" ] || FAILURE="FAIL: status $?: line $LINENO: $BASH_COMMAND"' ERR
    k delete namespace "$NS" --ignore-not-found --wait --timeout=120s >/dev/null
    k create namespace "$NS" >/dev/null
    k label namespace "$NS" pod-security.kubernetes.io/enforce=restricted >/dev/null
    within 30 n get serviceaccount default
}

# within SECONDS COMMAND…: repeats it until it succeeds. SECONDS is what is to be expected of a machine that does nothing else; this
# one builds and runs other tests meanwhile, so thrice that is waited before it is called a failure.
within()
{
    local end=$((SECONDS + 3 * $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt "$end" ] || return 1
        sleep 1 # a kubectl takes a seventh of a second of a processor, and many wait at once
    done
}

# expect SECONDS WHAT COMMAND…: within, or the test fails
expect()
{
    local seconds=$1 what=$2
    shift 2
    within "$seconds" "$@" || fail "not in three times $seconds s: $what"
}

jsonpath() # OBJECT PATH
{
    n get "$1" -o "jsonpath=$2"
}

has_text() # TEXT COMMAND…: its output holds the text
{
    local text=$1 output
    shift
    output=$("$@" 2>&1) || true
    grep -qiF -- "$text" <<<"$output"
}

ready_message() # DATASET
{
    jsonpath "dataset/$1" '{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}: {.status.conditions[?(@.type=="Ready")].message}'
}

page_block() # PAGE N: the Nth block of commands of the page, for a shell
{
    python3 "$ROOT/tests/e2e/pages.py" block "$ROOT/$1" "$2"
}

reader() # COMMAND…: as the reader of a page types it, in $WORK/reader; the test's namespace is that of the reader's context
{
    if [ ! -e "$WORK/kubeconfig" ]; then
        mkdir -p "$WORK/reader"
        kubectl config view --raw >"$WORK/kubeconfig"
        KUBECONFIG=$WORK/kubeconfig kubectl config set-context --current --namespace "$NS" >/dev/null
    fi
    (cd "$WORK/reader" && KUBECONFIG=$WORK/kubeconfig "$@")
}

job_is() # JOB TYPE
{
    [ "$(jsonpath "tfjob/$1" '{.status.conditions[-1:].type}')" = "$2" ]
}

# --- an S3 server, in the test's namespace --------------------------------------------------------------------------------

S3_KEY=e2e-access-key S3_SECRET=e2e-secret-key-0123456789

s3_up() # a server with bucket `data`
{
    sed "s/@NS@/$NS/g; s/@KEY@/$S3_KEY/; s/@SECRET@/$S3_SECRET/" "$ROOT/tests/e2e/s3.yaml" | k apply -f - >/dev/null
    n wait --for=condition=Ready pod/s3 --timeout=90s >/dev/null
    forward
}

forward() # its port to ours; instead of one that there was
{
    local line pid=${FORWARD_PID:-}
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    coproc FORWARD { exec kubectl -n "$NS" port-forward pod/s3 :7070 2>&1; }
    read -r -t 60 line <&"${FORWARD[0]}" || fail "kubectl port-forward does not answer"
    S3_PORT=$(sed -n 's/.*127.0.0.1:\([0-9]*\) .*/\1/p' <<<"$line")
}

put() # FILE KEY
{
    local try
    for try in 1 2 3; do
        if AWS_ACCESS_KEY_ID=$S3_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET "$BUILD/bin/millrace" cp \
            --option "endpoint=http://127.0.0.1:$S3_PORT" --option region=us-east-1 "$1" "s3://data/$2"; then
            return 0
        fi
        [ "$try" = 3 ] || forward # kubectl's may have come to its end
    done
    return 1
}

in_bucket() # COMMAND…: busybox, run where the server keeps the bucket
{
    n exec s3 -c s3 -- /bin/busybox "$@"
}

random_files() # COUNT BYTES PREFIX: uploads them, with their sums in sums.txt
{
    local i
    mkdir -p "$WORK/$3"
    for i in $(seq "$1"); do
        head -c "$2" /dev/urandom >"$WORK/$3/part-$i"
        put "$WORK/$3/part-$i" "$3/part-$i"
    done
    (cd "$WORK" && sha256sum "$3"/part-*) >"$WORK/sums.txt"
    put "$WORK/sums.txt" sums.txt
}

secret() # NAME KEY SECRET
{
    n create secret generic "$1" --from-literal="access=$2" --from-literal="secret=$3" --dry-run=client -o yaml | n apply -f - >/dev/null
}

dataset() # NAME [URL [ENDPOINT [SECRET]]]: readable and writable, one cache worker
{
    n apply -f - <<YAML
apiVersion: millrace.dev/v1alpha1
kind: Dataset
metadata: {name: $1}
spec:
  mounts:
    - mountPoint: ${2:-s3://data}
      path: /
      options: {endpoint: "${3:-http://s3.$NS.svc.cluster.local:7070}", region: us-east-1}
      encryptOptions:
        - {name: access-key-id, valueFrom: {secretKeyRef: {name: ${4:-keys}, key: access}}}
        - {name: secret-access-key, valueFrom: {secretKeyRef: {name: ${4:-keys}, key: secret}}}
  accessModes: [ReadWriteMany]
  cache:
    replicas: 1
    tiers:
      - {medium: Memory, quota: 32Mi}
      - {medium: SSD, quota: 512Mi}
YAML
}

# The parts of a pod spec that the restricted profile asks for, and the claim of a dataset at /mnt/fuse.
restricted() # CLAIM SCRIPT CONTAINER: prints a pod spec as JSON
{
    jq -nc --arg claim "$1" --arg script "$2" --arg name "$3" --arg image "$TEST_IMAGE" '{
        securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, seccompProfile: {type: "RuntimeDefault"}},
        terminationGracePeriodSeconds: 1,
        containers: [{name: $name, image: $image, imagePullPolicy: "IfNotPresent", command: ["/bin/sh", "-ec", $script],
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}},
            volumeMounts: [{name: "data", mountPath: "/mnt/fuse"}]}],
        volumes: [{name: "data", persistentVolumeClaim: {claimName: $claim}}]}'
}

pod() # NAME CLAIM SCRIPT [NODE]
{
    restricted "$2" "$3" main | jq -c --arg name "$1" --arg node "${4:-}" '{apiVersion: "v1", kind: "Pod", metadata: {name: $name},
        spec: (. + {restartPolicy: "Never"} + (if $node == "" then {} else {nodeSelector: {"kubernetes.io/hostname": $node}} end))}' |
        n apply -f - >/dev/null
}

tfjob() # NAME CLAIM SCRIPT CHIEFS WORKERS
{
    restricted "$2" "$3" tensorflow | jq -c --arg name "$1" --argjson chiefs "$4" --argjson workers "$5" '
        . as $pod | def replica(n): {replicas: n, restartPolicy: "OnFailure", template: {spec: $pod}};
        {apiVersion: "kubeflow.org/v1", kind: "TFJob", metadata: {name: $name}, spec: {tfReplicaSpecs:
            ((if $chiefs > 0 then {Chief: replica($chiefs)} else {} end) + (if $workers > 0 then {Worker: replica($workers)} else {} end))}}' |
        n apply -f - >/dev/null
}
