# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The file system: reads small files and large ones, warm, cold and from an empty cache, beside the same files read directly, a raw
# download from the same S3 server, and other FUSE file systems for object stores.
#   hack/bench fs [--quick] [--only REGEX] [--rounds N] [--peers LIST] [--list]
#     --quick        a tenth of the data, 3 rounds
#     --only REGEX   only rows whose name matches, for example small-warm or ^s3
#     --rounds N     interleaved rounds; the figures are medians (default 5). Rows that begin with an empty cache take at most 3
#     --peers LIST   which others, comma separated: s3fs,rclone,alluxio (default: those that can be had), or none.
#                    Alluxio is slow, and so read in one round, and 3000 of the small files only
#     --list         the rows and their goals
# Needs root, some 40 GB of disk (5 GB with --quick) and 8 GB of memory, and a machine that does nothing else.

# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
BENCH_DIR=$ROOT/tests/bench
# shellcheck source=tests/bench/fs_rows.sh
. "$BENCH_DIR/fs_rows.sh"
# shellcheck source=tests/bench/fs_mounts.sh
. "$BENCH_DIR/fs_mounts.sh"
# shellcheck source=tests/bench/fs_alluxio.sh
. "$BENCH_DIR/fs_alluxio.sh"

usage()
{
    sed -n '3,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

options()
{
    QUICK='' ONLY=. ROUNDS='' PEERS=auto
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) QUICK=1 ;;
        --only | --rounds | --peers)
            [ $# -gt 1 ] || die "$1 needs a value"
            case $1 in
            --only) ONLY=$2 ;;
            --rounds) ROUNDS=$2 ;;
            --peers) PEERS=$2 ;;
            esac
            shift
            ;;
        --list)
            printf '%s\n' "$GOALS"
            exit 0
            ;;
        --help | -h)
            usage
            exit 0
            ;;
        *) usage >&2 && die "unknown option $1" ;;
        esac
        shift
    done
    ROUNDS=${ROUNDS:-${QUICK:+3}}
    ROUNDS=${ROUNDS:-5}
    [[ $ROUNDS =~ ^[1-9][0-9]?$ ]] || die "--rounds is a number from 1 to 99"
    [ -n "$(rows_wanted)" ] || die "no row matches $ONLY; --list shows them"
}

# Everything below happens in mount and process namespaces of its own: whatever ends this script, no mount and no process is left.
isolated()
{
    [ -z "${MILLRACE_BENCH_INSIDE:-}" ] || return 0
    need_root "hack/bench fs"
    export MILLRACE_BENCH_INSIDE=1
    exec unshare --mount --pid --fork --kill-child --mount-proc --propagation private "$0" fs "$@"
}

check_machine()
{
    local need_gb=40 free_kb mem_kb
    [ -z "$QUICK" ] || need_gb=5
    mkdir -p "$BENCH_TMP"
    free_kb=$(df --output=avail -k "$BENCH_TMP" | tail -n 1)
    [ "$free_kb" -gt $((need_gb * 1000000)) ] ||
        die "$BENCH_TMP has $((free_kb / 1000000)) GB free, and this takes up to $need_gb GB: set TMPDIR to a directory with more, or use --quick"
    [ "$(stat -f -c %T "$BENCH_TMP")" != tmpfs ] || die "$BENCH_TMP is in memory: set TMPDIR to a directory on a disk"
    mem_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
    [ "$mem_kb" -gt $((8 << 20)) ] || die "only $((mem_kb >> 20)) GiB of memory are free: the files would not stay in the page cache (8 GiB do)"
    [ -c /dev/fuse ] || die "there is no /dev/fuse: modprobe fuse"
    [ -w /proc/sys/vm/drop_caches ] || die "the page cache cannot be dropped here (/proc/sys/vm/drop_caches): not in a container"
}

# What a virtual machine does to those who wait for each other a thousand times a second.
describe_machine()
{
    local halt=/sys/module/haltpoll/parameters/guest_halt_poll_ns
    log "Linux $(uname -r), $(nproc) processors"
    [ "$(cat "$halt" 2>/dev/null)" = 0 ] || return 0
    log "  $halt is 0, not Linux's default of 200000: an idle processor is halted at once,"
    log "  and each answer of a FUSE file system has to wake one; rows of one thread come out lower than elsewhere"
}

build_all()
{
    "$ROOT/hack/setup" build versitygw
    [ -e "$ROOT/build/release/build.ninja" ] || run_step "configure release" cmake --preset release -S "$ROOT"
    run_step "build release" cmake --build "$ROOT/build/release" --target millrace-fuse millrace fs_make fs_read fs_download
    BIN=$ROOT/build/release/bin
    CLI=$ROOT/build/release/bin/millrace
    PATH=$ROOT/build/release/bin:$PATH
}

cleanup()
{
    local status=$?
    trap '' EXIT INT TERM
    variants_stop
    [ -z "${S3_PID:-}" ] || kill "$S3_PID" 2>/dev/null || true
    cd /
    rm -rf --one-file-system "${WORK:-/nonexistent}"
    exit "$status"
}

# Left by one that was killed: nobody holds its lock.
remove_leftovers()
{
    local dir fd
    for dir in "$BENCH_TMP"/millrace-bench.*; do
        [ -d "$dir" ] || continue
        exec {fd}>>"$dir/lock"
        ! flock -n "$fd" || rm -rf --one-file-system "$dir"
        exec {fd}>&-
    done
}

start()
{
    remove_leftovers
    WORK=$(mktemp -d "$BENCH_TMP/millrace-bench.XXXXXX")
    exec 9>"$WORK/lock"
    flock -n 9
    trap cleanup EXIT
    trap 'exit 130' INT TERM
    ulimit -n "$(ulimit -Hn)"
    unset MILLRACE_CONFIG AWS_CA_BUNDLE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_REGION AWS_DEFAULT_REGION \
        http_proxy HTTP_PROXY all_proxy ALL_PROXY
    export AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123
}

bench_fs()
{
    options "$@"
    isolated "$@"
    BENCH_TMP=${TMPDIR:-/var/tmp}
    check_machine
    describe_machine
    build_all
    variants_find
    start
    make_data
    measure_all
    report "$ROOT/build/bench/fs.json"
}

bench_fs "$@"
