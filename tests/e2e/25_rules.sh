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
ok|/\u0645\u06cc\u200c\u062e
no|holds an invisible character|/tr\u200bain
no|holds an invisible character|/my\u00a0data
no|holds an invisible character|/a\u200db
no|no '/' at the end|/a/"
# Of these the store decides: there are files with a blank that is none in their names.
paths+="
ok|/a\u200db
ok|/shot\u202fPM"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {rules: [{path: $value}]}}' <<<"$paths
no|no '/' at the end|/a/"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {preload: [{path: $value}]}}' <<<"$paths
no|no '/' at the end|/a/"
try DataLoad '.spec = {dataset: {name: "data"}, target: [{path: $value}]}' <<<"$paths
ok|/a/"

try Dataset '.spec.mounts = [{mountPoint: $value}]' <"$ROOT/tests/lib/mount_points.txt"

# A server may have buckets that Amazon's cannot have.
try Dataset '.spec.mounts = [{mountPoint: $value, options: {endpoint: "https://ceph.example"}}]' <<'END'
ok|s3://MyBucket/train
ok|s3://my_bucket
ok|s3://my..bucket
no|holds only letters|s3://my bucket
no|3 to 63 characters|s3://my
END
# Its address may be in the Secret.
try Dataset '.spec.mounts = [{mountPoint: $value, secretRef: {name: "keys"}}]' <<'END'
ok|s3://my_bucket
ok|s3://my..bucket
ok|s3://MyBucket/train
no|holds only letters|s3://my bucket
no|3 to 63 characters|s3://my
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
no|options.endpoint must be the URL of a server|minio.example:9000
no|options.endpoint must be the URL of a server|https://minio.example\u200b
no|options.endpoint must be the URL of a server|https://minio.example\u00a0
no|options.endpoint must be the URL of a server|https://minio.example:9000\u0020
no|options.endpoint must be the URL of a server|https://minio example
no|options.endpoint must be the URL of a server|\ufeffhttps://minio.example
no|options.endpoint must be the URL of a server|https://
no|options.endpoint must be the URL of a server|
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: {region: $value}}]' <<'END'
ok|eu-west-1
ok|us
no|options.region is empty, or holds|
no|options.region is empty, or holds|eu-west-1\u200b
no|options.region is empty, or holds|eu\u2011west\u20111
no|options.region is empty, or holds|eu-west-1\u0020
no|options.region is empty, or holds|\u00a0eu-west-1
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: {"external-id": $value}}]' <<'END'
ok|a+b=c,d.e@f:g/h-i
no|options.external-id is empty, or holds|
no|options.external-id is empty, or holds|id\u200b
no|options.external-id is empty, or holds|my id
no|options.external-id is empty, or holds|id\u0020
END

try Dataset '.spec.mounts = [{mountPoint: "https://data", readOnly: true, options: {user: $value}}]' <<'END'
ok|me
ok|J\u00fcrgen M\u00fcller
ok|\u0645\u06cc\u200c\u062e
no|manifest or user holds an invisible character|me\u200b
no|manifest or user holds an invisible character|\ufeffme
no|manifest or user holds an invisible character|me\u00a0
no|manifest or user holds an invisible character|\u202eme
END

try Dataset '.spec.mounts = [{mountPoint: "hdfs://cluster/a", options: {"name-nodes": $value}}]' <<'END'
ok|nn1:9870,nn2:9870
ok|nn1:9870, nn2:9870
ok|[::1]:9870
no|options.name-nodes holds a character|nn1\u200b:9870
no|options.name-nodes holds a character|nn1:9870,\u00a0nn2:9870
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: {($value): "us-east-1"}}]' <<'END'
ok|region
ok|storage-class
no|the name of an option holds|region\u200b
no|the name of an option holds|\u00a0region
no|the name of an option holds|region\u0020
no|the name of an option holds|
no|unknown option Region|Region
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: {"path-style": $value}}]' <<'END'
ok|true
ok|false
no|options.path-style must be|True
no|options.path-style must be|yes
no|options.path-style must be|true\u200b
no|options.path-style must be|
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", encryptOptions: [{name: "session-token", valueFrom: {secretKeyRef: {name: "s", key: $value}}}]}]' <<'END'
ok|token
ok|my.key_1-A
no|key must be a key in the Secret|
no|key must be a key in the Secret|my key
no|key must be a key in the Secret|token\u200b
no|key must be a key in the Secret|token\u00a0
no|key must be a key in the Secret|a/b
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", caBundle: {configMapKeyRef: {name: "ca", key: $value}}}]' <<'END'
ok|ca.crt
ok|-a_B
ok|1
no|key must be a key in the ConfigMap|
no|key must be a key in the ConfigMap|ca.crt\u200b
no|key must be a key in the ConfigMap|.crt
END

# Sizes: as a text, and where jq can, as a number
sizes="ok|10Gi
ok|1.5Ti
ok|500M
ok|1073741824
no|like 10Gi|10GB
no|like 10Gi|10 Gi
no|like 10Gi|10Gi\\u200b
no|like 10Gi|1e3Gi
no|like 10Gi|10GiB
no|like 10Gi|10gi
no|like 10Gi|-1Gi
no|like 10Gi|0
no|like 10Gi|100
no|like 10Gi|1,5Gi
no|like 10Gi|
no|like 10Gi|500m"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {tiers: [{medium: "SSD", quota: ($value | tonumber? // $value)}]}}' <<<"$sizes"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {client: {tiers: [{medium: "SSD", quota: $value}]}}}' <<<"$sizes"
try DataLoad '.spec = {dataset: {name: "data"}, bandwidth: ($value | tonumber? // $value)}' <<<"${sizes//10Gi|/100Mi|}
no|without /s|100Mi/s"
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {worker: {resources: {limits: {memory: ($value | tonumber? // $value)}}}}}' <<'END'
ok|512Mi
ok|2G
ok|1073741824
ok|0
no|memory is less than 1Mi|512
no|memory is less than 1Mi|512m
no|memory is less than 1Mi|100Ki
no|512Mi or 2Gi of memory|512MB
no|512Mi or 2Gi of memory|512 Mi
no|512Mi or 2Gi of memory|-1
no|512Mi or 2Gi of memory|-1Gi
no|512Mi or 2Gi of memory|1e3Mi
END
try Dataset '.spec = {mounts: [{mountPoint: "s3://data"}], cache: {worker: {resources: {requests: {cpu: $value}, limits: {cpu: "4"}}}}}' <<'END'
ok|2
ok|0.5
ok|500m
ok|0
no|500m of CPU|2 CPUs
no|500m of CPU|-1
no|500m of CPU|1e3
no|requests.cpu is more than limits.cpu|5
END

try Dataset '.spec.mounts = [{mountPoint: "s3://data", options: ($value | split(" ") | map({key: ., value: "http://a"}) | from_entries)}]' <<'END'
ok|endpoint
ok|url region
ok|alluxio.underfs.s3.endpoint alluxio.underfs.s3.endpoint.region
no|by two of its names|endpoint url
no|by two of its names|url alluxio.underfs.s3.endpoint
no|by two of its names|region alluxio.underfs.s3.endpoint.region
END

# In options, in encryptOptions, or one in each: "endpoint/url" is url in encryptOptions
secret='{name: ., valueFrom: {secretKeyRef: {name: "s", key: "k"}}}'
try Dataset '($value | split("/")) as [$plain, $hidden] | .spec.mounts = [{mountPoint: "s3://data",
    options: ($plain | split(" ") | map({key: ., value: "http://a"}) | from_entries), encryptOptions: (($hidden // "") | split(" ") | map('"$secret"'))}]' <<'END'
ok|endpoint/region
ok|/access-key-id secret-access-key
ok|/access-key aws.secretKey session-token
no|by two of its names|endpoint/url
no|by two of its names|alluxio.underfs.s3.endpoint/endpoint
no|by two of its names|region/alluxio.underfs.s3.endpoint.region
no|by two of its names|aws.accessKeyId/access-key-id
no|by two of its names|access-key/aws.accessKeyId
no|by two of its names|/access-key-id aws.accessKeyId
no|by two of its names|/secret-key secret-access-key
no|options and in encryptOptions|region/region
END
try Dataset '($value | split("/")) as [$plain, $hidden] | .spec.mounts = [{mountPoint: "https://data", readOnly: true,
    options: ($plain | split(" ") | map({key: ., value: "a"}) | from_entries), encryptOptions: (($hidden // "") | split(" ") | map('"$secret"'))}]' <<'END'
ok|user/password
ok|/username password
ok|/token
no|by two of its names|user/username
no|by two of its names|username/user
no|by two of its names|/token bearer-token
END

try DataLoad '.spec = {dataset: {name: "data"}, policy: "Cron", schedule: $value}' <"$ROOT/tests/lib/schedules.txt"
