# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2153 # ROOT is of lib.sh
# An S3 server for tests and the demo: versitygw, which keeps buckets as directories and objects as files below the
# directory that it is given; and busybox, to make that directory. Sourced by hack/image.
# inputs: hack/lib.sh hack/setup

image_versitygw() # OUT.tar
{
    local root
    "$ROOT/hack/setup" versitygw
    apt_install busybox-static binutils
    root=$(mktemp -d)
    base_files "$root" s3 65532
    copy_programs "$root" /bin/busybox
    cp "$CACHE/bin/versitygw" "$root/usr/bin/"
    image_pack localhost/versitygw:1 "$root" "$1"
    rm -rf "$root"
}
