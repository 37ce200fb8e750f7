# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests that need a real mount. All of it lives in $WORK and goes away at exit.
#   fuse_source posix|s3          a dataset, empty: sets DATA (the directory behind it)
#   fuse_config NAME=JSON…        writes $CONFIG; members replace those of the default
#   fuse_mount [FLAG…]            serves it at $MNT; fuse_umount
#   fake_start [PREFIX]           the fake S3 server is the dataset; tell LINE: tells it what to do
#   served                        pid of the serving process
#   wait_for WHAT COMMAND…        a minute and a half: what takes longer is broken, however busy the machine is

WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-fuse.XXXXXX")
BUILD=${MILLRACE_BUILD:-$(dirname "$(readlink -f "$0")")/../../build/asan}
FUSE=$BUILD/bin/millrace-fuse
MNT=$WORK/mnt CACHE=$WORK/cache CONFIG=$WORK/config.json
# no ports that a connection may get while nobody listens there
HTTP=127.0.0.1:$((10000 + RANDOM % 10000))
METRICS=127.0.0.1:$((20000 + RANDOM % 10000))
SUPERVISOR='' KEEPER='' S3_PID=''
mkdir -p "$MNT"
unset MILLRACE_CONFIG
# Who is killed with -9 is not asked for what he has not given back; all others are, those that a signal tells to end, too.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=1" UBSAN_OPTIONS=print_stacktrace=1
trap 'fuse_cleanup' EXIT
trap 'exit 1' INT TERM

die()
{
    echo "FAILED: $*" >&2
    exit 1
}

fuse_cleanup()
{
    local status=$? pid
    trap - EXIT
    set +e
    for pid in $SUPERVISOR $KEEPER $S3_PID; do
        kill "$pid" 2>/dev/null
    done
    for pid in $SUPERVISOR $KEEPER $S3_PID; do
        timeout 10 tail --pid="$pid" -f /dev/null || kill -9 "$pid" 2>/dev/null
    done
    if grep -qE '(ERROR|WARNING): (Address|Leak|Thread)Sanitizer|runtime error:' "$WORK"/*.log 2>/dev/null; then
        echo "a sanitizer found something" >&2
        status=1
    fi
    [ "$status" = 0 ] || [ "$status" = 77 ] || tail -n 60 "$WORK"/*.log | cut -c 1-400 >&2
    # Nobody serves it any more, so nothing can hang.
    while grep -q " $WORK/" /proc/self/mountinfo && umount -fl "$(grep -m 1 " $WORK/" /proc/self/mountinfo | cut -d ' ' -f 5)"; do :; done
    rm -rf --one-file-system "$WORK"
    exit "$status"
}

wait_for()
{
    local end=$((SECONDS + 90)) what=$1
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || die "in vain: $what"
        sleep 0.05
    done
}

s3_start() # versitygw on a port of its own
{
    local bin=${VERSITYGW:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace/bin/versitygw}
    if [ ! -x "$bin" ]; then
        echo "SKIP: no versitygw; hack/setup versitygw builds it"
        exit 77
    fi
    S3_PORT=${S3_PORT:-$((20000 + RANDOM % 10000))}
    "$bin" --access testaccess --secret testsecret123 --port "127.0.0.1:$S3_PORT" --keep-alive --quiet posix "$WORK/s3" \
        >>"$WORK/versitygw.out" 2>&1 &
    S3_PID=$!
    wait_for "the S3 server" bash -c ": </dev/tcp/127.0.0.1/$S3_PORT" 2>/dev/null
}

# The server that misbehaves on purpose (tests/fake/fake_s3.h); the dataset is what is below the prefix, "" for all of it.
fake_start() # [PREFIX]
{
    local endpoint
    [ -z "$S3_PID" ] || { kill "$S3_PID"; wait "$S3_PID" || true; } 2>/dev/null # versitygw would outlive us
    mkfifo "$WORK/s3.in" "$WORK/s3.answers"
    "$BUILD/bin/fake-s3" <"$WORK/s3.in" >"$WORK/s3.answers" 2>"$WORK/s3.log" &
    S3_PID=$!
    exec 3>"$WORK/s3.in" 4<"$WORK/s3.answers"
    read -r endpoint <&4
    MOUNT_JSON="{\"mountPoint\":\"s3://data${1:+/$1}\",\"options\":{\"endpoint\":\"$endpoint\",\"path-style\":\"true\"}}"
    fuse_config
}

tell() # LINE: the fake server does it; prints its answer
{
    local answer
    echo "$*" >&3
    read -r answer <&4
    echo "$answer"
}

fuse_source()
{
    case $1 in
    posix)
        DATA=$WORK/data
        MOUNT_JSON="{\"mountPoint\":\"file://$DATA\"}"
        ;;
    s3)
        DATA=$WORK/s3/bucket/prefix
        mkdir -p "$WORK/s3/bucket"
        [ -n "$S3_PID" ] || s3_start
        mkdir -p "$WORK/secrets/0"
        printf testaccess >"$WORK/secrets/0/id"
        printf testsecret123 >"$WORK/secrets/0/key"
        MOUNT_JSON="{\"mountPoint\":\"s3://bucket/prefix\",\"options\":{\"endpoint\":\"http://127.0.0.1:$S3_PORT\",
            \"region\":\"us-east-1\",\"path-style\":\"true\"},\"secrets\":{\"access-key-id\":\"0/id\",\"secret-access-key\":\"0/key\"}}"
        ;;
    esac
    mkdir -p "$DATA"
    # shellcheck disable=SC2119
    fuse_config
}

# shellcheck disable=SC2120
fuse_config()
{
    jq -n --argjson mount "$MOUNT_JSON" \
        '{mounts: [$mount], cache: {tiers: [{medium: "SSD", quota: 2000000000}]}} + ([$ARGS.positional[] | capture("(?<key>[^=]*)=(?<value>.*)")
        | .value |= fromjson] | from_entries)
        | if has("immutable") then .mounts[0].immutable = .immutable | del(.immutable) else . end' --args "$@" >"$CONFIG"
}
# The word for a mount of which the client says that it is sealed, or open.
immutable_of() { [ "$1" = sealed ] && echo true || echo false; }

is_served() { [ "$(curl -sf "http://$HTTP/status" | jq .serving)" = true ]; }

# shellcheck disable=SC2120
fuse_mount()
{
    "$FUSE" --mountpoint "$MNT" --cache-dir "$CACHE" --config "$CONFIG" --http "$HTTP" --metrics "$METRICS" --secrets-dir "$WORK/secrets" "$@" \
        >>"$WORK/fuse.log" 2>&1 &
    SUPERVISOR=$!
    wait_for "the mount" is_served
}

served() { cat "/proc/$SUPERVISOR/task/$SUPERVISOR/children" 2>/dev/null | tr -d ' '; }

unmount_dead() # all of its servers were killed: who watches for that may have unmounted it already
{
    umount -l "$MNT" 2>/dev/null || [ -z "$(grep -F " $MNT " /proc/self/mountinfo)" ] || die "the mount stays"
}

fuse_umount()
{
    umount "$MNT" || die "the mount is busy"
    wait "$SUPERVISOR" || die "millrace-fuse ended with $?"
    SUPERVISOR=''
}
