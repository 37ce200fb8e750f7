#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# alone
# What hack/release makes, used as docs/install/registry.md and docs/install/air-gapped.md say: pushed to a registry and imported on
# nodes, its chart pulled, its install.yaml applied, with the release's own image; then removed again.
. "$(dirname "$0")/lib.sh"
start_test
ARCH=$(dpkg --print-architecture)
DIST=$WORK/dist
VERSION=$(sed -n 's/^project(millrace VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")

step "hack/release"
"$ROOT/hack/release" --arch "$ARCH" --out "$DIST"
(cd "$DIST" && sha256sum --quiet -c SHA256SUMS)
"$ROOT/hack/release" --arch "$ARCH" --out "$WORK/named" --registry registry.example/ml
[ "$(cat "$WORK/named/images.txt")" = "registry.example/ml/millrace:$VERSION" ] || fail "images.txt says $(cat "$WORK/named/images.txt")"
helm show values "$WORK/named/millrace-$VERSION.tgz" | grep -qxF '  repository: registry.example/ml/millrace'
if [ -n "$(git -C "$ROOT" status --porcelain)" ]; then
    step "the checkout has changes, so a clone of it would not be the same: not compared"
else
    step "the same bytes from another place"
    git clone -q "$ROOT" "$WORK/another/place"
    (umask 077 && TZ=Asia/Tokyo "$WORK/another/place/hack/release" --arch "$ARCH")
    diff "$DIST/SHA256SUMS" "$WORK/another/place/dist/SHA256SUMS"
fi

step "the SBOM, less a package and with another sum, is refused"
sbom=$DIST/millrace_${VERSION}_image_$ARCH
jq '.packages |= map(select(.name != "libcurl4"))' "$sbom.spdx.json" >"$WORK/less.json"
jq '(.files[] | select(.fileName == "./usr/bin/millrace-csi").checksums[] | select(.algorithm == "SHA256")).checksumValue |= "00" + .[2:]' \
    "$sbom.spdx.json" >"$WORK/other.json"
python3 "$ROOT/hack/release.d/sbom.py" check "$sbom.spdx.json" "$sbom.tar"
has_text "package libcurl4 " python3 "$ROOT/hack/release.d/sbom.py" check "$WORK/less.json" "$sbom.tar" || fail "a package less is not seen"
has_text "./usr/bin/millrace-csi: another sum" python3 "$ROOT/hack/release.d/sbom.py" check "$WORK/other.json" "$sbom.tar" || fail "another sum is not seen"

step "a registry"
trap '[ -z "${REGISTRY_PID:-}" ] || kill "$REGISTRY_PID"; finish' EXIT
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%d"}\n' "$WORK/registry" "$PORT" >"$WORK/registry.yml"
docker-registry serve "$WORK/registry.yml" >"$WORK/registry.log" 2>&1 &
REGISTRY_PID=$!
REGISTRY=127.0.0.1:$PORT/ml
expect 20 "the registry answers" curl -sf "http://127.0.0.1:$PORT/v2/"
skopeo copy --all --dest-tls-verify=false "oci-archive:$DIST/millrace_${VERSION}_image.oci.tar" "docker://$REGISTRY/millrace:$VERSION"
pushed=$(skopeo inspect --raw --tls-verify=false "docker://$REGISTRY/millrace:$VERSION" | sha256sum | cut -d ' ' -f 1)
tar -xOf "$DIST/millrace_${VERSION}_image.oci.tar" ./index.json | grep -qF "sha256:$pushed" || fail "the registry's index $pushed is not the archive's"
skopeo copy --dest-tls-verify=false "docker-archive:$DIST/millrace_${VERSION}_image_$ARCH.tar" "docker://$REGISTRY/one:$VERSION"
ids=$(for name in millrace one; do skopeo inspect --config --raw --tls-verify=false "docker://$REGISTRY/$name:$VERSION" | sha256sum; done | sort -u)
[ "$(wc -l <<<"$ids")" = 1 ] || fail "the two archives hold different images"
helm push "$DIST/millrace-$VERSION.tgz" "oci://$REGISTRY/charts" --plain-http
(cd "$WORK" && helm pull "oci://$REGISTRY/charts/millrace" --version "$VERSION" --plain-http)
cmp "$WORK/millrace-$VERSION.tgz" "$DIST/millrace-$VERSION.tgz"

step "nodes without a registry"
helm uninstall "$RELEASE" --namespace "$SYSTEM" --ignore-not-found --wait --timeout 2m
kubectl delete -f "$ROOT/crds/" --ignore-not-found --timeout=60s
k delete namespace "$SYSTEM" --ignore-not-found --wait --timeout=120s
for node in $(k get nodes -o name); do
    node=${node#node/}
    "$ROOT/hack/cluster" exec "$node" ctr -n k8s.io images rm "localhost/millrace:$VERSION"
    "$ROOT/hack/cluster" exec "$node" ctr -n k8s.io images import "$DIST/millrace_${VERSION}_image.oci.tar"
    has_text "localhost/millrace:$VERSION" "$ROOT/hack/cluster" exec "$node" ctr -n k8s.io images ls -q || fail "the import on $node brings another name"
done

step "install.yaml"
kubectl apply --server-side -f "$DIST/install.yaml"
k -n "$SYSTEM" rollout status deployment/millrace-operator --timeout=120s
k -n "$SYSTEM" rollout status daemonset/millrace-csi --timeout=120s
kubectl diff --server-side -f "$DIST/install.yaml" || fail "what is applied is not what is read back"
running=$(k -n "$SYSTEM" get pods -o jsonpath='{.items[*].spec.containers[*].image}' | tr ' ' '\n' | sort -u)
[ "$running" = "$(cat "$DIST/images.txt")" ] || fail "pods run $running, images.txt says $(cat "$DIST/images.txt")"
s3_up
secret keys "$S3_KEY" "$S3_SECRET"
random_files 2 100000 in
dataset data
pod reader data 'cd /mnt/fuse && sha256sum -c sums.txt'
expect 120 "a pod reads through it" has_text Succeeded jsonpath pod/reader '{.status.phase}'
grep -c OK <(n logs reader) | grep -qx 2 || fail "the reader saw $(n logs reader)"

step "removal"
n delete pod reader
kubectl delete tfjobs.kubeflow.org,dataloads.millrace.dev,datasets.millrace.dev -A --all --timeout=90s
kubectl delete -f "$DIST/install.yaml" --timeout=120s
[ -z "$(k get crd -o name | grep -E 'millrace|tfjobs' || true)" ] || fail "kinds are left"

step "the chart of the release"
helm install "$RELEASE" "$DIST/millrace-$VERSION.tgz" --namespace "$SYSTEM" --create-namespace --wait --timeout 2m
