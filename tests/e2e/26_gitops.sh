#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# What a GitOps tool compares is equal: each example is applied, the operator works on it, and nothing differs from the file; neither for
# kubectl, client-side and server-side, nor for what Argo CD does with kinds it does not know: lists compared as a whole. A kustomize
# overlay that renames everything and patches one mount keeps the references. docs/install/gitops.md says what is tested here.
. "$(dirname "$0")/lib.sh"
start_test
k label namespace "$NS" pod-security.kubernetes.io/enforce=baseline --overwrite >/dev/null # the examples are written for such ones

mapfile -t manifests < <(cd "$ROOT" && find examples -name '*.yaml' ! -path '*/kustomize/*' | sort)
[ ${#manifests[@]} -ge 6 ] || fail "where are the examples? ${manifests[*]}"

task=$ROOT/examples/dataset/job.yaml # what most people want, in block style
[ "$(grep -vcE '^ *(#.*)?$|^---' "$task")" -le 45 ] || fail "the usual task takes more than 45 lines"

objects() # FILE: its objects, a line of JSON each
{
    n create --dry-run=client -o json -f "$1" | jq -c 'if .kind == "List" then .items[] else . end'
}

worked_on() # OBJECT: the operator has looked at this generation of it
{
    n get "$1" -o json | jq -e '.status.observedGeneration == .metadata.generation'
}

# What the file says is in the object, word by word, and lists hold nothing more.
as_written() # OBJECT-AS-JSON [WHAT-IS-READ]: prints the paths that differ
{
    local have=${2:-}
    [ -n "$have" ] || have=$(n get "$(jq -r '.kind + "." + (.apiVersion | split("/") | reverse | join(".")) + "/" + .metadata.name' <<<"$1")" -o json)
    jq -nr --argjson want "$1" --argjson have "$have" '
        def differs($w; $h; $at): if ($w | type) == "object" and ($h | type) == "object"
            then $w | keys[] as $k | differs($w[$k]; $h[$k]; $at + "." + $k)
            elif $w == $h then empty else "\($at): written \($w), read \($h)" end;
        differs($want.spec; $have.spec; $want.kind + "." + $want.metadata.name + ".spec")'
}

no_diff() # WHAT KUBECTL-DIFF-ARGUMENTS…
{
    local what=$1 diff
    shift
    diff=$(n diff "$@" 2>&1) || fail "$what: after apply and the operator's work kubectl diff says: $diff"
    [ -z "$diff" ] || fail "$what: $diff"
}

in_sync() # FILE MODE…: what kubectl apply is told, none or --server-side
{
    local file=$1 object
    shift
    n apply "$@" -f "$ROOT/$file" >/dev/null
    while read -r object; do
        case $(jq -r .kind <<<"$object") in Dataset | DataLoad | TFJob) ;; *) continue ;; esac
        expect 60 "$file: the operator has seen $(jq -r .metadata.name <<<"$object")" \
            worked_on "$(jq -r '(.kind | ascii_downcase) + "s." + (.apiVersion | split("/")[0]) + "/" + .metadata.name' <<<"$object")"
        differs=$(as_written "$object")
        [ -z "$differs" ] || fail "$file: $differs"
    done < <(objects "$ROOT/$file")
    no_diff "$file" "$@" -f "$ROOT/$file"
}

for file in "${manifests[@]}"; do
    step "$file"
    in_sync "$file"
    no_diff "$file, server-side" --server-side --force-conflicts --field-manager=kubectl-client-side-apply -f "$ROOT/$file"
    n delete -f "$ROOT/$file" --wait --timeout=60s >/dev/null
    in_sync "$file" --server-side
    n delete -f "$ROOT/$file" --wait --timeout=60s >/dev/null
done

step "the Datasets of the pages"
mapfile -t pages < <(cd "$ROOT" && git ls-files README.md 'docs/*.md')
(cd "$ROOT" && python3 tests/e2e/pages.py manifests "${pages[@]}") >"$WORK/pages.yaml"
objects "$WORK/pages.yaml" >"$WORK/pages.json"
[ "$(wc -l <"$WORK/pages.json")" -ge 8 ] || fail "where are they? $(cat "$WORK/pages.yaml")"
while read -r object; do
    have=$(n apply --dry-run=server -o json -f - <<<"$object") || fail "refused: $object"
    differs=$(as_written "$object" "$have")
    [ -z "$differs" ] || fail "of the pages: $differs"
done <"$WORK/pages.json"

step "a new Dataset is not taken for a finished one"
n apply --dry-run=server -o json -f "$ROOT/examples/dataset/read-only.yaml" | jq -e '.status.observedGeneration == -1' >/dev/null ||
    fail "the status of a Dataset that nobody has looked at says nothing"

step "kustomize: a prefix, hashed names, one mount and a container patched"
overlay=$ROOT/examples/kustomize/overlay
kubectl kustomize "$overlay" >"$WORK/overlay.yaml"
objects "$WORK/overlay.yaml" | jq -s 'map({key: .kind, value: .}) | from_entries' >"$WORK/overlay.json"
holds() # EXPRESSION
{
    jq -e "$1" "$WORK/overlay.json" >/dev/null || fail "not so: $1: $(cat "$WORK/overlay.yaml")"
}
holds '.Secret.metadata.name == "staging-s3-keys"'
holds '.Dataset.metadata.name == "staging-photos"'
holds '.Dataset.spec.mounts | map(.path) == ["/train", "/labels"]'
holds '.Dataset.spec.mounts[0].mountPoint == "s3://photos-staging/train" and .Dataset.spec.mounts[1].mountPoint == "s3://photos/labels"'
holds '.Dataset.spec.mounts[0].secretRef.name == .Secret.metadata.name'
holds '.ConfigMap.metadata.name | test("^staging-company-ca-.+")'
holds '.Dataset.spec.mounts[0].caBundle.configMapKeyRef.name == .ConfigMap.metadata.name'
holds '[.Dataset.spec.mounts[1].encryptOptions[].valueFrom.secretKeyRef.name] == [.Secret.metadata.name, .Secret.metadata.name]'
holds '.Job.spec.template.spec.volumes[0].persistentVolumeClaim.claimName == .Dataset.metadata.name'
holds '.Job.spec.template.spec.containers | length == 1 and .[0].image == "busybox:1.36"'
holds '.Job.spec.template.spec.containers[0] | .command[0] == "sh" and .volumeMounts[0].mountPath == "/data"'
n apply -k "$overlay" >/dev/null
expect 60 "the operator has seen staging-photos" worked_on datasets.millrace.dev/staging-photos
step "as the page says: $(page_block docs/install/gitops.md 1)"
reader ln -s "$ROOT/examples" .
reader bash -euc "$(page_block docs/install/gitops.md 1)" >"$WORK/out" || fail "after apply and the operator's work: $(cat "$WORK/out")"
diff "$WORK/out" "$WORK/overlay.yaml"

step "kustomize: whatever names a Dataset gets its prefix"
mkdir "$WORK/kinds"
cp "$ROOT/examples/kustomize/base/kustomizeconfig.yaml" "$WORK/kinds/"
while read -r version kind path; do # where the specification of a pod lies in each kind
    jq -nc --arg version "$version" --arg kind "$kind" "{apiVersion: \$version, kind: \$kind, metadata: {name: \"user\"}} |
        $path.volumes = [{name: \"scratch\", emptyDir: {}}, {name: \"data\", persistentVolumeClaim: {claimName: \"photos\"}}]"
done >"$WORK/kinds/users.json" <<'END'
v1 Pod .spec
batch/v1 Job .spec.template.spec
batch/v1 CronJob .spec.jobTemplate.spec.template.spec
apps/v1 Deployment .spec.template.spec
apps/v1 StatefulSet .spec.template.spec
apps/v1 DaemonSet .spec.template.spec
apps/v1 ReplicaSet .spec.template.spec
kubeflow.org/v2beta1 MPIJob .spec.mpiReplicaSpecs["Launcher","Worker"].template.spec
kubeflow.org/v1 XGBoostJob .spec.xgbReplicaSpecs["Master","Worker"].template.spec
kubeflow.org/v1 PaddleJob .spec.paddleReplicaSpecs["Master","Worker"].template.spec
kubeflow.org/v1 Notebook .spec.template.spec
kubeflow.org/v1 TFJob .spec.tfReplicaSpecs["Chief","Master","PS","Worker","Evaluator","chief","master","ps","worker","evaluator"].template.spec
kubeflow.org/v1 PyTorchJob .spec.pytorchReplicaSpecs["Master","Worker"].template.spec
jobset.x-k8s.io/v1alpha2 JobSet .spec.replicatedJobs[0,1].template.spec.template.spec
trainer.kubeflow.org/v1alpha1 TrainJob (.spec.podTemplateOverrides[0].spec, .spec.podSpecOverrides[0])
END
kinds=$(wc -l <"$WORK/kinds/users.json")
jq -nc '{apiVersion: "millrace.dev/v1alpha1"} + ({kind: "Dataset", metadata: {name: "photos"}, spec: {mounts: [{path: "/", mountPoint: "s3://photos"}],
        cache: ({priorityClassName: "photos"} as $class | {worker: $class, client: $class, loader: $class})}},
    {apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: {name: "photos"}, value: 1},
    {kind: "DataLoad", metadata: {name: "load"}, spec: {dataset: {name: "photos"}}})' >>"$WORK/kinds/users.json"
jq -s '{apiVersion: "v1", kind: "List", items: .}' "$WORK/kinds/users.json" >"$WORK/kinds/users.yaml"
echo '{namePrefix: staging-, resources: [users.yaml], configurations: [kustomizeconfig.yaml]}' >"$WORK/kinds/kustomization.yaml"
kubectl kustomize "$WORK/kinds" >"$WORK/kinds.yaml"
[ "$(grep -c '^  name: staging-user$' "$WORK/kinds.yaml")" = "$kinds" ] || fail "kinds are missing: $(cat "$WORK/kinds.yaml")"
forgotten=$(awk '/^kind:/ { kind = $2 } / photos$/ { print kind ": " $0 }' "$WORK/kinds.yaml")
[ -z "$forgotten" ] || fail "without its prefix: $forgotten"

step "kustomize: what it does not reach, by replacements"
mkdir "$WORK/reach"
sed -n '/^replacements:/,/^```/p' "$ROOT/docs/install/gitops.md" | sed '/^```/d' >"$WORK/reach/kustomization.yaml"
echo '{namePrefix: staging-, resources: [all.yaml]}' | sed 's/[{}]//g; s/, /\n/g' >>"$WORK/reach/kustomization.yaml"
cat >"$WORK/reach/all.yaml" <<'END'
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: label-store}, spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: millrace.dev/v1alpha1, kind: Dataset, metadata: {name: photos}, spec: {mounts: [{path: /labels, mountPoint: "pvc://label-store/photos"}]}}
---
{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: train, annotations: {millrace.dev/tensorboard: photos/logs}}, spec: {tfReplicaSpecs: {}}}
END
kubectl kustomize "$WORK/reach" >"$WORK/reach.yaml"
for words in "mountPoint: pvc://staging-label-store/photos" "millrace.dev/tensorboard: staging-photos/logs"; do
    grep -qF "$words" "$WORK/reach.yaml" || fail "without '$words': $(cat "$WORK/reach.yaml")"
done

step "server-side apply: two owners, a mount each"
own() # OWNER PATH URL
{
    printf '{apiVersion: millrace.dev/v1alpha1, kind: Dataset, metadata: {name: shared}, spec: {mounts: [{path: %s, mountPoint: "%s"}]}}' "$2" "$3" |
        n apply --server-side --field-manager="$1" -f - >/dev/null
}
own platform /shared s3://data/shared
own team /own s3://data/own
own platform /shared s3://data/shared-2
[ "$(jsonpath dataset/shared '{.spec.mounts[*].mountPoint}')" = "s3://data/shared-2 s3://data/own" ] ||
    fail "one owner's apply has changed the other's mount: $(jsonpath dataset/shared '{.spec.mounts}')"
