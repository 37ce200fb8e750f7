#!/bin/bash
# timeout: 300
# After helm uninstall nothing is left: no object, no mount, no file, on no node.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/traces.sh"
[ -e "$ROOT/build/e2e-before.txt" ] || fail "00_install.sh has not run"

for namespace in $(k get namespaces -o name | grep '/e2e-' || true); do k delete "$namespace" --wait --timeout=120s; done
k get dataset,dataload,tfjob -A
helm uninstall "$RELEASE" --namespace "$SYSTEM" --wait --timeout 2m
k delete namespace "$SYSTEM" --wait --timeout=60s
same() { traces >"$WORK/after.txt" && diff <(sort "$ROOT/build/e2e-before.txt") <(sort "$WORK/after.txt") >"$WORK/diff"; }
within 60 same || fail "left behind (>) or missing (<): $(cat "$WORK/diff")"
step "$(wc -l <"$WORK/after.txt") objects, mounts and files: the same as before"
