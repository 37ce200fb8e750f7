# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The trainer image: Debian's Python 3.11, TensorFlow for CPUs, and the script of examples/mnist. Sourced by hack/image.
# inputs: hack/image.d/trainer.txt examples/mnist/train.py
# Rebuilt only when one of its sources changes; Python's packages are kept in the cache between builds.

TRAINER_DEBS=(python3.11 python3-distutils python3-lib2to3 libstdc++6 busybox-static tar gzip python3-pkg-resources python3-cryptography)

# TensorFlow installed into a directory, without what training never opens, its byte code compiled.
trainer_site() # DIRECTORY
{
    rm -rf "$1"
    python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --no-compile --target "$1" \
        --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform any \
        --python-version 3.11 --implementation cp --only-binary :all: -r "$ROOT/hack/image.d/trainer.txt"
    rm -rf "${1:?}"/tensorflow/include "${1:?}"/bin
    find "$1" -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} +
    find "$1" -name '*.so*' -type f -not -path '*/numpy*' -exec strip --strip-unneeded {} + 2>/dev/null || true
    /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash "$1"
}

# trainer_root ROOT PKG…: Python and TensorFlow, and these Debian packages
trainer_root()
{
    local root=$1
    shift
    "$ROOT/hack/setup" tensorflow
    debian_rootfs "$root" "${TRAINER_DEBS[@]}" "$@"
    rm -rf "$root"/usr/share/{doc,man,locale,lintian,i18n} "$root"/usr/lib/x86_64-linux-gnu/gconv
    ln -sf python3.11 "$root/usr/bin/python3"
    mkdir -p "$root"/usr/local/{bin,lib/python3.11} "$root"/{app,tmp,proc,sys,dev,etc}
    chmod 1777 "$root/tmp"
    cp -a --reflink=auto "$CACHE/trainer/site" "$root/usr/local/lib/python3.11/dist-packages"
    printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
    ln -sf busybox "$root/bin/sh"
}

# Compiled once here, or else every process compiles it in memory; hash-based, since the image has no useful times.
trainer_compile() # ROOT
{
    chroot "$1" /usr/bin/python3 -m compileall -q --invalidation-mode unchecked-hash \
        /usr/lib/python3.11 /usr/local/lib/python3.11
}

image_trainer() # OUT.tar
{
    local root
    root=$(mktemp -d)
    trainer_root "$root"
    cp "$ROOT/examples/mnist/train.py" "$root/app/"
    printf '#!/usr/bin/python3\nfrom tensorboard.main import run_main\nrun_main()\n' >"$root/usr/local/bin/tensorboard"
    chmod 755 "$root/usr/local/bin/tensorboard"
    trainer_compile "$root"
    image_pack localhost/millrace-trainer:1 "$root" "$1"
    rm -rf "$root"
}
