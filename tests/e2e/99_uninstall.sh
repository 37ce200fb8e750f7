#!/bin/bash
# timeout: 300
# alone
# After helm uninstall and the removal of the CRDs, which Helm leaves, nothing is left: no object, no mount, no file, on no node.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/traces.sh"
[ -e "$ROOT/build/e2e-before.txt" ] || fail "00_install.sh has not run"

for namespace in $(k get namespaces -o name | grep '/e2e-' || true); do k delete "$namespace" --wait --timeout=120s; done
k get dataset,dataload,tfjob -A
helm uninstall "$RELEASE" --namespace "$SYSTEM" --wait --timeout 2m
k delete namespace "$SYSTEM" --wait --timeout=60s
k delete -f "$ROOT/crds" --wait --timeout=60s
left_behind() { traces >"$WORK/after.txt" && comm -13 <(sort -u "$ROOT/build/e2e-before.txt") <(sort -u "$WORK/after.txt"); }
nothing_left() { [ -z "$(left_behind)" ]; }
within 60 nothing_left || fail "left behind: $(left_behind)"
step "$(wc -l <"$WORK/after.txt") objects, mounts and files, none of them ours"
