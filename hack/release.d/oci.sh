# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# oci.sh — an OCI image layout, as a tar archive, of one docker archive for each architecture: a registry's client pushes it in one
# go, and a node pulls the part of its architecture. Same archives, same bytes. Sourced by hack/release.

oci_blob() # LAYOUT FILE MEDIA-TYPE [MORE]: moves the file among the blobs, and prints its descriptor
{
    local digest size
    digest=$(sha256sum "$2" | cut -d ' ' -f 1)
    size=$(stat -c %s "$2")
    mv "$2" "$1/blobs/sha256/$digest"
    printf '{"mediaType":"%s","digest":"sha256:%s","size":%d%s}' "$3" "$digest" "$size" "${4:-}"
}

oci_manifest() # LAYOUT ARCHIVE ARCH: prints the manifest's descriptor
{
    local layout=$1 work=$1/work config layer type=application/vnd.oci.image
    mkdir -p "$work"
    tar -C "$work" -xf "$2"
    config=$(oci_blob "$layout" "$work"/[0-9a-f]*.json "$type.config.v1+json")
    gzip -n9 "$work/layer.tar"
    layer=$(oci_blob "$layout" "$work/layer.tar.gz" "$type.layer.v1.tar+gzip")
    printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":%s,"layers":[%s]}' "$type" "$config" "$layer" >"$work/m"
    oci_blob "$layout" "$work/m" "$type.manifest.v1+json" ",\"platform\":{\"architecture\":\"$3\",\"os\":\"linux\"}"
    rm -rf "$work"
}

oci_pack() # NAME:TAG OUT.tar ARCH=ARCHIVE…
{
    local ref=$1 out=$2 layout manifests='' item index names type=application/vnd.oci.image.index.v1+json
    shift 2
    layout=$(mktemp -d)
    mkdir -p "$layout/blobs/sha256"
    for item in "$@"; do manifests+=,$(oci_manifest "$layout" "${item#*=}" "${item%%=*}"); done
    printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' "$type" "${manifests#,}" >"$layout/index"
    names=$(printf ',"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}' "$ref" "${ref##*:}")
    index=$(oci_blob "$layout" "$layout/index" "$type" "$names")
    printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' "$type" "$index" >"$layout/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    tar_same "$layout" "$out" .
    rm -rf "$layout"
}
