# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# debian_rootfs DIRECTORY PKG…: unpacks Debian packages and all they depend on, as apt resolves it on this machine's sources,
# into a directory: nothing is installed, no maintainer script runs. Packages are kept in the cache. Sourced by hack/image.

debian_rootfs()
{
    local root=$1 cache=$CACHE/debs dir deb
    shift
    mkdir -p "$cache/partial" "$root/usr"
    : >"$cache/no-status"
    for dir in bin sbin lib lib64; do # merged /usr, as Debian has it
        mkdir -p "$root/usr/$dir"
        ln -sfn "usr/$dir" "$root/$dir"
    done
    local options=(-qq -o "Dir::State::status=$cache/no-status" -o "Dir::Cache::archives=$cache" -o Debug::NoLocking=1
        -o APT::Install-Recommends=0 -o APT::Sandbox::User=root)
    apt-get "${options[@]}" --download-only -y install "$@" >&2
    while read -r deb; do
        dpkg-deb -x "$cache/$deb" "$root"
    done < <(apt-get "${options[@]}" --print-uris -y --reinstall -o "Dir::Cache::archives=$cache/none" install "$@" |
        sed -n "s/^'[^']*' \([^ ]*\) .*/\1/p")
}
