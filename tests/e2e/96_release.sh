#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 2700
# alone
# docs/install/registry.md and docs/install/air-gapped.md, command by command, with a registry of this machine: what hack/release makes, for
# both architectures, is pushed and imported on nodes, its chart pulled, its install.yaml applied, with the release's own image; then removed.
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

step "both architectures are in it"
mkdir "$WORK/oci"
tar -C "$WORK/oci" -xf "$IMAGE.oci.tar"
blob() { cat "$WORK/oci/blobs/sha256/${1#sha256:}"; }
index=$(blob "$(jq -r '.manifests[0].digest' "$WORK/oci/index.json")")
[ "$(jq -r '[.manifests[].platform | .os + "/" + .architecture] | sort | join(" ")' <<<"$index")" = "linux/amd64 linux/arm64" ] ||
    fail "the index has other platforms: $index"
machine() { readelf -h "$1" | sed -n 's/^ *Machine: *//p'; }
for arch in amd64 arm64; do
    manifest=$(blob "$(jq -r --arg arch "$arch" '.manifests[] | select(.platform.architecture == $arch).digest' <<<"$index")")
    mkdir "$WORK/$arch" "$WORK/$arch-deb"
    blob "$(jq -r '.layers[0].digest' <<<"$manifest")" | tar -C "$WORK/$arch" -xzf - ./usr/bin
    dpkg-deb -x "$DIST/millrace-cli_${VERSION}_$arch.deb" "$WORK/$arch-deb"
    [ "$(dpkg-deb -f "$DIST/millrace-cli_${VERSION}_$arch.deb" Architecture)" = "$arch" ] || fail "the package of $arch is for another"
    tar -C "$WORK/$arch" -xzf "$DIST/millrace-cli_${VERSION}_linux_$arch.tar.gz"
    mapfile -t programs < <(find "$WORK/$arch" "$WORK/$arch-deb" -name 'millrace*' -type f -path '*/bin/*')
    [ ${#programs[@]} -ge 8 ] || fail "programs of $arch are missing: ${programs[*]}"
    for program in "${programs[@]}"; do
        case $arch:$(machine "$program") in
        amd64:*X86-64 | arm64:AArch64) ;;
        *) fail "$program of $arch is for $(machine "$program")" ;;
        esac
    done
done
size=$(jq '[.config.size, .layers[].size] | add' <<<"$(blob "$(jq -r '.manifests[0].digest' <<<"$index")")")
said=$(sed -n 's/.*one image under \([0-9]*\) MB.*/\1/p' "$ROOT/README.md")
[ "$size" -lt $((${said:-0} * 1000000)) ] || fail "the image has $size bytes, and README.md says under $said MB"
[ "$size" -gt $(((said - 2) * 1000000)) ] || fail "the image has but $size bytes: README.md may say less than $said MB"

step "the package is installed, where what it depends on is"
mkdir "$WORK/upper" "$WORK/work" "$WORK/debian"
mount -t overlay -o "lowerdir=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/sysroot/$ARCH,upperdir=$WORK/upper,workdir=$WORK/work" none "$WORK/debian"
REGISTRY_PID=''
trap '[ -z "$REGISTRY_PID" ] || kill "$REGISTRY_PID"; umount "$WORK/debian"; finish' EXIT
dpkg --root="$WORK/debian" --install "$DIST/millrace-cli_${VERSION}_$ARCH.deb"
has_text "millrace $VERSION" chroot "$WORK/debian" /usr/bin/kubectl-millrace --version || fail "it does not run there"
dpkg --root="$WORK/debian" --force-depends --remove libcurl4 >/dev/null 2>&1
if dpkg --root="$WORK/debian" --install "$DIST/millrace-cli_${VERSION}_$ARCH.deb" >"$WORK/out" 2>&1; then fail "it is installed without libcurl4"; fi
grep -q 'depends on libcurl4' "$WORK/out" || fail "$(cat "$WORK/out")"

if [ -n "$(git -C "$ROOT" status --porcelain)" ]; then
    step "the checkout has changes, so a clone of it would not be the same: not compared"
else
    step "the same bytes from another place"
    "$ROOT/hack/release" --arch "$ARCH" --out "$WORK/one"
    git clone -q "$ROOT" "$WORK/another/place"
    (umask 077 && TZ=Asia/Tokyo "$WORK/another/place/hack/release" --arch "$ARCH")
    diff "$WORK/one/SHA256SUMS" "$WORK/another/place/dist/SHA256SUMS"
fi

step "the SBOM, less a package and with another sum, is refused"
sbom=${IMAGE}_$ARCH
jq '.packages |= map(select(.name != "libcurl4"))' "$sbom.spdx.json" >"$WORK/less.json"
jq '(.files[] | select(.fileName == "./usr/bin/millrace-csi").checksums[] | select(.algorithm == "SHA256")).checksumValue |= "00" + .[2:]' \
    "$sbom.spdx.json" >"$WORK/other.json"
python3 "$ROOT/hack/release.d/sbom.py" check "$sbom.spdx.json" "$sbom.tar"
has_text "package libcurl4 " python3 "$ROOT/hack/release.d/sbom.py" check "$WORK/less.json" "$sbom.tar" || fail "a package less is not seen"
has_text "./usr/bin/millrace-csi: another sum" python3 "$ROOT/hack/release.d/sbom.py" check "$WORK/other.json" "$sbom.tar" || fail "another sum is not seen"

step "a registry"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%d"}\n' "$WORK/registry" "$PORT" >"$WORK/registry.yml"
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
kubectl delete tfjobs.kubeflow.org,dataloads.millrace.dev,datasets.millrace.dev -A --all --timeout=90s
kubectl delete -f "$DIST/install.yaml" --timeout=120s
[ -z "$(k get crd -o name | grep -E 'millrace|tfjobs' || true)" ] || fail "kinds are left"

step "the chart of the release"
helm install "$RELEASE" "$DIST/millrace-$VERSION.tgz" --namespace "$SYSTEM" --create-namespace --wait --timeout 2m
