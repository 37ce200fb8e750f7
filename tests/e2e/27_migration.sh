#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# A Dataset of the schema of before the first release: the API server lets the operator write its status and take off its finalizer, lets
# people annotate and mend it, and refuses what is written anew in the words of docs/reference/compatibility.md. The rules are tried in an
# API group of their own, whose CRD is replaced as an upgrade does; that the operator then says InvalidSpec is tested in tests/golden.
. "$(dirname "$0")/lib.sh"
start_test

GROUP=migration.test
now=$WORK/now.json before=$WORK/before.json
k get crd datasets.millrace.dev -o json | jq --arg group $GROUP '
    {apiVersion, kind, metadata: {name: "olds.\($group)"}, spec: (.spec | del(.conversion))}
    | .spec.group = $group | .spec.names = {kind: "Old", listKind: "OldList", plural: "olds", singular: "old"}' >"$now"
jq '.spec.versions[0].schema.openAPIV3Schema |= (walk(if type == "object" then del(.["x-kubernetes-validations"]) else . end)
    | .properties.spec.properties.mounts |= (del(.["x-kubernetes-list-map-keys"]) | .["x-kubernetes-list-type"] = "atomic"
        | del(.items.properties.path.default)))' "$now" >"$before"
leave() { k delete crd olds.$GROUP --ignore-not-found --wait=false >/dev/null 2>&1; }
at_end leave
k delete crd olds.$GROUP --ignore-not-found --wait --timeout=60s >/dev/null
k apply --server-side -f "$before" >/dev/null
k wait --for=condition=Established crd/olds.$GROUP --timeout=30s >/dev/null

old() # NAME SPEC
{
    printf '{apiVersion: %s/v1alpha1, kind: Old, metadata: {name: %s, finalizers: [millrace.dev/dataset]}, spec: %s}' "$GROUP" "$1" "$2"
}
two='{mounts: [{name: a, mountPoint: "s3://aaa"}, {name: b, mountPoint: "s3://bbb"}], cache: {profile: sealed}}'
one='{mounts: [{name: a, mountPoint: "s3://aaa", options: {unknown: x}}], cache: {writeType: Through}, tolerations: [{operator: Exists}],
    nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}'
status() { n patch old "$1" --subresource=status --type=merge -p "{\"status\":{\"observedGeneration\":$2,\"phase\":\"Failed\"}}"; }
within 20 n apply -f - <<<"$(old two "$two")" >/dev/null
n apply -f - <<<"$(old one "$one")" >/dev/null
status two 1 >/dev/null # by the operator of that time

k apply --server-side --force-conflicts -f "$now" >/dev/null
refused() # WORDS COMMAND…: exits non-zero and says so
{
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then return 1; fi
    grep -qF -- "$words" <<<"$said" || { echo "$said" && return 1; }
}
new=$(old new '{mounts: [{name: a, mountPoint: "s3://aaa"}]}') news=$(old news "$two")
within 20 refused "spec.mounts[].name is gone" n create --dry-run=server -f - <<<"$new"
refused "spec.mounts[].name is gone" n create --dry-run=server -f - <<<"$news" || fail "two named mounts are refused without a word of name"
step "the present schema refuses new ones"

for name in two one; do
    status $name 2 >/dev/null || fail "the operator cannot say of $name what is wrong with it"
    n annotate old $name note=x >/dev/null || fail "$name cannot be annotated"
    n patch old $name --type=merge -p '{"spec":{"cache":{"replicas":3}}}' >/dev/null || fail "another field of $name cannot be changed"
done
step "what is stored can be written to"
refused "spec.mounts[].name is gone" n patch old one --type=json -p '[{"op":"replace","path":"/spec/mounts/0/name","value":"c"}]' ||
    fail "the name of a mount can still be changed"
n patch old two --type=json -p '[{"op":"replace","path":"/spec/mounts","value":[{"path":"/a","mountPoint":"s3://aaa"},
    {"path":"/b","mountPoint":"s3://bbb"}]},{"op":"remove","path":"/spec/cache/profile"}]' >/dev/null || fail "two cannot be mended"
refused "spec.mounts[].name is gone" n patch old two --type=json -p '[{"op":"add","path":"/spec/mounts/0/name","value":"c"}]' ||
    fail "what was mended takes names again"
n delete old one two --wait=false >/dev/null
for name in two one; do
    n patch old $name --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null || fail "the finalizer of $name stays for ever"
done
n wait --for=delete old/one old/two --timeout=20s >/dev/null
step "and mended, and deleted"
