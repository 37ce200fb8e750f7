# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2153 # ROOT is of lib.sh
# The image of this project: its programs, the libraries they need, and certificate authorities. No shell, no package
# manager. Everything but the node plugin runs as user 65532. Sourced by hack/image.

MILLRACE_UID=65532

# static_packages ROOT PROGRAM…: notes the packages of the archives and objects that were linked into the programs, of which
# the linker has left PROGRAM.map; those of the compiler are this machine's
static_packages()
{
    local root=$1 path paths
    shift
    paths=$(awk '/^Archive member/{ members = 1 }
        /^(As-needed|Discarded|Merging|Memory Configuration)/{ members = 0 }
        members && /^\//{ sub(/\(.*/, ""); print }
        /^LOAD \/.*\.o$/{ print $2 }' "${@/%/.map}" | sort -u)
    for path in $paths; do
        case $path in
        "$SYSROOT"/?*) note_owners "$root" "${path#"$SYSROOT"}" ;;
        *) SYSROOT='' note_owners "$root" "$(readlink -f "$path")" ;;
        esac
    done
}

millrace_tree() # ROOT BUILD: the image's files, of programs that were built in a directory
{
    local root=$1 build=$2 programs
    base_files "$root" millrace "$MILLRACE_UID"
    DESTDIR=$root cmake --install "$build" --strip --prefix /usr
    rm -rf "$root/usr/include" "$root/usr/lib/cmake" "$root/usr/lib/pkgconfig"
    mapfile -t programs < <(find "$root/usr/bin" -name 'millrace*' -type f | sort)
    [ ${#programs[@]} -gt 0 ] || { echo "nothing was installed in /usr/bin"; return 1; }
    copy_libraries "$root" "${programs[@]}"
    if [ -e "$build/bin/millrace.map" ]; then
        static_packages "$root" "${programs[@]/#"$root/usr/bin"/"$build/bin"}"
    fi
    certificates "$root"
}

image_millrace() # OUT.tar
{
    local root
    "$ROOT/hack/setup" build
    cmake -S "$ROOT" --preset release
    cmake --build "$ROOT/build/release"
    root=$(mktemp -d)
    millrace_tree "$root" "$ROOT/build/release"
    image_pack "localhost/millrace:$(project_version)" "$root" "$1" "$MILLRACE_UID:$MILLRACE_UID"
    rm -rf "$root"
}
