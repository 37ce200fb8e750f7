# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2153 # STAGE, IMAGE, REGISTRY, VERSION are of hack/release
# chart.sh — the chart as Helm takes it, install.yaml for those who have no Helm, and the list of images. Sourced by hack/release.

CHART_KUBE=1.34.0 # what helm renders for; the chart asks for its kubeVersion or later

# Helm's own packer notes the time of day; the same files are packed here with the commit's.
make_chart()
{
    local work
    work=$(mktemp -d)
    cp -a "$ROOT/charts/millrace" "$work/millrace"
    sed -i "s|^  repository: localhost/millrace\$|  repository: $REGISTRY/millrace|" "$work/millrace/values.yaml"
    grep -qxF "  repository: $REGISTRY/millrace" "$work/millrace/values.yaml" || { echo "values.yaml: image.repository is not where it was"; return 1; }
    tar_same "$work" "$work/chart.tar" millrace
    gzip -n9 <"$work/chart.tar" >"$STAGE/millrace-$VERSION.tgz"
    make_manifest "$STAGE/millrace-$VERSION.tgz" >"$STAGE/install.yaml"
    chart_images "$STAGE/install.yaml" >"$STAGE/images.txt"
    rm -rf "$work"
}

make_manifest() # CHART.tgz: for kubectl apply --server-side -f
{
    cat <<YAML
# Millrace $VERSION: the chart with its default values, in a namespace of its own.
#   install, upgrade   kubectl apply --server-side -f install.yaml
#   remove             delete all Datasets, DataLoads and TFJobs first (docs/install/uninstall.md); then kubectl delete -f install.yaml,
#                      which takes the kinds along
# The image is $IMAGE. Where your registry has it by another name:
#   sed 's|$IMAGE|registry.example/ml/millrace:$VERSION|' install.yaml | kubectl apply --server-side -f -
# For other values, another namespace or other names, and on GKE and OpenShift, use the chart (helm template -n NAMESPACE --no-hooks): policies
# and the operator's configuration name both, so what kustomize makes of this file with namespace or namePrefix refuses its own pods.
YAML
    helm template millrace "$1" --namespace millrace-system --include-crds --no-hooks --kube-version "$CHART_KUBE" \
        --set podSecurity.createNamespace=true,uninstallCheck=false | sed 's|app.kubernetes.io/managed-by: Helm|app.kubernetes.io/managed-by: kubectl|'
}

chart_images() # MANIFEST: what a cluster pulls
{
    sed -n 's/^ *\(- \)\{0,1\}image: *"\{0,1\}\([^" ]*\)"\{0,1\} *$/\2/p; s/^ *- --image=\([^ ]*\)$/\1/p' "$1" | sort -u
}

chart_try() # CHART.tgz MANIFEST
{
    [ "$(helm show chart "$1" | sed -n 's/^version: //p')" = "$VERSION" ]
    [ "$(helm show chart "$1" | sed -n 's/^appVersion: //p')" = "$VERSION" ]
    helm template millrace "$1" --namespace millrace-system --kube-version "$CHART_KUBE" >/dev/null
    [ "$(sed -n 's/^kind: //p' "$2" | grep -xE 'Namespace|ServiceAccount' | sed 1q)" = Namespace ] ||
        { echo "install.yaml does not make its namespace before what is in it"; return 1; }
    ! grep -n 'managed-by: Helm\|helm.sh/hook' "$2" || { echo "install.yaml says that it is Helm's"; return 1; }
    [ "$(grep -c '^kind: CustomResourceDefinition$' "$2")" = "$(find "$ROOT/crds" -name '*.yaml' | wc -l)" ] ||
        { echo "install.yaml has not all of crds/"; return 1; }
    [ "$(chart_images "$2")" = "$IMAGE" ] || { echo "install.yaml names other images than $IMAGE: $(chart_images "$2")"; return 1; }
}
