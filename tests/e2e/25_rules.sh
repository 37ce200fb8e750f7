#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# What kubectl apply takes and refuses of paths, sources, audiences and schedules, in rows: each value of the tables is sent to the API server
# as an object of its own, which is not kept. A refusal has its words, and what is legal in a store is taken.
. "$(dirname "$0")/lib.sh"
start_test

# Reads rows "ok|VALUE" or "no|WORD|VALUE" (VALUE in JSON's escapes) and sends them as objects KIND, in which PROGRAM of jq puts $value.
try() # KIND PROGRAM
{
    local kind=$1 program=$2 line verdict word refusal i=0 bad=()
    : >"$WORK/objects.json"
    local rows=()
    while IFS= read -r line; do
        [ -n "$line" ] && [ "${line:0:1}" != '#' ] || continue
        rows+=("$line")
        jq -nc --arg kind "$kind" --arg name "row-$i" --argjson value "\"${line##*|}\"" \
            '{apiVersion: "millrace.dev/v1alpha1", kind: $kind, metadata: {name: $name}} | '"$program" >>"$WORK/objects.json"
        i=$((i + 1))
    done
    [ "$i" -gt 4 ] || fail "$kind: only $i rows"
    jq -s '{apiVersion: "v1", kind: "List", items: .}' "$WORK/objects.json" >"$WORK/list.json"
    n create --dry-run=server -f "$WORK/list.json" >"$WORK/taken" 2>"$WORK/refused" || true
    # an answer is a line, or several that belong to one object
    python3 - "$WORK/refused" >"$WORK/refused.lines" <<'END'
import re, sys
text = open(sys.argv[1]).read()
for part in re.split(r'(?m)^(?=The (?:Dataset|DataLoad) "|Error from server)', text):
    if part.strip():
        print(" ".join(part.split()))
END
    for i in "${!rows[@]}"; do
        IFS='|' read -r verdict word _ <<<"${rows[$i]}"
        if [ "$verdict" = ok ]; then
            grep -qE "/row-$i created" "$WORK/taken" || bad+=("refused: ${rows[$i]}: $(grep -F "\"row-$i\"" "$WORK/refused.lines")")
        else
            refusal=$(grep -F "\"row-$i\"" "$WORK/refused.lines" || true)
            [[ $refusal == *"$word"* ]] || bad+=("not refused with these words: ${rows[$i]}: $refusal")
        fi
    done
    [ ${#bad[@]} = 0 ] || fail "$(printf '%s\n' "${#bad[@]} of ${#rows[@]} values of $kind:" "${bad[@]}")"
    step "${#rows[@]} values of $kind: $program"
}

long=$(printf 'ü%.0s' $(seq 256))
paths="ok|/
ok|/a/b
ok|/my data/of today
ok|/ a/b
ok|/a /b
ok|/...
ok|/übung
ok|/a\u200db
ok|/${long:1}
no|begin with '/'|a
no|begin with '/'|
no|no empty names|/a//b
no|no empty names|//a
no|no '..'|/..
no|no '..'|/a/../b
no|no '.'|/a/.
no|at most 255|/$long
no|no control characters|/a\nb
no|no control characters|/a\tb
no|no control characters|/a\u007f
no|no control characters|/a\u0085b
no|ends with a blank: take it away|/a/b\u0020
no|ends with a blank: take it away|/a\u00a0
no|ends with a blank: take it away|/a\u3000
no|begins or ends with a blank| /a"
try Dataset '.spec.mounts = [{mountPoint: "s3://data", path: $value}]' <<<"$paths
no|no '/' at the end|/a/"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {rules: [{path: $value}]}}' <<<"$paths
no|no '/' at the end|/a/"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {preload: [{path: $value}]}}' <<<"$paths
no|no '/' at the end|/a/"
try DataLoad '.spec = {dataset: {name: "data"}, target: [{path: $value}]}' <<<"$paths
ok|/a/"

try Dataset '.spec.mounts = [{mountPoint: $value}]' <<'END'
ok|s3://bucket
ok|s3://bucket/
ok|s3://bucket/a/b/
ok|s3://bucket/my data/of today
ok|s3://bucket/...
ok|s3://bucket/.hidden/a..b
ok|pvc://claim
ok|pvc://claim/my data
no|ends with a blank: take it away|s3://bucket/a\u0020
no|ends with a blank: take it away|s3://bucket/a\u00a0
no|ends with a blank: take it away|pvc://claim/a\u0020
no|begins or ends with a blank| s3://bucket
no|holds only letters|s3://my bucket/a
no|a claim's name|pvc://my claim/a
no|no empty names|s3://bucket/a//b
no|no '.' in the prefix|s3://bucket/./a
no|no '.' in the prefix|s3://bucket/a/.
no|'..'|s3://bucket/../a
no|'?'|s3://bucket/a?b
no|'#'|s3://bucket/a#b
no|control characters|s3://bucket/a\nb
no|control characters|s3://bucket/a\u0085b
END

try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], serviceAccountName: "reader", serviceAccountTokenAudience: $value}' <<'END'
ok|sts.amazonaws.com
ok|pods.eks.amazonaws.com
ok|https://pods.eks.amazonaws.com
ok|api://AzureADTokenExchange
ok|minio
ok|https://sts.example.com/token
ok|//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k
no|Name the token service|https://kubernetes.default.svc
no|Name the token service|https://kubernetes.default.svc.cluster.local
no|Name the token service|kubernetes
no|Name the token service|k3s
no|Name the token service|k0s
no|Name the token service|https://container.googleapis.com/v1/projects/p/locations/l/clusters/c
no|Name the token service|https://train-dns-1a2b3c4d.hcp.westeurope.azmk8s.io
no|Name the token service|\"train-dns-1a2b3c4d.hcp.westeurope.azmk8s.io\"
no|Name the token service|https://westeurope.oic.prod-aks.azure.com/0000/1111/
no|Name the token service|https://oidc.eks.eu-west-1.amazonaws.com/id/ABC
no|Name the token service|https://ABC.gr7.eu-west-1.eks.amazonaws.com
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: {endpoint: $value}}]' <<'END'
ok|https://minio.example:9000
ok|http://10.0.0.1
no|holds a user or a password|https://user:pass@minio.example
no|holds a user or a password|http://user@10.0.0.1
no|holds a user or a password|https://:pass@minio.example
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: ($value | split(" ") | map({key: ., value: "http://a"}) | from_entries)}]' <<'END'
ok|endpoint
ok|url region
ok|alluxio.underfs.s3.endpoint alluxio.underfs.s3.endpoint.region
no|by two of its names|endpoint url
no|by two of its names|url alluxio.underfs.s3.endpoint
no|by two of its names|region alluxio.underfs.s3.endpoint.region
END

try DataLoad '.spec = {dataset: {name: "data"}, policy: "Cron", schedule: $value}' <"$ROOT/tests/lib/schedules.txt"
