# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# lib.sh — what the scripts in hack/ share. To be sourced; it defines functions and the variables ROOT, CACHE and LOG_DIR.
#   log, die                 one line to stderr, with the time
#   run_step NAME CMD…       runs CMD quietly: output in $LOG_DIR/NAME.log, a line now and then, the log's tail on failure
#   with_lock NAME CMD…      one caller at a time on this machine (for downloads and builds in the shared cache)
#   once STAMP KEY CMD…      runs CMD unless STAMP already says KEY
#   hash_of PATH…            one digest over files and directories
#   apt_install PKG…         installs what is missing, without starting services
#   go_command               prints the path of a Go that is new enough; fetches one if need be
#   project_version          prints the version of CMakeLists.txt, which is the one of everything
#   triplet_of ARCH          prints Debian's name of an architecture as compilers and library directories have it
#   tar_same DIR OUT NAME…   a tar archive that is the same for the same files
#   image_pack …             a docker archive from a directory

shopt -s inherit_errexit # a failure within $(…) counts

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/millrace # everything downloaded or built from other people's source
LOG_DIR=${LOG_DIR:-$ROOT/build/logs}
export PATH="$CACHE/bin:$PATH"

# The Go that builds the tools when the machine has none, as a module of the Go module proxy, with its checksum.
GO_MINIMUM=1.26
GO_TOOLCHAIN=go1.26.8
declare -A GO_TOOLCHAIN_SUM=(
    [x86_64]=h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=
    [aarch64]=h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc=
)

log()
{
    printf '%(%H:%M:%S)T %s\n' -1 "$*" >&2
}

die()
{
    log "error: $*"
    exit 1
}

need_root()
{
    [ "$(id -u)" = 0 ] || die "$1 needs root: run it with sudo -E"
}

# nap SECONDS: like sleep, but no child process that outlives a killed caller and holds its output open
nap()
{
    local pipe
    exec {pipe}<> <(:)
    read -rt "$1" -u "$pipe" || true
    exec {pipe}>&-
}

progress() # NAME LOG: a line every 20 s, until killed
{
    local began=$SECONDS
    while true; do
        nap 20
        log "  $1: $((SECONDS - began)) s; $(tail -n 1 "$2" | tr -d '\r' | cut -c 1-100)"
    done
}

# The command runs in a process group of its own, so that nothing of it is left when this script is interrupted.
run_step()
{
    local name=$1 file=$LOG_DIR/${1//[^a-zA-Z0-9._-]/-}.log began=$SECONDS status=0 job ticker traps
    shift
    mkdir -p "$LOG_DIR"
    log "$name"
    : >"$file"
    progress "$name" "$file" &
    ticker=$!
    set -m
    "$@" </dev/null >"$file" 2>&1 &
    job=$!
    set +m
    traps=$(trap -p INT TERM)
    # shellcheck disable=SC2064 # these two processes, not later ones
    trap "kill $ticker; kill -- -$job; exit 130" INT TERM
    wait "$job" || status=$?
    trap - INT TERM
    eval "$traps"
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    if [ "$status" != 0 ]; then
        tail -n 30 "$file" | sed 's/^/    /' >&2
        log "$name: failed with status $status after $((SECONDS - began)) s; all of it: $file"
        return "$status"
    fi
    [ $((SECONDS - began)) -lt 3 ] || log "$name: done in $((SECONDS - began)) s"
}

# The lock is not inherited by what the command leaves running: commands that start daemons close descriptors themselves.
with_lock()
{
    local name=$1 fd status=0
    shift
    mkdir -p "$CACHE/locks"
    exec {fd}>"$CACHE/locks/$name.lock"
    if ! flock -n "$fd"; then
        log "waiting for another run of $name"
        flock "$fd"
    fi
    "$@"
    status=$?
    exec {fd}>&-
    return "$status"
}

once()
{
    local stamp=$1 key=$2
    shift 2
    if [ -e "$stamp" ] && [ "$(<"$stamp")" = "$key" ]; then return 0; fi
    "$@"
    mkdir -p "$(dirname "$stamp")"
    printf '%s\n' "$key" >"$stamp.new"
    mv "$stamp.new" "$stamp"
}

hash_of()
{
    find "$@" -type f -print0 | sort -z | xargs -0 sha256sum | sed "s|$ROOT/||" | sha256sum | cut -d ' ' -f 1
}

project_version()
{
    sed -n 's/^project(millrace VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt"
}

triplet_of() # ARCH
{
    case $1 in
    amd64) echo x86_64-linux-gnu ;;
    arm64) echo aarch64-linux-gnu ;;
    *) die "architecture $1 is not known: amd64 or arm64" ;;
    esac
}

# --- Debian packages -----------------------------------------------------------------------------------------------

apt_missing() # PKG…: those not installed, one a line
{
    local have
    have=$({ dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true; } | # complains of unknown ones
        sed -n 's/^installed //p')
    comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$have")
}

as_root()
{
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -E "$@"; fi
}

# Debian's packages start their services when they are installed; a policy that says no keeps the machine as it was.
apt_get_install()
{
    local policy=/usr/sbin/policy-rc.d status=0 ours=
    if [ ! -e "$policy" ]; then
        ours=1
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -y -q --no-install-recommends \
        install "$@" || status=$?
    [ -z "$ours" ] || as_root rm -f "$policy"
    return "$status"
}

apt_install()
{
    local missing
    command -v apt-get >/dev/null || die "this machine has no apt-get: hack/setup needs Debian 12"
    missing=$(apt_missing "$@")
    [ -n "$missing" ] || return 0
    mapfile -t missing <<<"$missing"
    with_lock apt run_step "packages (${#missing[@]})" apt_update_install "${missing[@]}"
}

apt_update_install()
{
    apt_get_install "$@" && return 0 # lists may be fresh already
    as_root apt-get -q update
    apt_get_install "$@"
}

# --- Go ------------------------------------------------------------------------------------------------------------

go_is_enough() # GO: is it at least GO_MINIMUM?
{
    local version
    version=$("$1" env GOVERSION 2>/dev/null) || return 1
    version=${version#go}
    [ "$(printf '%s\n' "$GO_MINIMUM" "${version%% *}" | sort -V | head -n 1)" = "$GO_MINIMUM" ]
}

# Debian's Go is old, but it can fetch a new one: the module golang.org/toolchain is a whole Go.
fetch_go()
{
    local machine arch answer dir sum
    machine=$(uname -m)
    case $machine in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
    *) die "no Go toolchain is known for $machine: install Go $GO_MINIMUM or later" ;;
    esac
    if ! command -v go >/dev/null; then
        apt_install golang-1.19-go
        PATH=$PATH:/usr/lib/go-1.19/bin
    fi
    answer=$(cd / && GOFLAGS='' GONOSUMDB=golang.org/toolchain GONOSUMCHECK=1 \
        go mod download -json "golang.org/toolchain@v0.0.1-$GO_TOOLCHAIN.linux-$arch")
    sum=$(sed -n 's/^\s*"Sum": "\(.*\)",\?$/\1/p' <<<"$answer")
    dir=$(sed -n 's/^\s*"Dir": "\(.*\)",\?$/\1/p' <<<"$answer")
    [ "$sum" = "${GO_TOOLCHAIN_SUM[$machine]}" ] || die "$GO_TOOLCHAIN: checksum '$sum' is not the known one"
    chmod -R u+w "$dir" # the module cache is read-only, and modules carry no execute bits
    find "$dir/bin" "$dir/pkg/tool" -type f -exec chmod +x {} +
    ln -sfn "$dir" "$CACHE/go"
    go_is_enough "$CACHE/go/bin/go" || die "$CACHE/go/bin/go does not run"
}

go_command()
{
    local go
    for go in "$(command -v go || true)" "$CACHE/go/bin/go"; do
        if [ -n "$go" ] && go_is_enough "$go"; then
            echo "$go"
            return 0
        fi
    done
    with_lock go run_step "Go $GO_TOOLCHAIN" fetch_go >&2 || return
    echo "$CACHE/go/bin/go"
}

go_install() # GO MODULE@VERSION NAME: the command NAME in $CACHE/bin
{
    local dir=$CACHE/bin/.new-$3
    mkdir -p "$dir"
    (cd / && GOBIN=$dir GOTOOLCHAIN=local CGO_ENABLED=0 "$1" install -v -trimpath -ldflags '-s -w' "$2")
    mv "$dir/$3" "$CACHE/bin/$3"
    rmdir "$dir"
}

# Times are the commit's, or 0; owners are root; the order is that of names.
tar_same() # DIRECTORY OUT.tar NAME…
{
    local dir=$1 out=$2
    shift 2
    tar -C "$dir" --format=gnu --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX -cf "$out" "$@"
}

# --- container images ------------------------------------------------------------------------------------------------

json_list() # STRING…
{
    local list=''
    [ $# = 0 ] || list=$(printf ',"%s"' "$@")
    echo "[${list#,}]"
}

# A docker archive with one layer made of a directory: `docker load`, `ctr images import` and `skopeo` read it. The same
# directory gives the same bytes. The layer is not compressed: a registry's client does that when it is pushed. TARGET_ARCH,
# SOURCE_DATE_EPOCH and IMAGE_LABELS (a JSON object) say what else the configuration says.
image_pack() # NAME:TAG DIRECTORY OUT.tar [USER [ENTRYPOINT…]]
{
    local name=$1 root=$2 out=$3 user=${4:-} work digest config path
    path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    shift $(($# < 4 ? $# : 4))
    work=$(mktemp -d)
    chmod 755 "$root" # mktemp's is its owner's only, and every user of the image goes through it
    tar -C "$root" --format=gnu --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" .
    digest=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
    config=$(printf '{"architecture":"%s","os":"linux",' "${TARGET_ARCH:-$(dpkg --print-architecture)}"
        printf '"created":"%s",' "$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)"
        printf '"config":{"Env":["PATH=%s"],"User":"%s","WorkingDir":"/",' "$path" "$user"
        printf '"Entrypoint":%s,"Labels":%s},' "$(json_list "$@")" "${IMAGE_LABELS:-null}"
        printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$digest")
    printf '%s' "$config" >"$work/config"
    config=$(sha256sum "$work/config" | cut -d ' ' -f 1)
    mv "$work/config" "$work/$config.json"
    printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$config" "$name" >"$work/manifest.json"
    mkdir -p "$(dirname "$out")"
    tar -C "$work" --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$out.new" \
        manifest.json "$config.json" layer.tar
    mv "$out.new" "$out"
    rm -rf "$work"
}
