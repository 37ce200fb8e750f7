# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# An image with PyTorch and torchvision for CPUs, which are Debian's: what PyPI has for this processor wants CUDA. For tests. Sourced by hack/image.
# inputs: hack/lib.sh

TORCH_DEBS=(python3-torch python3-torchvision busybox-static)
TORCH_LIB=usr/lib/x86_64-linux-gnu

image_torch() # OUT.tar
{
    local root library
    root=$(mktemp -d)
    debian_rootfs "$root" "${TORCH_DEBS[@]}"
    rm -rf "$root"/usr/share/{doc,man,locale,lintian,icons,perl,proj,fonts,gtk-doc} "$root"/usr/lib/libtorch-test \
        "$root/$TORCH_LIB"/{gconv,perl,dri,mfx} "$root"/usr/lib/python3/dist-packages/{torch/test,sympy/*/tests}
    # Python 3.11 leaves the member 0 out when it goes through a flag: torchrun finds no Std for "0" then. PyTorch mended it in 2.0.
    sed -i 's/^\( *\)for s in Std:$/\1for s in Std.__members__.values():/' "$root/usr/lib/python3/dist-packages/torch/distributed/elastic/multiprocessing/api.py"
    ln -sf python3.11 "$root/usr/bin/python3"
    ln -sf busybox "$root/bin/sh"
    for library in blas/libblas.so.3 lapack/liblapack.so.3; do # links that Debian's alternatives make
        ln -s "$library" "$root/$TORCH_LIB/${library#*/}"
    done
    mkdir -p "$root"/{app,tmp,proc,sys,dev,etc}
    chmod 1777 "$root/tmp"
    printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
    chroot "$root" /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3/dist-packages /usr/lib/python3.11
    image_pack localhost/millrace-torch:1 "$root" "$1"
    rm -rf "$root"
}
