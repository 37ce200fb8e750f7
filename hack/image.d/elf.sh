# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# elf.sh — root file systems made of programs and the libraries they need, taken from this machine's Debian packages, or from those
# unpacked in the directory SYSROOT, of the architecture TARGET_ARCH. Paths are given as the image has them. Sourced by hack/image
# and hack/release.

SYSROOT=${SYSROOT:-} TARGET_ARCH=${TARGET_ARCH:-}

merged_usr() # DIRECTORY: /bin, /lib … lead into /usr, as Debian has it
{
    local dir
    for dir in bin sbin lib lib64; do
        mkdir -p "$1/usr/$dir"
        ln -sfn "usr/$dir" "$1/$dir"
    done
}

# base_files ROOT [USER UID]: what any program expects to find
base_files()
{
    local root=$1
    merged_usr "$root"
    mkdir -p "$root"/{dev,etc,home,proc,root,run,sys,var}
    install -d -m 1777 "$root/tmp" "$root/var/tmp"
    ln -sfn /run "$root/var/run"
    printf 'root:x:0:0:root:/root:/usr/sbin/nologin\n' >"$root/etc/passwd"
    printf 'root:x:0:\n' >"$root/etc/group"
    printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
    [ $# -gt 1 ] || return 0
    printf '%s:x:%d:%d:%s:/tmp:/usr/sbin/nologin\n' "$2" "$3" "$3" "$2" >>"$root/etc/passwd"
    printf '%s:x:%d:\n' "$2" "$3" >>"$root/etc/group"
}

# certificates ROOT: the authorities of Debian's package, not those that this machine's administrator has added
certificates()
{
    mkdir -p "$1/etc/ssl/certs"
    find "$SYSROOT/usr/share/ca-certificates/mozilla" -name '*.crt' -print0 | sort -z | xargs -0 cat >"$1/etc/ssl/certs/ca-certificates.crt"
    note_package "$1" ca-certificates
}

# owners FILE…: lines of "FILE PACKAGE", for those that a package brought; packages name files before or after /usr was merged
owners()
{
    local path paths=()
    for path in "$@"; do paths+=("$path" "${path#/usr}" "/usr$path"); done
    dpkg-query --admindir="$SYSROOT/var/lib/dpkg" -S "${paths[@]}" 2>/dev/null | sed -n 's/^\([^:, ]*\)[^ ]*: \(.*\)$/\2 \1/p' || true
}

# note_owners ROOT FILE…: note_package for the packages of the files; fails if one belongs to none
note_owners()
{
    local root=$1 known path real=() package
    shift
    mapfile -t real < <(readlink -f "${@/#/$SYSROOT}" | sed "s|^$SYSROOT/|/|")
    known=$(owners "$@" "${real[@]}")
    for path in "$@"; do
        package=$(awk -v a="$path" -v b="${path#/usr}" -v c="/usr$path" -v d="$(readlink -f "$SYSROOT$path" | sed "s|^$SYSROOT/|/|")" \
            '$1 == a || $1 == b || $1 == c || $1 == d{ print $2; exit }' <<<"$known")
        [ -n "$package" ] || { echo "$path belongs to no Debian package"; return 1; }
        note_package "$root" "$package"
    done
}

# note_package ROOT PKG: its licence, and its name and version where scanners of images look for them
note_package()
{
    local root=$1 package=$2
    [ ! -e "$root/var/lib/dpkg/status.d/$package" ] || return 0
    mkdir -p "$root/var/lib/dpkg/status.d" "$root/usr/share/doc/$package"
    dpkg-query --admindir="$SYSROOT/var/lib/dpkg" -s "$package" | sed '/^Conffiles:/,/^[A-Z]/{/^Conffiles:/d;/^ /d}' >"$root/var/lib/dpkg/status.d/$package"
    cp -L "$SYSROOT/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
}

# needed FILE…: names of the libraries that the files ask for, and paths of the loaders that programs name
needed()
{
    readelf -dlW "$@" 2>/dev/null | sed -n 's/.*(NEEDED) .*\[\(.*\)\]$/\1/p; s/.*interpreter: \(.*\)\]$/\1/p' | sort -u
}

library_path() # NAME
{
    local arch=${TARGET_ARCH:-$(dpkg --print-architecture)} dir
    dir=$(triplet_of "$arch")
    for dir in "/lib/$dir" "/usr/lib/$dir" /lib /usr/lib; do
        if [ -e "$SYSROOT$dir/$1" ]; then
            echo "$dir/$1"
            return 0
        fi
    done
    echo "library $1 is not installed for $arch" >&2
    return 1
}

# libraries FILE…: the paths of all shared libraries that the programs load, and of their loader
libraries()
{
    local name path names next=("$@")
    local -A found=()
    while [ ${#next[@]} -gt 0 ]; do
        names=$(needed "${next[@]}")
        next=()
        for name in $names; do
            path=$name
            case $name in
            /*) ;;
            ld-linux*) continue ;; # the loader, which programs name by its path
            *) path=$(library_path "$name") ;;
            esac
            [ -z "${found[$path]:-}" ] || continue
            found[$path]=yes
            next+=("$SYSROOT$path")
        done
    done
    [ ${#found[@]} = 0 ] || printf '%s\n' "${!found[@]}" | sort
}

copy_files() # ROOT PATH…: to the same paths
{
    local root=$1 path
    shift
    for path in "$@"; do
        mkdir -p "$root$(dirname "$path")"
        cp -L "$SYSROOT$path" "$root$path"
    done
}

# copy_libraries ROOT FILE…: what these programs need, where they find it in ROOT
copy_libraries()
{
    local root=$1 found list
    shift
    found=$(libraries "$@")
    [ -n "$found" ] || return 0 # linked statically
    mapfile -t list <<<"$found"
    copy_files "$root" "${list[@]}"
    note_owners "$root" "${list[@]}"
}

# copy_programs ROOT FILE…: programs of this machine, with their libraries
copy_programs()
{
    copy_files "$@"
    note_owners "$@"
    copy_libraries "$@"
}
