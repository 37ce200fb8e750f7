#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# alone
# After what docs/install/uninstall.md says, nothing is left of an installation that was used: no object, no mount, no file, on no node.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/traces.sh"
[ -e "$ROOT/build/e2e-before.txt" ] || fail "00_install.sh has not run"

for namespace in $(k get namespaces -o name | grep '/e2e-' || true); do k delete "$namespace" --wait --timeout=120s; done
start_test
s3_up
secret keys "$S3_KEY" "$S3_SECRET"
dataset data
n apply -f - <<YAML
{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: all}, spec: {dataset: {name: data}, target: [{path: /}]}}
YAML
tfjob one data 'echo read; ls /mnt/fuse' 1 0
expect 90 "the job has succeeded" job_is one Succeeded

step "what the page says"
reader ln -s "$ROOT/crds" .
reader bash -euxc "$(page_block docs/install/uninstall.md 1)"
k delete namespace "$NS" "$SYSTEM" --wait --timeout=60s
left_behind() { traces >"$WORK/after.txt" && comm -13 <(sort -u "$ROOT/build/e2e-before.txt") <(sort -u "$WORK/after.txt"); }
nothing_left() { [ -z "$(left_behind)" ]; }
within 60 nothing_left || fail "left behind: $(left_behind)"
step "$(wc -l <"$WORK/after.txt") objects, mounts and files, none of them ours"
