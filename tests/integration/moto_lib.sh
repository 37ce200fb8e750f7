# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests that need moto, an S3 server that knows roles: moto_roles.py says what is there.
#   moto_start [many] ADDRESS…   at a free port of 127.0.0.1 (MOTO_ENDPOINT), and at the addresses. Exit status 77 (SKIP) where there is none.
#   moto_end
# Its log is $WORK/moto.log: $WORK is the caller's.

MOTO_PID=

moto_end()
{
    if [ -n "$MOTO_PID" ]; then
        kill "$MOTO_PID" 2>/dev/null || true
        wait "$MOTO_PID" 2>/dev/null || true
        MOTO_PID=
    fi
}

moto_start()
{
    local python=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/moto/bin/python port
    if [ ! -x "$python" ]; then
        echo "SKIP: no moto; hack/setup moto installs it"
        exit 77
    fi
    for _ in 1 2 3 4 5; do
        port=$((30000 + RANDOM % 2000))
        "$python" "$(dirname "${BASH_SOURCE[0]}")/moto_roles.py" "$@" "127.0.0.1:$port" >"$WORK/moto.log" 2>&1 &
        MOTO_PID=$!
        for _ in $(seq 600); do
            kill -0 "$MOTO_PID" 2>/dev/null || continue 2
            if grep -qsx ready "$WORK/moto.log"; then
                export MOTO_ENDPOINT=http://127.0.0.1:$port
                return 0
            fi
            sleep 0.05
        done
        moto_end
    done
    echo "moto does not start:" >&2
    tail -n 20 "$WORK/moto.log" >&2
    exit 1
}
