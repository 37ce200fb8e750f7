# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# cli.sh — the command line for machines outside of the cluster: `millrace`, which is `kubectl millrace`, too, and the client that
# `millrace mount` starts. As an archive that brings its libraries (all but glibc's) and runs where it is unpacked, and as a Debian
# package, which depends on Debian's. Sourced by hack/release.

CLI_PROGRAMS=(millrace millrace-fuse)

cli_share() # TREE SHARE: what the image's tree has beside programs
{
    mkdir -p "$2"
    cp -a "$1"/usr/share/{man,bash-completion,zsh,fish} "$2"
}

cli_archive() # TREE NAME OUT.tar.gz
{
    local tree=$1 name=$2 work dir path paths
    work=$(mktemp -d)
    dir=$work/$name
    mkdir -p "$dir/bin" "$dir/lib/millrace"
    cp "${CLI_PROGRAMS[@]/#/$tree/usr/bin/}" "$dir/bin"
    ln -s millrace "$dir/bin/kubectl-millrace"
    cli_share "$tree" "$dir/share"
    cp "$ROOT/LICENSE" "$dir"
    mapfile -t paths < <(libraries "${CLI_PROGRAMS[@]/#/$tree/usr/bin/}" | grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|anl))\.so\.[0-9]+$')
    for path in "${paths[@]}"; do cp -L "$SYSROOT$path" "$dir/lib/millrace"; done
    note_owners "$work/noted" "${paths[@]}"
    mv "$work/noted/usr/share/doc" "$dir/share/doc"
    # DT_RPATH, not DT_RUNPATH: it counts for what the libraries need, too
    patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/millrace" "${CLI_PROGRAMS[@]/#/$dir/bin/}"
    cat >"$dir/README" <<'TEXT'
Millrace's command line. It runs where it is unpacked, on Linux with glibc 2.36 or later (Debian 12, Ubuntu 24.04, Fedora 37, RHEL 10).

    export PATH=$PWD/bin:$PATH MANPATH=$PWD/share/man:
    millrace --help            # `kubectl millrace` is the same program: kubectl finds bin/kubectl-millrace on the PATH
    millrace mount s3://bucket/prefix /mnt/data      # needs fusermount3 (package fuse3), or root

Millrace's licence is in LICENSE, those of the libraries in lib/millrace are in share/doc. Where certificates are elsewhere than in
/etc/ssl/certs/ca-certificates.crt, give --option ca-cert=… .
TEXT
    tar_same "$work" "$work/out.tar" "$name"
    gzip -n9 <"$work/out.tar" >"$3"
    rm -rf "$work"
}

# The packages of the libraries that the programs themselves ask for, of at least the version that they were built against, but for
# what comes after its second point: a patch level, which brings no function.
cli_depends()
{
    local name path version package list=''
    for name in $(needed "$@"); do
        case $name in
        /* | ld-linux*) continue ;;
        esac
        path=$(library_path "$name")
        package=$(owners "$path" "$(readlink -f "$SYSROOT$path" | sed "s|^$SYSROOT/|/|")" | awk '{ print $2; exit }')
        [ -n "$package" ] || { echo "$path belongs to no Debian package" >&2; return 1; }
        version=$(dpkg-query --admindir="$SYSROOT/var/lib/dpkg" -W -f '${Version}' "$package")
        list+="$package (>= $(sed 's/^\([0-9]*\.[0-9]*\).*/\1/' <<<"${version#*:}"))"$'\n'
    done
    printf '%s' "$list" | sort -u | paste -sd , | sed 's/,/, /g'
}

cli_deb() # TREE VERSION ARCH OUT.deb
{
    local tree=$1 work size depends
    work=$(mktemp -d)
    mkdir -p "$work/usr/bin" "$work/usr/share/doc/millrace-cli" "$work/DEBIAN"
    cp "${CLI_PROGRAMS[@]/#/$tree/usr/bin/}" "$work/usr/bin"
    ln -s millrace "$work/usr/bin/kubectl-millrace"
    cli_share "$tree" "$work/usr/share"
    find "$work/usr/share/man" -type f -exec gzip -n9 {} +
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\n'
        printf 'Copyright: the contributors of Millrace\nLicense: Apache-2.0\n On Debian, the text is in /usr/share/common-licenses/Apache-2.0.\n'
    } >"$work/usr/share/doc/millrace-cli/copyright"
    size=$(du -ks --apparent-size "$work/usr" | cut -f 1)
    depends=$(cli_depends "${CLI_PROGRAMS[@]/#/$tree/usr/bin/}")
    cat >"$work/DEBIAN/control" <<TEXT
Package: millrace-cli
Version: $2
Architecture: $3
Maintainer: Millrace <millrace@localhost>
Installed-Size: $size
Depends: ca-certificates, $depends
Recommends: fuse3
Section: utils
Priority: optional
Description: command line of Millrace, data of S3 for training pods
 millrace lists, copies, mounts and checks stores, and is kubectl's plugin
 "kubectl millrace", which says how a Dataset is and what a pod waits for.
TEXT
    find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    chmod -R u=rwX,go=rX "$work"
    dpkg-deb --root-owner-group -Zxz --build "$work" "$4" >/dev/null
    rm -rf "$work"
}

cli_try() # ARCH ARCHIVE DEB: both unpacked, and run; the archive's program with its own libraries
{
    local work version
    work=$(mktemp -d)
    tar -xzf "$2" -C "$work"
    version=$(run_of "$1" "$work"/*/bin/kubectl-millrace --version)
    [ "$version" = "millrace $VERSION" ] || { echo "$2: kubectl-millrace --version says '$version'"; return 1; }
    dpkg-deb -x "$3" "$work/deb"
    version=$(run_of "$1" "$work/deb/usr/bin/millrace" --version)
    [ "$version" = "millrace $VERSION" ] || { echo "$3: millrace --version says '$version'"; return 1; }
    rm -rf "$work"
}
