# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2153 # ROOT is of lib.sh
# The image of this project: its five programs, the libraries they need, and certificate authorities. No shell, no package
# manager. Everything but the node plugin runs as user 65532. Sourced by hack/image.

MILLRACE_UID=65532

image_millrace() # OUT.tar
{
    local root version programs
    cmake -S "$ROOT" --preset release
    cmake --build "$ROOT/build/release"
    root=$(mktemp -d)
    base_files "$root" millrace "$MILLRACE_UID"
    DESTDIR=$root cmake --install "$ROOT/build/release" --strip --prefix /usr
    rm -rf "$root/usr/include" "$root/usr/lib/cmake" "$root/usr/lib/pkgconfig"
    mapfile -t programs < <(find "$root/usr/bin" -name 'millrace*' -type f | sort)
    [ ${#programs[@]} -gt 0 ] || { echo "nothing was installed in /usr/bin"; return 1; }
    copy_libraries "$root" "${programs[@]}"
    certificates "$root"
    version=$(sed -n 's/^project(millrace VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
    image_pack "localhost/millrace:$version" "$root" "$1" "$MILLRACE_UID:$MILLRACE_UID"
    rm -rf "$root"
}
