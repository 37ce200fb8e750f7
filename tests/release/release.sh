#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1500
# What hack/release makes is for both architectures, no larger than README.md says, can be installed where Debian is, is the same from
# another place, and its SBOM is that of its files.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
ARCH=$(dpkg --print-architecture)
DIST=$WORK/dist
VERSION=$(sed -n 's/^project(millrace VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
IMAGE=$DIST/millrace_${VERSION}_image

step() { printf '%(%H:%M:%S)T %s\n' -1 "$*"; }
fail()
{
    echo "FAIL: $*" >&2
    exit 1
}

step "hack/release"
"$ROOT/hack/release" --out "$DIST"

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
trap 'umount "$WORK/debian"; rm -rf "$WORK"' EXIT
dpkg --root="$WORK/debian" --install "$DIST/millrace-cli_${VERSION}_$ARCH.deb"
[[ $(chroot "$WORK/debian" /usr/bin/kubectl-millrace --version) = *"millrace $VERSION"* ]] || fail "it does not run there"
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
refused() # WORDS SBOM
{
    if python3 "$ROOT/hack/release.d/sbom.py" check "$2" "$sbom.tar" >"$WORK/out" 2>&1; then fail "accepted: $2"; fi
    grep -qF -- "$1" "$WORK/out" || fail "no '$1' in: $(cat "$WORK/out")"
}
refused "package libcurl4 " "$WORK/less.json"
refused "./usr/bin/millrace-csi: another sum" "$WORK/other.json"
