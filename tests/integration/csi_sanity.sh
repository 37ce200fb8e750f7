#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: csi-sanity
# timeout: 300
# csi-sanity against the node plugin, standalone, with real client processes and a directory as the store; then what the plugin
# leaves behind when it ends: nothing.
set -euo pipefail

BUILD=${MILLRACE_BUILD:-$(dirname "$(readlink -f "$0")")/../../build/asan}
SANITY=${CSI_SANITY:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace/bin/csi-sanity}
CLIENT=${CSI_CLIENT:-$BUILD/bin/millrace-fuse}
[ "$(id -u)" = 0 ] && [ -c /dev/fuse ] || { echo "SKIP: needs root and /dev/fuse"; exit 77; }
[ -x "$SANITY" ] || { echo "SKIP: no csi-sanity: hack/setup csi-sanity"; exit 77; }

WORK=$(mktemp -d "${TMPDIR:-/tmp}/sanity.XXXXXX")
plugin=
cleanup()
{
    if [ -n "$plugin" ]; then kill -KILL "$plugin" 2>/dev/null || true; fi
    local point
    while read -r point; do umount -f -l "$point" || true; done < <(awk -v d="$WORK/" 'index($2, d) == 1 {print $2}' /proc/mounts | tac)
    local pid
    for pid in "$WORK"/run/*/pid; do [ -e "$pid" ] && kill -KILL -- "-$(cut -d ' ' -f 1 "$pid")" 2>/dev/null; done || true
    rm -rf "$WORK"
}
trap cleanup EXIT
fail() { echo "FAIL: $*"; tail -n 40 "$WORK/plugin.log"; exit 1; }

mkdir "$WORK/data"
head -c 3000000 /dev/urandom >"$WORK/data/file"
printf 'url: file://%s/data\ncache-memory: 64Mi\n' "$WORK" >"$WORK/parameters.yaml"
cat >"$WORK/secrets.yaml" <<SECRETS
NodeStageVolumeSecret: {access-key-id: not-a-real-key}
SECRETS

start()
{
    "$BUILD/bin/millrace-csi" --mode standalone --root "$WORK/root" --run-dir "$WORK/run" --http 127.0.0.1:0 --metrics 127.0.0.1:0 \
        --client "$CLIENT" --node-id node-1 >>"$WORK/plugin.log" 2>&1 &
    plugin=$!
    for _ in $(seq 600); do [ -S "$WORK/root/csi.sock" ] && return; sleep 0.1; done
    fail "the plugin does not start"
}

start
"$SANITY" --csi.endpoint="unix:$WORK/root/csi.sock" --csi.mountdir="$WORK/mount" --csi.stagingdir="$WORK/staging" \
    --csi.testvolumeparameters="$WORK/parameters.yaml" --ginkgo.no-color >"$WORK/sanity.log" 2>&1 ||
    { cat "$WORK/sanity.log"; fail "csi-sanity"; }
grep -E '^Ran ' "$WORK/sanity.log"
passed=$(sed -n 's/.*-- \([0-9]*\) Passed.*/\1/p' "$WORK/sanity.log")
[ "$passed" -ge 38 ] || fail "$passed specs ran, 38 should"

kill -TERM "$plugin"
wait "$plugin" || fail "the plugin ended with $?"
plugin=
left=$(find "$WORK/root" "$WORK/run" "$WORK/mount" "$WORK/staging" -mindepth 1 2>/dev/null; grep "$WORK" /proc/mounts || true)
[ -z "$left" ] || fail "left behind: $left"
[ ! -e "$WORK/root" ] || fail "left behind: $WORK/root"
! grep -E 'ERROR: (Address|Leak)Sanitizer|runtime error:' "$WORK/plugin.log" || fail "a sanitizer found something"
echo "csi-sanity: $passed passed; nothing left behind"
