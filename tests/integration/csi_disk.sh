#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# Where the node plugin's caches lie: on kubelet's disk though a directory was named for them is warned of, and refused where that is
# wanted; without one it is said; on a disk of their own there is nothing to say.
set -euo pipefail

BUILD=${MILLRACE_BUILD:-$(dirname "$(readlink -f "$0")")/../../build/asan}
[ "$(id -u)" = 0 ] || { echo "SKIP: needs root"; exit 77; }
WORK=$(mktemp -d "${TMPDIR:-/tmp}/disk.XXXXXX")
plugin=
cleanup()
{
    if [ -n "$plugin" ]; then kill -KILL "$plugin" 2>/dev/null || true; fi
    umount "$WORK/nvme" 2>/dev/null || true
    rm -rf "$WORK"
}
trap cleanup EXIT
fail() { echo "FAIL: $*"; cat "$WORK/log" "$WORK/metrics" 2>/dev/null; exit 1; }
mkdir -p "$WORK/kubelet/plugins_registry" "$WORK/nvme"

start() # FLAG…
{
    "$BUILD/bin/millrace-csi" --kubelet-dir "$WORK/kubelet" --node-id node-1 --http '' --metrics 127.0.0.1:19402 "$@" >"$WORK/log" 2>&1 &
    plugin=$!
    for _ in $(seq 300); do
        if grep -q '"msg":"ready"' "$WORK/log" || ! kill -0 "$plugin" 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    fail "the plugin does not start"
}

stop()
{
    kill -TERM "$plugin"
    wait "$plugin" || fail "the plugin ended with $?"
    plugin=
}

gauge() # VALUE
{
    curl -sf http://127.0.0.1:19402/metrics >"$WORK/metrics" || fail "no metrics"
    grep -qx "millrace_csi_shares_kubelet_disk $1" "$WORK/metrics" || fail "millrace_csi_shares_kubelet_disk is not $1"
}

start --cache-root "$WORK/nvme/csi.millrace.dev"
line=$(grep "share kubelet's file system" "$WORK/log") || fail "nothing is said of a cacheDir on kubelet's disk"
[[ $line = *'"level":"warn"'* ]] || fail "it is no warning: $line"
[[ $line = *"no disk is mounted"*"csi.cacheDir"*"$WORK/nvme/csi.millrace.dev"* ]] || fail "it does not say what to look at: $line"
gauge 1
stop

start
line=$(grep "share kubelet's file system" "$WORK/log") || fail "nothing is said without a cacheDir"
[[ $line = *'"level":"info"'* ]] || fail "the default is warned of: $line"
gauge 1
stop

if "$BUILD/bin/millrace-csi" --kubelet-dir "$WORK/kubelet" --cache-root "$WORK/nvme/csi.millrace.dev" --allow-root-disk=false \
    --http '' --metrics '' >"$WORK/log" 2>&1; then fail "kubelet's disk is not refused"; fi
grep -q "allow-root-disk is false: mount a disk" "$WORK/log" || fail "the refusal does not say what to do"

mount -t tmpfs -o size=16m tmpfs "$WORK/nvme"
start --cache-root "$WORK/nvme/csi.millrace.dev" --allow-root-disk=false
! grep "share kubelet's file system" "$WORK/log" || fail "a disk of its own is warned of"
gauge 0
stop
echo ok
