#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# What people get wrong: each mistake is refused by kubectl apply, or told within 10 s in a condition or an Event, in words that name the
# field or object and what to do. The words are the table below; all mistakes are tried, however many are badly answered.
. "$(dirname "$0")/lib.sh"
start_test

count=0 bad=()
S3=http://s3.$NS.svc.cluster.local:7070

answered() # WHAT ANSWER WORD…: the answer has all the words
{
    local what=$1 answer=$2 word
    shift 2
    count=$((count + 1))
    for word; do
        if ! grep -qiF -- "$word" <<<"$answer"; then
            bad+=("$what: no '$word' in: $answer")
            step "BAD  $what: no '$word' in: ${answer:0:300}"
            return 0
        fi
    done
    step "good $what: ${answer:0:240}"
}

refused() # WHAT MANIFEST WORD…
{
    local what=$1 manifest=$2 answer
    shift 2
    if answer=$(n apply -f - <<<"$manifest" 2>&1); then answer="accepted: $answer"; fi
    answered "$what" "$(tr '\n' ' ' <<<"$answer")" "$@"
}

spec() # SPEC: a Dataset's manifest, in YAML's flow style
{
    printf '{apiVersion: millrace.dev/v1alpha1, kind: Dataset, metadata: {name: %s}, spec: {%s}}' "${2:-mistake}" "$1"
}

mount() # FIELDS [MORE-OF-THE-SPEC [NAME]]
{
    spec "mounts: [{$1}]${2:+, $2}" "${3:-mistake}"
}

tells() # WORD…: all of them are in what $look prints
{
    local word
    said=$("${look[@]}" 2>/dev/null | tr '\n' ' ') || true
    for word; do grep -qiF -- "$word" <<<"$said" || return 1; done
}

told() # WHAT MANIFEST WORD…: within 10 s by the command in $look
{
    local what=$1 manifest=$2 answer began=$SECONDS
    shift 2
    said=''
    if ! answer=$(n apply -f - <<<"$manifest" 2>&1); then
        answered "$what" "kubectl apply: $answer" "$@"
    else
        within 10 tells "$@" || true
        answered "$what ($((SECONDS - began)) s)" "$said" "$@"
        n delete -f - --wait=false <<<"$manifest" >/dev/null
    fi
}

condition() { ready_message "$1"; }
events_of() { n get events --field-selector "involvedObject.name=$1" -o 'jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}'; }

s3_up
random_files 1 1000 train
n create secret generic keys --from-literal=AWS_ACCESS_KEY_ID="$S3_KEY" --from-literal=AWS_SECRET_ACCESS_KEY="$S3_SECRET" >/dev/null
n create secret generic wrong --from-literal=AWS_ACCESS_KEY_ID="$S3_KEY" --from-literal=AWS_SECRET_ACCESS_KEY=wrong-secret-0123456789 >/dev/null
n create secret generic half --from-literal=AWS_ACCESS_KEY_ID="$S3_KEY" >/dev/null
n create secret generic other --from-literal=username=me --from-literal=password=x >/dev/null
good="mountPoint: 's3://data', secretRef: {name: keys}, options: {endpoint: '$S3'}"
tiny="cache: {tiers: [{medium: Memory, quota: 16Mi}]}"

step "--- refused by kubectl apply"
refused "an option misspelt" "$(mount "mountPoint: 's3://data', options: {endpiont: '$S3'}")" "unknown option endpiont" "endpoint, region"
refused "a boolean without quotes" "$(mount "mountPoint: 's3://data', options: {path-style: true}")" options.path-style string
refused "a key among the options" "$(mount "mountPoint: 's3://data', options: {secret-access-key: x}")" options Secret secretRef
refused "another cloud's scheme" "$(mount "mountPoint: 'az://data'")" mountPoint "unknown URL scheme" s3:// pvc://
refused "no bucket" "$(mount "mountPoint: 's3://'")" mountPoint "no bucket" s3://bucket/prefix
refused "a bucket of two letters" "$(mount "mountPoint: 's3://my/data'")" mountPoint "3 to 63 characters" s3://bucket/prefix
refused "a way out of the bucket" "$(mount "mountPoint: 's3://data/../other'")" mountPoint "'..'"
refused "a path without its slash" "$(mount "mountPoint: 's3://data', path: train")" path "must begin with '/'"
refused "a path twice" "$(spec "mounts: [{mountPoint: 's3://one', path: /x}, {mountPoint: 's3://two', path: /x}]")" "Duplicate value" /x
refused "two mounts without paths" "$(spec "mounts: [{mountPoint: 's3://one'}, {mountPoint: 's3://two'}]")" "Duplicate value" path
refused "a field in the wrong case" "$(mount "mountpoint: 's3://data'")" "unknown field" "spec.mounts[0].mountpoint"
refused "a field that does not exist" "$(mount "mountPoint: 's3://data'" "cache: {size: 10Gi}")" "unknown field" spec.cache.size
refused "no mounts" "$(spec "accessModes: [ReadOnlyMany]")" spec.mounts Required
refused "an option given twice" "$(mount "mountPoint: 's3://data', options: {region: a}, encryptOptions: [{name: region, valueFrom: {secretKeyRef: {name: k, key: r}}}]")" "options and in encryptOptions" "keep one"
refused "keys for a claim" "$(mount "mountPoint: 'pvc://claim', secretRef: {name: keys}")" PersistentVolumeClaim "no credentials" "leave out secretRef"
refused "a Secret's name as a string" "$(mount "mountPoint: 's3://data', secretRef: keys")" secretRef object
refused "the old profile" "$(mount "mountPoint: 's3://data'" "cache: {profile: sealed}")" spec.cache.profile "immutable: true"
refused "the old writeType" "$(mount "mountPoint: 's3://data'" "cache: {writeType: Through}")" spec.cache.writeType spec.cache.rules
refused "the old name of a mount" "$(mount "mountPoint: 's3://data', name: train")" "mounts[].name" path
refused "the old place of nodeAffinity" "$(mount "mountPoint: 's3://data'" "nodeAffinity: {required: {nodeSelectorTerms: []}}")" spec.nodeAffinity spec.cache.worker.nodeAffinity
refused "the old place of tolerations" "$(mount "mountPoint: 's3://data'" "tolerations: [{operator: Exists}]")" spec.tolerations spec.cache.worker.tolerations
refused "a quota with a blank" "$(mount "mountPoint: 's3://data'" "cache: {tiers: [{medium: SSD, quota: '10 GB'}]}")" quota "like 10Gi"
refused "a quota in bytes by mistake" "$(mount "mountPoint: 's3://data'" "cache: {tiers: [{medium: SSD, quota: 10}]}")" quota "at least 1Mi"
refused "more cache than there is" "$(mount "mountPoint: 's3://data'" "cache: {tiers: [{medium: SSD, quota: 9Ei}]}")" quota "at most 1Pi"
refused "a medium of one's own" "$(mount "mountPoint: 's3://data'" "cache: {tiers: [{medium: NVMe, quota: 10Gi}]}")" medium Memory SSD HDD
refused "a share as quota" "$(mount "mountPoint: 's3://data'" "cache: {tiers: [{medium: SSD, quota: 50%}]}")" quota "like 10Gi"
refused "a tier as Fluid has it" "$(mount "mountPoint: 's3://data'" "cache: {tiers: [{mediumtype: MEM, path: /mnt, quota: 1Gi}]}")" "unknown field" spec.cache.tiers[0].mediumtype
refused "a page of a console" "$(mount "mountPoint: 'https://eu-west-1.console.aws.amazon.com/s3/buckets/data'")" mountPoint "page of a console" s3://BUCKET
refused "a bucket's web address, to write to" "$(mount "mountPoint: 'https://data.s3.eu-west-1.amazonaws.com'" "accessModes: [ReadWriteMany]")" "readOnly: true" s3://BUCKET
refused "Hadoop's scheme" "$(mount "mountPoint: 's3a://data'")" mountPoint "unknown URL scheme" s3://bucket/prefix
refused "the environment's names among the options" "$(mount "mountPoint: 's3://data', options: {AWS_ACCESS_KEY_ID: x}")" "unknown option AWS_ACCESS_KEY_ID" secretRef
refused "memory without a unit" "$(mount "mountPoint: 's3://data'" "cache: {worker: {resources: {limits: {memory: 512}}}}")" "less than 1Mi" 512Mi
refused "a role's name as account" "$(mount "mountPoint: 's3://data'" "serviceAccountName: 'arn:aws:iam::123:role/reader'")" spec.serviceAccountName "ServiceAccount of this namespace"
refused "replicas in quotes" "$(mount "mountPoint: 's3://data'" "cache: {replicas: '2'}")" spec.cache.replicas integer
refused "replicas below nothing" "$(mount "mountPoint: 's3://data'" "cache: {replicas: -1}")" spec.cache.replicas "greater than or equal to 0"
refused "immutable and writable" "$(mount "mountPoint: 's3://data', immutable: true" "accessModes: [ReadWriteMany]")" immutable "readOnly: true"
refused "an access mode misspelt" "$(mount "mountPoint: 's3://data'" "accessModes: [ReadOnly]")" accessModes ReadOnlyMany
refused "a preload without its slash" "$(mount "mountPoint: 's3://data'" "cache: {preload: [{path: train}]}")" preload "must begin with '/'"
refused "a preload without workers" "$(mount "mountPoint: 's3://data'" "cache: {replicas: 0, preload: [{path: /train}]}")" spec.cache.preload "set spec.cache.replicas"
refused "a Secret's option misspelt" "$(mount "mountPoint: 's3://data', encryptOptions: [{name: acces-key, valueFrom: {secretKeyRef: {name: k, key: r}}}]")" "unknown option acces-key" access-key-id
refused "labels of ours" "$(mount "mountPoint: 's3://data'" "cache: {worker: {labels: {millrace.dev/dataset: x}}}")" labels "leave them out"
refused "a claim's name with an underscore" "$(mount "mountPoint: 'pvc://my_claim/train'")" mountPoint "like pvc://claim/directory"
refused "a directory with two slashes" "$(mount "mountPoint: 'pvc://claim//train'")" mountPoint "no empty names"
refused "keys in the URL" "$(mount "mountPoint: 's3://key:secret@data'")" mountPoint "secretRef"
refused "a Secret of another namespace" "$(mount "mountPoint: 's3://data', secretRef: {name: team/keys}")" secretRef.name "of this namespace"
refused "a line break in a path" "$(mount "mountPoint: 's3://data'" 'cache: {rules: [{path: "/a\nb"}]}')" path "no control characters"
refused "a label with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {labels: {team: 'my team'}}}")" labels "not a label"
refused "an annotation's key with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {annotations: {'my note': x}}}")" annotations "not an annotation's key"
refused "more memory requested than allowed" "$(mount "mountPoint: 's3://data'" "cache: {worker: {resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}}")" resources requests.memory limits.memory
refused "less than no CPU" "$(mount "mountPoint: 's3://data'" "cache: {worker: {resources: {requests: {cpu: -1}}}}")" requests.cpu "not below 0"
refused "a toleration of everything with a value" "$(mount "mountPoint: 's3://data'" "cache: {worker: {tolerations: [{key: a, operator: Exists, value: x}]}}")" tolerations "takes no value"
refused "an empty toleration" "$(mount "mountPoint: 's3://data'" "cache: {worker: {tolerations: [{}]}}")" tolerations "operator: Exists"
refused "seconds of a toleration that does not evict" "$(mount "mountPoint: 's3://data'" "cache: {worker: {tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]}}")" tolerationSeconds NoExecute
refused "an affinity to one of no values" "$(mount "mountPoint: 's3://data'" "cache: {worker: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In}]}]}}}}")" nodeAffinity "need at least one"
refused "a zone with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: 'my zone', operator: Exists}]}]}}}}")" nodeAffinity key
refused "a value of a zone with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: ['a b']}]}]}}}}")" nodeAffinity values
refused "an affinity to nothing" "$(mount "mountPoint: 's3://data'" "cache: {worker: {nodeAffinity: {required: {nodeSelectorTerms: [{}]}}}}")" nodeAffinity "fits no node"
refused "a field of nodes that there is not" "$(mount "mountPoint: 's3://data'" "cache: {worker: {nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [{key: metadata.labels, operator: In, values: [a]}]}]}}}}")" matchFields metadata.name
refused "a taint with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {tolerations: [{key: 'my taint', operator: Exists}]}}")" tolerations key
refused "a value of a taint with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {tolerations: [{key: a, value: 'my value'}]}}")" tolerations value
refused "a priority class with a blank" "$(mount "mountPoint: 's3://data'" "cache: {worker: {priorityClassName: 'No Such'}}")" priorityClassName
refused "AppArmor for no container of ours" "$(mount "mountPoint: 's3://data'" "cache: {worker: {annotations: {container.apparmor.security.beta.kubernetes.io/main: bad}}}")" annotations "which is millrace"
refused "half a CPU without quotes" "$(mount "mountPoint: 's3://data'" "cache: {worker: {resources: {requests: {cpu: 0.5}}}}")" requests.cpu "integer,string"
refused "a GPU for the cache" "$(mount "mountPoint: 's3://data'" "cache: {worker: {resources: {limits: {nvidia.com/gpu: 1}}}}")" "unknown field" nvidia.com/gpu
refused "a dot in the name" "$(mount "mountPoint: 's3://data'" '' image.net)" metadata.name "choose another name"
refused "a name of 60 letters" "$(mount "mountPoint: 's3://data'" '' "$(printf 'a%.0s' $(seq 60))")" metadata.name "at most 46"
refused "a port in the bucket" "$(mount "mountPoint: 's3://bucket:80/x'")" mountPoint options.endpoint
refused "a policy that there is not" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, policy: Always}}' spec.policy Once Cron
refused "Cron without a schedule" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, policy: Cron}}' spec.schedule "write both"
refused "a schedule of four fields" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, policy: Cron, schedule: "0 3 * *"}}' spec.schedule "like 0 3"
refused "a token for the Kubernetes API" "$(mount "$good" 'serviceAccountName: a, serviceAccountTokenAudience: "https://kubernetes.default.svc"')" serviceAccountTokenAudience "Name the token service"
refused "a schedule with a time zone" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, policy: Cron, schedule: "TZ=Europe/Berlin 0 3 * * *"}}' spec.schedule "in UTC" "leave TZ= out"
refused "a schedule with seconds" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, policy: Cron, schedule: "0 0 3 * * *"}}' spec.schedule "without seconds"
refused "suspend without a schedule" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, suspend: true}}' spec.suspend "policy: Cron"
refused "a DataLoad's bandwidth with /s" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, bandwidth: 100MB/s}}' spec.bandwidth "without /s"
refused "a schedule of hour 25" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, policy: Cron, schedule: "0 25 * * *"}}' spec.schedule "must be 0 to 23"
refused "a DataLoad's little bandwidth" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, bandwidth: 1Ki}}' spec.bandwidth "at least 64Ki"
refused "a DataLoad of a path with two slashes" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, target: [{path: /a//b}]}}' target "no empty names"
refused "a DataLoad's old loadMetadata" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: mistake}, spec: {dataset: {name: x}, loadMetadata: true}}' spec.loadMetadata "leave"
n apply -f - <<<"$(mount "$good" "$tiny" fixed)" >/dev/null
refused "access modes changed" "$(mount "$good" "accessModes: [ReadWriteMany], $tiny" fixed)" accessModes "cannot be changed" "new Dataset"

step "--- told by the condition"
look=(condition mistake)
told_of_mount() # WHAT FIELDS WORD…
{
    local what=$1 fields=$2
    shift 2
    n delete dataset mistake --ignore-not-found --wait --timeout=60s >/dev/null
    told "$what" "$(mount "$fields" "$tiny")" False "$@"
}
told_of_mount "a Secret that is not there" "mountPoint: 's3://data', secretRef: {name: absent}, options: {endpoint: '$S3'}" SecretMissing absent create
told_of_mount "a Secret of something else" "mountPoint: 's3://data', secretRef: {name: other}, options: {endpoint: '$S3'}" SecretMissing other AWS_ACCESS_KEY_ID
told_of_mount "half of the keys" "mountPoint: 's3://data', secretRef: {name: half}, options: {endpoint: '$S3'}" secret-access-key half
told_of_mount "a wrong key" "mountPoint: 's3://data', secretRef: {name: wrong}, options: {endpoint: '$S3'}" AccessDenied wrong s3://data
told_of_mount "no key at all" "mountPoint: 's3://data', options: {endpoint: '$S3'}" AccessDenied secretRef
told_of_mount "a wrong bucket" "mountPoint: 's3://nothere', secretRef: {name: keys}, options: {endpoint: '$S3'}" BucketNotFound nothere
told_of_mount "one object" "mountPoint: 's3://data/sums.txt', secretRef: {name: keys}, options: {endpoint: '$S3'}" InvalidURL "one object" "the directory that it is in"
told_of_mount "a wrong region" "mountPoint: 's3://data', secretRef: {name: keys}, options: {endpoint: '$S3', region: eu-west-9}" InvalidOption region us-east-1
told_of_mount "a host misspelt" "mountPoint: 's3://data', secretRef: {name: keys}, options: {endpoint: 'http://no-such-host.invalid:7070'}" NameNotResolved no-such-host.invalid
told_of_mount "a wrong port" "mountPoint: 's3://data', secretRef: {name: keys}, options: {endpoint: 'http://s3.$NS.svc.cluster.local:7071'}" Unreachable 7071
told_of_mount "https where the server speaks http" "mountPoint: 's3://data', secretRef: {name: keys}, options: {endpoint: 'https://s3.$NS.svc.cluster.local:7070'}" TLSFailed http://
told_of_mount "a ConfigMap that is not there" "$good, caBundle: {configMapKeyRef: {name: no-ca, key: ca.crt}}" no-ca ca.crt
n delete dataset mistake --ignore-not-found --wait --timeout=60s >/dev/null
told "no such claim, and no cache workers" "$(mount "mountPoint: 'pvc://no-claim'" "cache: {replicas: 0}")" False ClaimMissing "no PersistentVolumeClaim no-claim" "create it"
told_of_mount "no such claim" "mountPoint: 'pvc://no-claim'" ClaimMissing "no PersistentVolumeClaim no-claim" "create it"

step "--- told elsewhere"
n apply -f - >/dev/null <<YAML
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: taken}, spec: {accessModes: [ReadWriteOnce], storageClassName: other, resources: {requests: {storage: 1Gi}}}}
YAML
look=(condition taken)
told "a claim of that name" "$(mount "$good" "$tiny" taken)" NameTaken taken "another name"
n apply -f - >/dev/null <<<"$(mount "mountPoint: 'pvc://ring-b'" "$tiny" ring-a)"
look=(condition ring-b)
told "two that mount each other" "$(mount "mountPoint: 'pvc://ring-a'" "$tiny" ring-b)" InvalidURL ring-a "another claim"
look=(n get mdl lost -o 'jsonpath={.status.conditions[*].reason}: {.status.conditions[*].message}')
told "a DataLoad of no Dataset" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: lost}, spec: {dataset: {name: imagenett}}}' DatasetNotFound imagenett "spec.dataset.name"
look=(n get mdl nightly -o 'jsonpath={.status.conditions[*].reason}: {.status.conditions[*].message}')
told "a nightly DataLoad of no Dataset" '{apiVersion: millrace.dev/v1alpha1, kind: DataLoad, metadata: {name: nightly}, spec: {dataset: {name: imagenett}, policy: Cron, schedule: "0 3 * * *"}}' DatasetNotFound imagenett "spec.dataset.name"

waiting_pod() # NAME CLAIM LABEL [GATE]: a pod's manifest
{
    restricted "$2" 'true' main | jq -c --arg name "$1" --arg data "$3" --arg gate "${4:-}" '{apiVersion: "v1", kind: "Pod",
        metadata: {name: $name, labels: ({} + (if $data == "" then {} else {"millrace.dev/data": $data} end))},
        spec: (. + {restartPolicy: "Never"} + (if $gate == "" then {} else {schedulingGates: [{name: $gate}]} end))}'
}
look=(events_of typo)
told "a claim misspelt in a pod" "$(waiting_pod typo fixxed '')" fixxed "not found"
look=(events_of ungated)
told "a label without the gate" "$(waiting_pod ungated fixed Ready)" schedulingGates millrace.dev/data
look=(events_of unlabelled)
told "the gate without the label" "$(waiting_pod unlabelled fixed '' millrace.dev/data)" millrace.dev/data "metadata.labels"
look=(events_of nonsense)
told "a label's value misspelt" "$(waiting_pod nonsense fixed Loaded millrace.dev/data)" Loaded Ready Preloaded
look=(events_of forever)
told "a wait for a preload that nobody asked for" "$(waiting_pod forever fixed Preloaded millrace.dev/data)" NoPreload spec.cache.preload fixed "starts at once"

[ "$count" -ge 30 ] || fail "only $count mistakes were made"
[ ${#bad[@]} = 0 ] || fail "$(printf '%s\n' "${#bad[@]} of $count are badly answered:" "${bad[@]}")"
step "$count mistakes, each answered in words"
