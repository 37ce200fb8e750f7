#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: helm
# Odd values of the chart, as people have them: what is good is rendered as the API server takes it, what is nonsense is refused by name.
set -euo pipefail
chart=$(dirname "$(readlink -f "$0")")/../../charts/millrace
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"

# Prints what Kubernetes, or a tool that reads YAML strictly (kustomize in Flux, Argo CD), would refuse in a list of objects.
cat >"$work/look.py" <<'PYTHON'
import sys
import yaml


class Strict(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        for key in {key for key in keys if keys.count(key) > 1}:
            print("line %d: the key %s is there twice" % (node.start_mark.line + 1, key))
        return super().construct_mapping(node, deep)


def look(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            here = path + "." + str(key)
            if key in ("labels", "annotations", "matchLabels", "nodeSelector") and isinstance(inner, dict):
                for name, text in inner.items():
                    if not isinstance(text, str):
                        print("%s.%s: %r is no string" % (here, name, text))
                    elif key in ("labels", "matchLabels") and (len(text) > 63 or "+" in text):
                        print("%s.%s: %r is no label" % (here, name, text))
            elif key in ("name", "path", "mountPath", "priorityClassName") and not isinstance(inner, str):
                print("%s: %r is no string" % (here, inner))
            look(inner, here)
    elif isinstance(value, list):
        for inner in value:
            look(inner, path + "[]")


with open(sys.argv[1], encoding="utf-8") as rendered:
    for item in filter(None, yaml.load_all(rendered, Strict)):
        what = "%s %s" % (item["kind"], item["metadata"]["name"])
        if item["kind"] == "Job" and len(item["metadata"]["name"]) > 63:
            print(what + ": the name is too long for a Job")
        look(item, what)
PYTHON

result() { is "$1" "" "$2"; } # NAME WRONG

render() { { helm template --kube-version 1.34.0 --set crds.install=false "$@" >"$work/rendered.yaml"; } 2>&1; }

good() # RELEASE FLAG…
{
    local release=$1
    shift
    result "release $release $*" "$(render "$release" "$chart" "$@" && python3 "$work/look.py" "$work/rendered.yaml" 2>&1)"
}

refused() # WORDS FLAG…
{
    local words=$1 answer wrong=
    shift
    if answer=$(render a "$chart" "$@"); then
        wrong="it is accepted"
    elif [[ $answer != *"$words"* ]]; then
        wrong="no '$words' in: $answer"
    fi
    result "refused: $*" "$wrong"
}

# Names that YAML reads as something else than a text, and the longest that Helm takes.
for release in 123 1e3 true my.release "$(printf 'a%.0s' {1..53})"; do good "$release" --set metrics.networkPolicy.enabled=true; done
good a --set-string operator.priorityClassName=123,csi.priorityClassName=123,image.pullSecrets[0]=123
good a --set env.NO=1 --set-string 'env.NO=1,env.true=2,env.QUOTES=a"b: {{ x }} #'
# Labels of two origins.
good a --set metrics.podMonitor.enabled=true,commonLabels.release=a,metrics.podMonitor.labels.release=b
good a --set metrics.prometheusRule.enabled=true,commonLabels.release=a,metrics.prometheusRule.labels.release=b
good a --set metrics.dashboards.enabled=true,commonLabels.grafana_dashboard=a
good a --set podSecurity.createNamespace=true --set-string 'commonLabels.pod-security\.kubernetes\.io/enforce=baseline'
result "the namespace's own label is stronger" "$(sed -n '/^kind: Namespace/,/^---/p' "$work/rendered.yaml" | grep baseline)"
# Helm takes what is null out of the values, defaults included: where nothing means something else than the default, that is told by name.
render a "$chart"
hashes='s/\(hash: \|"pluginHash": "\|config: \)[0-9a-f]\{16,\}/\1/'
sed "$hashes" "$work/rendered.yaml" >"$work/default.yaml"
needed=$(sed -n 's/^  "\([A-Za-z.]*\)".*/\1/p' "$chart/templates/_needed.tpl")
for name in $needed; do refused "The value $name is missing." --set "$name=null"; done
for name in $("$chart/../../hack/helm_values" | sed -n 's/^| `\([^`]*\)`.*/\1/p'); do
    if ! grep -qxF "$name" <<<"$needed"; then
        wrong=$(render a "$chart" --set "$name=null") ||
            wrong=${wrong:-it is refused}
        [ -n "$wrong" ] || wrong=$(sed "$hashes" "$work/rendered.yaml" | diff "$work/default.yaml" - || true)
        result "null is the default: $name" "$wrong"
    fi
done
good a --set enabled=true # of a chart that has this one as a dependency
good a --set image.repository=registry.example:5000/ml/millrace,image.tag=0.1

rendered() # WHAT EXPECTED COMMAND FLAG…
{
    local what=$1 expected=$2 command=$3 answer
    shift 3
    if answer=$(render a "$chart" "$@"); then answer=$(eval "$command" || true); fi # grep -c ends badly with 0
    result "$what" "$([ "$answer" = "$expected" ] || echo "'$answer' instead of '$expected'")"
}
digest=sha256:$(printf '0123456789abcdef%.0s' {1..4})
images="grep -ohE '(image: *|--image=|IMAGE, value: *)\"?[^ \",}]+' $work/rendered.yaml | sed 's/.*[ =\"]//' | sort -u"
rendered "image.digest pins every image, in place of the tag" "registry.example/millrace@$digest" "$images" \
    --set "image.repository=registry.example/millrace,image.tag=0.1,image.digest=$digest"
refused image/digest --set image.digest=0.1
names="sed -n '/^kind: \(Deployment\|DaemonSet\)/,/^spec/s/^  name: //p' $work/rendered.yaml | tr -d '\"' | sort | xargs"
rendered "nameOverride is in the names of objects" "a-mill-csi a-mill-operator" "$names" --set nameOverride=mill
rendered "fullnameOverride is the name" "mill-csi mill-operator" "$names" --set fullnameOverride=mill,nameOverride=other
# Helm runs this of an older revision, as that was rendered, after a rollback.
rendered "the check before an uninstall names no revision, but how to see it" 1 "grep -c 'uninstall-keep=helm rollback a .*helm status a -n default .*REVISION: //p' $work/rendered.yaml"
cp -r "$chart" "$work/millrace"
sed -i 's/^version: .*/version: 0.1.0+4f2a/' "$work/millrace/Chart.yaml" # Flux adds the digest of what it packs
chart=$work/millrace
good a

# Helm drops what makes a version GKE's (--kube-version 1.34.0-gke.1), so a copy of the chart is told.
quotas="grep -c '^kind: ResourceQuota' $work/rendered.yaml"
rendered "resourceQuota.create=auto elsewhere than on GKE" 0 "$quotas"
rendered "resourceQuota.create=true" 1 "$quotas" --set resourceQuota.create=true
sed -i 's/\.Capabilities\.KubeVersion\.Version/"v1.34.1-gke.1829001"/' "$chart/templates/classes.yaml"
rendered "resourceQuota.create=auto on GKE" 1 "$quotas"
rendered "it names the classes" '["system-cluster-critical","system-node-critical"]' "sed -n 's/.*operator: In, values: \(.*system-.*\)}$/\1/p' $work/rendered.yaml"
rendered "no classes, no quota" 0 "$quotas" --set operator.priorityClassName=,csi.priorityClassName=
rendered "resourceQuota.create=false on GKE" 0 "$quotas" --set resourceQuota.create=false

# Without a cluster there is nothing to look at, so a copy of the chart is told what there is.
roles="grep -c '^  name: .*kubeflow-training-' $work/rendered.yaml"
rendered "kubeflowRoles=auto where nobody has them" 3 "$roles"
rendered "kubeflowRoles=false" 0 "$roles" --set kubeflowRoles=false
there() # ANNOTATIONS: of the one that is there
{
    sed -i "s|\$there := .*|\$there := dict \"metadata\" (dict \"annotations\" (dict $1)) }}|" "$chart/templates/rbac.yaml"
}
there ''
rendered "kubeflowRoles=auto beside training-operator" 0 "$roles"
rendered "kubeflowRoles=true all the same" 3 "$roles" --set kubeflowRoles=true
there '"meta.helm.sh/release-name" "a" "meta.helm.sh/release-namespace" "default"'
rendered "kubeflowRoles=auto at an upgrade" 3 "$roles"
refused kubeflowRoles --set kubeflowRoles=maybe

# Nothing is said by an empty field: null is no list to those who patch it.
rendered "env without variables" "" "grep -A1 '^ *env: *$' $work/rendered.yaml | grep -v -e env: -e '- .*name:' -e '^--$'"
rendered "env of a domain and a proxy" 2 "grep -c -e CUSTOM_CLUSTER_DOMAIN -e 'name: \"HTTP_PROXY\", value: \"http://p\"' <(sed -n '/^kind: Deployment/,/^---/p' $work/rendered.yaml)" --set operator.clusterDomain=c.local,env.HTTP_PROXY=http://p

# A Dataset without an endpoint is refused where nobody else gives one.
without() { result "limits.endpoints, $1: Datasets without an endpoint" "$(render a "$chart" --set 'limits.endpoints={https://minio.example}' --set-string "$1" &&
    if [ "$(grep -c "!(has(m.options) && " "$work/rendered.yaml")" != "$2" ]; then echo "the rule is not as it should be"; fi)"; }
without logLevel=info 4 # a rule and its message, for S3 and for Google's
without defaults.options.s3.endpoint=https://minio.example 2
without defaults.options.s3.url=https://minio.example 2
without defaults.options.gs.endpoint=https://minio.example 2

nodes="python3 -c 'import json, sys, yaml; print(json.dumps(next(json.loads(o[\"data\"][\"config.json\"]).get(\"pluginNodes\") for o in yaml.safe_load_all(open(sys.argv[1])) if o and o[\"kind\"] == \"ConfigMap\")))' $work/rendered.yaml"
rendered "cache workers may be on all nodes, as the plugin is" null "$nodes"
rendered "cache workers are where the plugin is" '[{"key": "pool", "operator": "In", "values": ["gpu"]}]' "$nodes" --set csi.nodeSelector.pool=gpu
rendered "cache workers are where one of its DaemonSets is" '[{"key": "pool", "operator": "In", "values": ["gpu", "nvme"]}]' "$nodes" \
    --set csi.nodeSelector.pool=gpu,csi.cacheDir=/mnt/a,csi.cacheDirs[0].path=/mnt/b,csi.cacheDirs[0].nodeSelector.pool=nvme
taints=${nodes//pluginNodes/pluginTolerations}
rendered "the plugin is on nodes with any taint" null "$taints"
rendered "cache workers tolerate no more than the plugin" '[{"key": "nvidia.com/gpu", "operator": "Exists"}]' "$taints" \
    --set 'csi.tolerations[0].key=nvidia.com/gpu,csi.tolerations[0].operator=Exists'
rendered "nor any taint" '[]' "$taints" --set-json 'csi.tolerations=[]'
rendered "one effect is not any taint" '[{"effect": "NoSchedule", "operator": "Exists"}]' "$taints" \
    --set 'csi.tolerations[0].effect=NoSchedule,csi.tolerations[0].operator=Exists'
rendered "the key stays with the Datasets" 1 "sed -n '/^kind: Secret/,/^---/p' $work/rendered.yaml | grep -c 'resource-policy: keep'"
rendered "the key goes with the kinds" 0 "sed -n '/^kind: Secret/,/^---/p' $work/rendered.yaml | grep -c 'resource-policy: keep'" --set crds.keep=false

# What is filled into a Dataset that says nothing is held to the limits, too.
refused "limits.replicas is 0, and a Dataset that says nothing has 1 cache worker: set" --set limits.replicas=0
refused "limits.replicas is 3, and a Dataset that says nothing has 4 cache workers: set" --set limits.replicas=3,defaults.cache.replicas=4
good within --set limits.replicas=0,defaults.cache.replicas=0
refused "limits.tierQuota is 5Gi, and a Dataset that says nothing has a tier of 10Gi: set" --set limits.tierQuota=5Gi
refused "limits.tierQuota is 1.5T, and a Dataset that says nothing has a tier of 1.4Ti: set" --set 'limits.tierQuota=1.5T,defaults.cache.tiers[0].medium=SSD,defaults.cache.tiers[0].quota=1.4Ti'
refused "defaults.cache.client.tiers" --set 'limits.tierQuota=20Gi,defaults.cache.client.tiers[0].medium=SSD,defaults.cache.client.tiers[0].quota=21Gi'
refused "tiers/0/quota': '1m' does not match" --set 'defaults.cache.tiers[0].medium=SSD,defaults.cache.tiers[0].quota=1m'
refused "tiers/0/quota': '500Ki' does not match" --set 'defaults.cache.client.tiers[0].medium=SSD,defaults.cache.client.tiers[0].quota=500Ki'
good small --set 'defaults.cache.tiers[0].medium=SSD,defaults.cache.tiers[0].quota=2048Ki'
good within --set 'limits.tierQuota=10737418240' # a number of bytes: 10Gi
good within --set 'limits.tierQuota=1500G,defaults.cache.tiers[0].medium=SSD,defaults.cache.tiers[0].quota=1.3Ti'
good within --set 'limits.tierQuota=1Gi,defaults.cache.worker.tiers[0].medium=SSD,defaults.cache.worker.tiers[0].quota=1Gi,defaults.cache.client.tiers[0].medium=SSD,defaults.cache.client.tiers[0].quota=1Gi'
refused "defaults.options.s3.url is https://b, which limits.endpoints does not allow" --set 'limits.endpoints={https://a},defaults.options.s3.url=https://b'
refused "defaults.options.gs.endpoint is https://b, which limits.endpoints does not allow" --set 'limits.endpoints={https://a},defaults.options.gs.endpoint=https://b'
good within --set 'limits.endpoints={https://a/},defaults.options.s3.url=https://a'
refused "defaults.options.s3.sts-endpoint is https://b, which limits.endpoints does not allow" --set 'limits.endpoints={https://a},defaults.options.s3.url=https://a,defaults.options.s3.sts-endpoint=https://b'
good within --set 'limits.endpoints={https://a,https://b},defaults.options.s3.url=https://a,defaults.options.s3.sts-endpoint=https://b/'
servers() { result "limits.endpoints of web servers" "$(render a "$chart" --set "limits.endpoints={$1}" && tr -s " \n" " " <"$work/rendered.yaml" | grep -c "$2" >/dev/null || echo "no $2")"; }
servers 'aws,https://A.example/' "!\['https://a.example'\].exists(s, m.mountPoint.lowerAscii() == s"
servers aws "!\[\].exists(s, "
servers 'aws,https://a.example' "m.mountPoint.startsWith('gs://') .*!(has(m.options) \&\& \['endpoint','alluxio.underfs.s3.endpoint','url'\].exists(k, k in m.options))"
servers 'https://storage.googleapis.com' "m.mountPoint.startsWith('gs://') [^|]*|| (has(m.encryptOptions) [^|]*)).size() == 0"
servers 'hdfs://cluster,hdfs://nn1:9870' "('hdfs://' + n.trim()) in \['hdfs://cluster','hdfs://nn1:9870'\]"

# What Kubernetes accepts of selectors and affinities, and what it would refuse only when the release is half made.
selector() { echo "--set-json=limits={\"schemes\": [\"s3\"], \"namespaceSelector\": {\"matchExpressions\": [$1]}}"; }
terms() { echo "--set-json=defaults.cache.$1.nodeAffinity={\"required\": {\"nodeSelectorTerms\": [$2]}}"; }
good within "$(selector '{"key": "team", "operator": "In", "values": ["a", "b"]}, {"key": "example.com/tier", "operator": "NotIn", "values": ["", "x_1.y"]}')"
good within "$(selector '{"key": "team", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist", "values": []}, {"key": "c", "operator": "Exists", "values": null}')"
good within --set limits.replicas=3,limits.namespaceSelector.matchLabels.team=a
refused namespaceSelector/matchExpressions/0 "$(selector '{"key": "team", "operator": "In"}')"
refused namespaceSelector/matchExpressions/0 "$(selector '{"key": "team", "operator": "NotIn", "values": []}')"
refused namespaceSelector/matchExpressions/0 "$(selector '{"key": "team", "operator": "Exists", "values": ["a"]}')"
refused namespaceSelector/matchExpressions/0 "$(selector '{"key": "team", "operator": "Gt", "values": ["1"]}')"
refused namespaceSelector/matchExpressions/0 "$(selector '{"key": "team!", "operator": "Exists"}')"
refused namespaceSelector/matchLabels --set 'limits.namespaceSelector.matchLabels.team=a b'
for component in worker loader; do
    good within "$(terms $component '{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1.example"]}]}, {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}], "matchExpressions": null}')"
    good within "$(terms $component '{"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["16"]}, {"key": "heat", "operator": "Lt", "values": ["-5"]}, {"key": "disk", "operator": "Exists"}, {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}')"
    refused nodeSelectorTerms/0/matchFields/0 "$(terms $component '{"matchFields": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}')"
    refused nodeSelectorTerms/0/matchFields/0 "$(terms $component '{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}')"
    refused nodeSelectorTerms/0/matchFields/0 "$(terms $component '{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}]}')"
    refused nodeSelectorTerms/0/matchExpressions/0 "$(terms $component '{"matchExpressions": [{"key": "cpus", "operator": "Lt", "values": ["many"]}]}')"
    refused nodeSelectorTerms/0/matchExpressions/0 "$(terms $component '{"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}')"
done
good a --set-json 'operator.affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}, "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}}]}}'

refused enabled --set enabled=false
refused "use --reset-then-reuse-values" --set metrics=null # what --reuse-values makes of a chart without metrics
refused "additional properties 'matchLabel'" --set limits.namespaceSelector.matchLabel.a=b # would be dropped: the limits would be everybody's
refused fullnameOverride --set "fullnameOverride=$(printf 'a%.0s' {1..48})"
for repository in registry.example/millrace:0.1.0 registry.example:5000/millrace:0.1.0 "registry.example/millrace@$digest" https://registry.example/ml/millrace \
    registry.example/ML/millrace 'registry.example/ml /millrace' registry.example/; do
    refused "write REGISTRY/NAME alone" --set "image.repository=$repository"
done
for repository in millrace ml/millrace localhost/millrace Registry.example/ml/mill_race 10.0.0.1:5000/ml/millrace; do good a --set "image.repository=$repository"; done
refused image/tag --set 'image.tag=a b'
refused watchNamespace --set watchNamespace=Team_A
refused commonLabels/team --set 'commonLabels.team=a b'
refused "The value commonLabels has the key \"a b\"" --set-string 'commonLabels.a b=x'
refused "The value commonAnnotations has the key \"a/b/c\"" --set-string commonAnnotations.a/b/c=x
for key in job-name batch.kubernetes.io/job-name controller-uid pod-template-hash sidecar.istio.io/inject app.kubernetes.io/name helm.sh/chart csi.millrace.dev/x; do
    refused "The value commonLabels must not have the key $key, which" --set-string "commonLabels.${key//./\\.}=x"
done
refused "The value commonAnnotations must not have the key linkerd.io/inject" --set-string 'commonAnnotations.linkerd\.io/inject=enabled'
refused "The value defaults.cache.worker.labels must not have the key millrace.dev/dataset" --set-string 'defaults.cache.worker.labels.millrace\.dev/dataset=x'
refused "The value defaults.cache.loader.annotations has the key \"a b\"" --set-string 'defaults.cache.loader.annotations.a b=x'
refused "The value limits.namespaceSelector.matchLabels has the key \"a b\"" --set-string 'limits.namespaceSelector.matchLabels.a b=x'
refused "The value env must not have the variable NODE_NAME" --set-string env.NODE_NAME=x
refused "The value env has the variable \"1A\"" --set-string env.1A=x
good a --set-string 'commonLabels.example\.com/team=a,commonLabels.team=a,commonAnnotations.example\.com/cost-center=a b,env.HTTP_PROXY=http://p'
refused aggregate-to-edit --set-string 'commonLabels.rbac\.authorization\.k8s\.io/aggregate-to-edit=true' # would hand out the operator's rights
refused "additional properties 'secret-access-key'" --set defaults.options.s3.secret-access-key=x # a ConfigMap is no place for it
refused limits/schemes --set 'limits.schemes={nfs}' # no Dataset could say that: all would be refused
refused "defaults/options/s3': additional properties 'endpiont'" --set defaults.options.s3.endpiont=https://minio.example
refused "worker/resources': additional properties 'limit'" --set defaults.cache.worker.resources.limit.cpu=1
refused "loader/tolerations/0': additional properties 'opertor'" --set 'defaults.cache.loader.tolerations[0].opertor=Exists'
refused "additional properties 'requiredDuringScheduling" --set defaults.cache.worker.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.a=b
refused "additional properties 's4'" --set defaults.options.s4.region=x
refused "s3/endpoint': 'minio:9000' does not match" --set defaults.options.s3.endpoint=minio:9000
refused "s3/path-style': value must be one of 'true', 'false'" --set-string defaults.options.s3.path-style=yes
for component in operator csi gpuSlices; do
    refused "$component/tolerations/0/operator': value must be one of 'Exists', 'Equal'" --set "$component.tolerations[0].operator=Exist"
    refused "$component/tolerations/0/effect'" --set "$component.tolerations[0].effect=NoRun"
    refused "$component/resources/limits/memory': '256MB' does not match" --set "$component.resources.limits.memory=256MB"
    refused "$component/resources': additional properties 'limit'" --set "$component.resources.limit.cpu=1"
    good a --set "$component.resources.limits.cpu=0.5,$component.resources.limits.memory=1e9,$component.resources.requests.ephemeral-storage=1.5Gi"
done
for dir in / /dev/nvme1n1 /proc /etc /etc/millrace /var /var/lib /var/lib/docker/cache /usr/local /run/cache /tmp /var/lib/kubelet/pods; do
    refused "is $dir, which belongs to the system" --set-string "csi.cacheDir=$dir"
    refused "is $dir, which belongs to the system" --set-json "csi.cacheDirs=[{\"nodeSelector\": {\"a\": \"b\"}, \"path\": \"$dir\"}]"
done
for dir in /mnt /mnt/k8s-disks/0 /data /var/lib/millrace /var/cache/millrace /opt/cache /etcetera /home/cache /nvme; do good a --set-string "csi.cacheDir=$dir"; done
for dir in /mnt/ mnt /mnt/../etc /mnt/. '/mnt/a b' '/mnt/a: b'; do refused csi/cacheDir --set-string "csi.cacheDir=$dir"; done
refused "which is csi.kubeletDir" --set csi.cacheDir=/var/lib/kubelet
refused "which is csi.kubeletDir" --set-json 'csi.cacheDirs=[{"nodeSelector": {"a": "b"}, "path": "/var/lib/kubelet"}]'

echo "1..$count"
exit $failed
