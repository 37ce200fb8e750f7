# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# elf.sh — root file systems made of programs and the libraries they need, taken from this machine's Debian packages.
# Sourced by hack/image.

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
    find /usr/share/ca-certificates/mozilla -name '*.crt' -print0 | sort -z | xargs -0 cat >"$1/etc/ssl/certs/ca-certificates.crt"
    note_package "$1" ca-certificates
}

# owners FILE…: lines of "FILE PACKAGE", for those that a package brought; packages name files before or after /usr was merged
owners()
{
    local path paths=()
    for path in "$@"; do paths+=("$path" "${path#/usr}" "/usr$path"); done
    dpkg-query -S "${paths[@]}" 2>/dev/null | sed -n 's/^\([^:, ]*\)[^ ]*: \(.*\)$/\2 \1/p' || true
}

# note_owners ROOT FILE…: note_package for the packages of the files; fails if one belongs to none
note_owners()
{
    local root=$1 known path real=() package
    shift
    mapfile -t real < <(readlink -f "$@")
    known=$(owners "$@" "${real[@]}")
    for path in "$@"; do
        package=$(awk -v a="$path" -v b="${path#/usr}" -v c="/usr$path" -v d="$(readlink -f "$path")" \
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
    dpkg-query -s "$package" | sed '/^Conffiles:/,/^[A-Z]/{/^Conffiles:/d;/^ /d}' >"$root/var/lib/dpkg/status.d/$package"
    cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
}

# libraries FILE…: the paths of all shared libraries that the programs load, and of their loader
libraries()
{
    local found
    found=$({ ldd "$@" 2>/dev/null || true; } | # which fails for a static one
        sed -n 's/.*=> \(.*\) (0x.*/\1/p; s/^\s*\(\/[^ ]*\) (0x.*/\1/p; s/^\s*\(.*\) => not found/missing \1/p')
    if grep '^missing' <<<"$found" >&2; then return 1; fi
    grep . <<<"$found" | sort -u || true
}

copy_files() # ROOT FILE…: to the same paths
{
    local root=$1 path
    shift
    for path in "$@"; do
        mkdir -p "$root$(dirname "$path")"
        cp -L "$path" "$root$path"
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
