# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# build.sh — the programs of one architecture, built against its sysroot, and tried: as they are, or under qemu. Sourced by
# hack/release, which sets SYSROOT.

# What the unit tests of another architecture leave out: those that start programs, which this machine's kernel does not know; those
# of what qemu does not know (openat2, the mounts of a process); and those that take minutes under it.
UNIT_NOT_EMULATED='operator|tfjob_kill|csi_(client_proc|hostile|mountinfo|handoff)|store|store_conformance|peers|worker|fuse_.*'
UNIT_NOT_EMULATED+='|cache|cache_(pin|restart|room|stress)'

build_path() # ARCH
{
    echo "$ROOT/build/release-$1"
}

build_emulated() # ARCH: does this machine run it under qemu only?
{
    [ "$1" != "$(dpkg --print-architecture)" ]
}

qemu_of() # ARCH
{
    local triplet
    triplet=$(triplet_of "$1")
    echo "qemu-${triplet%%-*}-static"
}

configure() # ARCH BUILD PRESET OPTION…
{
    local arch=$1 build=$2 preset=$3 emulator=
    shift 3
    ! build_emulated "$arch" || emulator=$(qemu_of "$arch")
    cmake -S "$ROOT" -B "$build" --preset "$preset" "-DCMAKE_TOOLCHAIN_FILE=$ROOT/hack/release.d/toolchain.cmake" \
        "-DMILLRACE_TRIPLET=$(triplet_of "$arch")" "-DMILLRACE_SYSROOT=$SYSROOT" "-DMILLRACE_EMULATOR=$emulator" "$@"
}

# A base directory in this machine's ccache would make the names of sources relative, and with them what they are compiled to.
build_programs() # ARCH
{
    local -x CCACHE_BASEDIR=
    configure "$1" "$(build_path "$1")" release "-DMILLRACE_ROOMS=lib;operator;csi;fuse"
    cmake --build "$(build_path "$1")"
}

run_of() # ARCH COMMAND…: a program of that architecture
{
    local arch=$1
    shift
    if build_emulated "$arch"; then "$(qemu_of "$arch")" -L "$SYSROOT" "$@"; else "$@"; fi
}

build_try() # ARCH: every program says its version and its help
{
    local program version expected
    expected=$(project_version)
    while read -r program; do
        version=$(run_of "$1" "$program" --version)
        [ "$version" = "$(basename "$program") $expected" ] || { echo "$program --version says '$version'"; return 1; }
        run_of "$1" "$program" --help | grep . >/dev/null || { echo "$program --help says nothing"; return 1; }
        echo "$version ($1)"
    done < <(find "$(build_path "$1")/bin" -name 'millrace*' -type f ! -name '*.map' | sort)
}

build_unit() # ARCH
{
    local build=$ROOT/build/unit-$1 without=()
    configure "$1" "$build" debug
    cmake --build "$build"
    ! build_emulated "$1" || without=(-E "^unit/($UNIT_NOT_EMULATED)\$")
    ctest --test-dir "$build" -L '^unit$' "${without[@]}" --output-on-failure --timeout 300 -j "$(nproc)"
}
