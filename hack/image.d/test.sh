# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The image of the tests' pods: busybox with a link for each of its programs, curl (busybox's wget, linked statically, crashes when it
# resolves names), nginx, and what a hostile pod tries, hostile. Sourced by hack/image.
# inputs: hack/lib.sh tests/fake/hostile.c lib/handoff/wire.h

image_test() # OUT.tar
{
    local root program
    apt_install busybox-static curl nginx-light binutils gcc libc6-dev
    root=$(mktemp -d)
    base_files "$root" millrace 65532
    copy_programs "$root" /bin/busybox /usr/bin/curl /usr/sbin/nginx
    gcc -std=gnu17 -D_GNU_SOURCE -O2 -static -I "$ROOT" -o "$root/usr/bin/hostile" "$ROOT/tests/fake/hostile.c"
    while read -r program; do
        [ -e "$root/usr/bin/$program" ] || ln -s busybox "$root/usr/bin/$program"
    done < <(/bin/busybox --list)
    image_pack localhost/millrace-test:1 "$root" "$1"
    rm -rf "$root"
}
