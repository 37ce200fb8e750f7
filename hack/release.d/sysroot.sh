# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# sysroot.sh — what a program of another architecture is built against and runs with: Debian's packages of the newest version
# that this machine's mirror has, unpacked into a directory with a package database of its own. The machine's own packages and
# its dpkg stay as they are. Used for the machine's own architecture, too, so that all of them are built alike. Sourced.
#   sysroot_path ARCH       prints the directory
#   sysroot_make ARCH       makes it, or brings it up to date

SYSROOT_PACKAGES=(libc6-dev libcurl4-openssl-dev libjansson-dev libfuse3-dev libssl-dev libexpat1-dev libkrb5-dev libyaml-dev zlib1g-dev
    libcmocka-dev libgrpc-dev libprotobuf-dev libprotobuf-c-dev ca-certificates)

sysroot_path()
{
    echo "$CACHE/sysroot/$1"
}

sysroot_apt() # ARCH ARGUMENT…: apt-get for a machine of that architecture on which nothing is installed
{
    local arch=$1 base=$CACHE/sysroot/apt-$1
    shift
    mkdir -p "$base/state/lists/partial" "$base/cache/archives/partial"
    : >"$base/status"
    apt-get -qq -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$base/state" \
        -o "Dir::State::status=$base/status" -o "Dir::Cache=$base/cache" -o APT::Install-Recommends=0 \
        -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Acquire::Languages=none "$@"
}

# dpkg-query then answers for the directory as for a machine: --admindir=DIRECTORY/var/lib/dpkg
sysroot_register() # DIRECTORY DEB
{
    local package
    package=$(dpkg-deb -f "$2" Package)
    {
        echo "Package: $package"
        echo "Status: install ok installed"
        dpkg-deb -f "$2" | sed '/^Package:/d'
        echo
    } >>"$1/var/lib/dpkg/status"
    dpkg-deb --fsys-tarfile "$2" | tar -t | sed 's|^\.||; s|^/$|/.|; s|\(.\)/$|\1|' >"$1/var/lib/dpkg/info/$package.list"
}

sysroot_unpack() # ARCH DIRECTORY DEB…
{
    local arch=$1 root=$2 dir deb
    shift 2
    rm -rf "$root.new"
    for dir in bin sbin lib lib64; do # merged /usr, as Debian has it
        mkdir -p "$root.new/usr/$dir"
        ln -s "usr/$dir" "$root.new/$dir"
    done
    mkdir -p "$root.new/var/lib/dpkg/info"
    echo "$arch" >"$root.new/var/lib/dpkg/arch"
    for deb in "$@"; do
        dpkg-deb -x "$CACHE/sysroot/apt-$arch/cache/archives/$deb" "$root.new"
        sysroot_register "$root.new" "$CACHE/sysroot/apt-$arch/cache/archives/$deb"
    done
    find "$root.new" -type l -lname '/*' -printf '%p %l\n' | while read -r dir deb; do # or they lead into this machine's files
        ln -sfnr "$root.new$deb" "$dir"
    done
    rm -rf "$root"
    mv "$root.new" "$root"
}

sysroot_make() # ARCH
{
    local arch=$1 root key debs=()
    root=$(sysroot_path "$arch")
    sysroot_apt "$arch" update || log "the package lists of $arch cannot be brought up to date; going on with those of before"
    sysroot_apt "$arch" --download-only -y install "${SYSROOT_PACKAGES[@]}"
    mapfile -t debs < <(sysroot_apt "$arch" -o "Dir::Cache::archives=$CACHE/sysroot/none" --print-uris -y install \
        "${SYSROOT_PACKAGES[@]}" | sed -n "s/^'[^']*' \([^ ]*\) .*/\1/p" | sort)
    [ ${#debs[@]} -gt 0 ] || { echo "apt-get names no package for $arch: apt-get update"; return 1; }
    key=$(printf '%s\n' "${debs[@]}" "$(sha256sum <"$ROOT/hack/release.d/sysroot.sh")" | sha256sum | cut -d ' ' -f 1)
    once "$root.stamp" "$key" sysroot_unpack "$arch" "$root" "${debs[@]}"
}
