#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# alone
# A release whose removal was refused is kept as it was. After what docs/install/uninstall.md says, nothing is left of an installation that was used: no object, no mount, no file, on no node.
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

step "refused, and the release is kept as the page says"
release() { helm status "$RELEASE" -n "$SYSTEM" | sed -n "s/^$1: //p"; }
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reuse-values --set logLevel=info --wait --timeout 90s >/dev/null
values=$(helm get values "$RELEASE" -n "$SYSTEM")
revision=$(release REVISION)
! reader helm uninstall "$RELEASE" -n "$SYSTEM" >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
grep -qF -- "helm rollback $RELEASE " "$WORK/answer" || fail "the refusal does not say how to keep it: $(cat "$WORK/answer")"
[ "$(release STATUS)" = uninstalling ] || fail "the release is $(release STATUS)"
reader bash -euxc "$(page_block docs/install/uninstall.md 2)"
[ "$(release STATUS)" = deployed ] || fail "the release is $(release STATUS)"
[ "$(helm get values "$RELEASE" -n "$SYSTEM")" = "$values" ] || fail "other values: $(helm get values "$RELEASE" -n "$SYSTEM")"
helm upgrade "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --reuse-values --set logLevel=debug --wait --timeout 90s >/dev/null

step "refused after a rollback, too, in words that can be typed: Helm keeps those of the revision that it went back to"
helm rollback "$RELEASE" "$revision" -n "$SYSTEM" --wait --timeout 90s >/dev/null
revision=$(release REVISION)
! reader helm uninstall "$RELEASE" -n "$SYSTEM" >"$WORK/answer" 2>&1 || fail "accepted: $(cat "$WORK/answer")"
typed=$(grep -oE "helm rollback $RELEASE .* -n $SYSTEM" "$WORK/answer" | head -1)
reader bash -euxc "$typed"
[ "$(release STATUS)" = deployed ] || fail "the release is $(release STATUS) after: $typed"
helm history "$RELEASE" -n "$SYSTEM" -o json | jq -e --arg was "Rollback to $revision" 'last.description == $was' >/dev/null ||
    fail "not the revision $revision that was there: $typed: $(helm history "$RELEASE" -n "$SYSTEM")"

step "installed again: the same key, of which those of the Datasets are made, so their pods stay and are believed"
key() { k -n "$SYSTEM" get secret millrace-key -o 'jsonpath={.data.key}'; }
pods() { n get pods -l millrace.dev/component=worker -o 'jsonpath={.items[*].metadata.uid}'; }
was="$(key) $(pods)"
helm uninstall "$RELEASE" -n "$SYSTEM" --no-hooks --wait --timeout 2m >/dev/null
helm install "$RELEASE" "$ROOT/charts/millrace" -n "$SYSTEM" --set logLevel=debug --wait --timeout 2m >/dev/null
expect 60 "the Dataset is Ready" has_text "True" ready_message data
[ "$(key) $(pods)" = "$was" ] || fail "another key, or other pods: $(n get pods)"
! has_text "another key" ready_message data || fail "the worker is not believed: $(ready_message data)"

step "what the page says"
reader ln -s "$ROOT/crds" .
reader bash -euxc "$(page_block docs/install/uninstall.md 1)"
k delete namespace "$NS" "$SYSTEM" --wait --timeout=60s
left_behind() { traces >"$WORK/after.txt" && comm -13 <(sort -u "$ROOT/build/e2e-before.txt") <(sort -u "$WORK/after.txt"); }
nothing_left() { [ -z "$(left_behind)" ]; }
within 60 nothing_left || fail "left behind: $(left_behind)"
step "$(wc -l <"$WORK/after.txt") objects, mounts and files, none of them ours"
