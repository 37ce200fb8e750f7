#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 2700
# alone
# docs/install/registry.md and docs/install/air-gapped.md, command by command, with a registry of this machine: what hack/release makes, for
# both architectures, is pushed and imported on nodes, its chart pulled, its install.yaml applied, with the release's own image; then removed.
# What is in it: tests/release.
. "$(dirname "$0")/lib.sh"
start_test
ARCH=$(dpkg --print-architecture)
DIST=$WORK/reader/dist
VERSION=$(sed -n 's/^project(millrace VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
IMAGE=$DIST/millrace_${VERSION}_image

# The page's commands with our registry, which has no certificate; what is made lies in the reader's directory, not in the checkout.
as_here()
{
    sed -e "s#registry.example/ml#${REGISTRY:-registry.example/ml}#" -e "s#^hack/release#$ROOT/hack/release --out dist#" \
        -e 's#^skopeo copy#& --dest-tls-verify=false#' -e 's#^helm push.*#& --plain-http#'
}

step "hack/release, for both architectures, and with the name of a registry"
began=$SECONDS
reader bash -euc "$(page_block docs/install/registry.md 1 | as_here)"
[ "$(cat "$DIST/images.txt")" = "registry.example/ml/millrace:$VERSION" ] || fail "images.txt says $(cat "$DIST/images.txt")"
helm show values "$DIST/millrace-$VERSION.tgz" | grep -qxF '  repository: registry.example/ml/millrace'
reader bash -euc "$(page_block docs/install/air-gapped.md 1 | as_here)"
step "three times: $((SECONDS - began)) s"

mkdir "$WORK/oci"
tar -C "$WORK/oci" -xf "$IMAGE.oci.tar"

step "a registry"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%d"}\n' "$WORK/registry" "$PORT" >"$WORK/registry.yml"
REGISTRY_PID=''
leave() { [ -z "$REGISTRY_PID" ] || kill "$REGISTRY_PID"; }
at_end leave
docker-registry serve "$WORK/registry.yml" >"$WORK/registry.log" 2>&1 &
REGISTRY_PID=$!
REGISTRY=127.0.0.1:$PORT/ml
expect 20 "the registry answers" curl -sf "http://127.0.0.1:$PORT/v2/"
reader bash -euc "$(page_block docs/install/registry.md 2 | as_here)"
pushed=$(skopeo inspect --raw --tls-verify=false "docker://$REGISTRY/millrace:$VERSION" | sha256sum | cut -d ' ' -f 1)
grep -qF "sha256:$pushed" "$WORK/oci/index.json" || fail "the registry's index $pushed is not the archive's"
skopeo copy --dest-tls-verify=false "docker-archive:${IMAGE}_$ARCH.tar" "docker://$REGISTRY/one:$VERSION"
ids=$(for name in millrace one; do skopeo inspect --config --raw --tls-verify=false "docker://$REGISTRY/$name:$VERSION" | sha256sum; done | sort -u)
[ "$(wc -l <<<"$ids")" = 1 ] || fail "the two archives hold different images"
reader bash -euc "$(page_block docs/install/registry.md 6 | as_here)"
(cd "$WORK" && helm pull "oci://$REGISTRY/charts/millrace" --version "$VERSION" --plain-http)
cmp "$WORK/millrace-$VERSION.tgz" "$DIST/millrace-$VERSION.tgz"

step "nodes without a registry"
helm uninstall "$RELEASE" --namespace "$SYSTEM" --ignore-not-found --wait --timeout 2m
kubectl delete -f "$ROOT/crds/" --ignore-not-found --timeout=60s
k delete namespace "$SYSTEM" --ignore-not-found --wait --timeout=120s
for node in $(k get nodes -o name); do
    node=${node#node/}
    "$ROOT/hack/cluster" exec "$node" ctr -n k8s.io images rm "localhost/millrace:$VERSION"
    "$ROOT/hack/cluster" exec "$node" sh -euc "cd $DIST; $(page_block docs/install/air-gapped.md 2)"
    has_text "localhost/millrace:$VERSION" "$ROOT/hack/cluster" exec "$node" ctr -n k8s.io images ls -q || fail "the import on $node brings another name"
done

step "install.yaml"
(cd "$DIST" && bash -euc "$(page_block docs/install/air-gapped.md 4)")
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
(cd "$DIST" && timeout 200 bash -euxc "$(page_block docs/install/uninstall.md 3)")
[ -z "$(k get crd -o name | grep -E 'millrace|tfjobs' || true)" ] || fail "kinds are left"

step "the chart of the release"
helm install "$RELEASE" "$DIST/millrace-$VERSION.tgz" --namespace "$SYSTEM" --create-namespace --wait --timeout 2m
