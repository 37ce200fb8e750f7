# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests that need a real S3 server: versitygw on a free port of the loopback, with bucket "data".
#   s3_start [FLAG…]   sets S3_ENDPOINT, S3_ROOT; keys testaccess / testsecret123. Exit status 77 (SKIP) where there is no versitygw.
# The caller's own directory is $WORK; all of it goes away at exit, what is mounted at $WORK/mnt* too.

WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-s3.XXXXXX")
S3_PID=
trap 's3_cleanup' EXIT
unset AWS_CA_BUNDLE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_REGION \
    AWS_DEFAULT_REGION http_proxy HTTP_PROXY all_proxy ALL_PROXY

s3_cleanup()
{
    local status=$? dir
    for dir in "$WORK"/mnt*; do
        ! mountpoint -q "$dir" || umount -l "$dir"
    done
    if [ -n "$S3_PID" ]; then
        kill "$S3_PID" 2>/dev/null || true
        wait "$S3_PID" 2>/dev/null || true
    fi
    [ "$status" = 0 ] || [ ! -s "$WORK/versitygw.log" ] || tail -n 20 "$WORK/versitygw.log" >&2
    rm -rf "$WORK"
    exit "$status"
}

s3_start()
{
    local bin=${VERSITYGW:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace/bin/versitygw} try port
    if [ ! -x "$bin" ]; then
        echo "SKIP: no versitygw; hack/setup versitygw builds it"
        exit 77
    fi
    S3_ROOT=$WORK/s3
    mkdir -p "$S3_ROOT/data"
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM + try) % 10000))
        "$bin" --access testaccess --secret testsecret123 --port "127.0.0.1:$port" --keep-alive --quiet "$@" posix "$S3_ROOT" \
            >"$WORK/versitygw.log" 2>&1 &
        S3_PID=$!
        for _ in $(seq 600); do
            kill -0 "$S3_PID" 2>/dev/null || continue 2
            if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
                export S3_ENDPOINT=http://127.0.0.1:$port S3_ROOT
                return 0
            fi
            sleep 0.05
        done
        kill "$S3_PID" 2>/dev/null || true
    done
    echo "versitygw does not start" >&2
    exit 1
}
