# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Many TFJobs at once, Millrace's operator beside Kubeflow's training-operator 1.9.0 (the last one with a Go module), each in a fresh
# control plane: a real API server, scheduler and controller manager; pods are run by KWOK. Sourced by hack/bench.
#   hack/bench operator [--quick] [--jobs N]   1000 jobs of 3 pods, or N; --quick: 300. Needs root.
#   hack/bench operator --scale [OPTIONS]      the operator alone, with the API server of tests: memory and processor time with 1000
#       Datasets (--datasets) of 10 clients (--clients) on 1000 nodes with GPUs (--nodes), 10000 TFJobs that have ended (--jobs), pods that
#       report (--reports); and a turn of the attach controller with 10, 100, 1000 clients. No root.
# Time until all run, CPU, memory, writes to the API server by the audit log, start-up with 1000 finished jobs, and 10000 of them.

# shellcheck source=hack/lib.sh
. "${here:?}/lib.sh"

scale() # OPTIONS
{
    "$ROOT/hack/setup" build test
    run_step "the operator" bash -c "cmake -S '$ROOT' --preset release && cmake --build '$ROOT/build/release' --target millrace-operator attach_turn"
    run_step "the API server" bash -c "cmake -S '$ROOT' --preset debug && cmake --build '$ROOT/build/debug' --target operator_scale"
    "$ROOT/build/release/bin/attach_turn"
    "$ROOT/build/debug/bin/operator_scale" "$@" "$ROOT/build/release/bin/millrace-operator"
}

if [ "${1:-}" = --scale ]; then
    shift
    scale "$@"
    exit
fi
need_root "hack/bench operator"

jobs=1000
while [ $# -gt 0 ]; do
    case $1 in
    --quick) jobs=300 ;;
    --jobs)
        jobs=${2:?--jobs wants a number}
        shift
        ;;
    *)
        sed -n '3,9p' "${bench:?}" | sed 's/^# \{0,1\}//' >&2
        exit 2
        ;;
    esac
    shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "--jobs: a number"

TRAINING_OPERATOR_VERSION=v1.9.0
declare -A BENCH_TOOLS=(
    [training-operator.v1]=github.com/kubeflow/training-operator/cmd/training-operator.v1@$TRAINING_OPERATOR_VERSION
    [kwok]=sigs.k8s.io/kwok/cmd/kwok@v0.8.0
)

build_tool() # NAME
{
    local go
    go=$(go_command)
    once "$CACHE/bin/.$1.stamp" "${BENCH_TOOLS[$1]}" run_step "$1, built from source" go_install "$go" "${BENCH_TOOLS[$1]}" "$1"
}

prepare()
{
    local name
    "$ROOT/hack/setup" build cluster
    for name in "${!BENCH_TOOLS[@]}"; do with_lock go-build build_tool "$name"; done
    run_step "the operator" bash -c "cmake -S '$ROOT' --preset release && cmake --build '$ROOT/build/release' --target millrace-operator"
    UPSTREAM=$(cd / && "$(go_command)" mod download -json "github.com/kubeflow/training-operator@$TRAINING_OPERATOR_VERSION" |
        sed -n 's/^\s*"Dir": "\(.*\)",\?$/\1/p')
    export UPSTREAM KUBE=$CACHE/kube/kube CRDS=$ROOT/crds
    export MILLRACE_OPERATOR=$ROOT/build/release/bin/millrace-operator TRAINING_OPERATOR=$CACHE/bin/training-operator.v1
}

measure() # WHO MODE JOBS
{
    local dir=$work/$1-$2-$3
    run_step "$1: $2, $3 jobs" "$ROOT/tests/bench/operator/plane.sh" "$dir" "$KUBE" "$CACHE/bin/kwok" 30 \
        python3 "$ROOT/tests/bench/operator/bench.py" "$1" "$2" "$3" "$work/$1-$2-$3.json"
    rm -rf "$dir"
}

mkdir -p "$ROOT/build/bench"
prepare
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
measure millrace run "$jobs"
measure training-operator run "$jobs"
measure millrace complete "$jobs"
measure millrace finished 1000
measure millrace finished 10000
python3 "$ROOT/tests/bench/operator/table.py" "$jobs" "$work" "$ROOT/build/bench/operator.json"
