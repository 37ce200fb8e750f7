# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of `millrace` share. Sourced by cli_*.sh, whose first argument is the directory with the programs; sets PATH, and skips
# where nothing can be mounted. WORK, a directory, is the script's own (s3_lib.sh makes one).

# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap_lib.sh"
PATH=$1:$PATH

if [ ! -e /dev/fuse ] || [ "$(id -u)" != 0 ]; then
    echo "SKIP: needs /dev/fuse and root"
    exit 77
fi

wait_for() # COMMAND…: until it succeeds; what it says last is in $WORK/wait.out
{
    local end=$((SECONDS + 90))
    until "$@" >"$WORK/wait.out" 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

says() # NAME STATUS TEXT COMMAND…: that status, and the text in what it says
{
    local name=$1 expected=$2 text=$3
    shift 3
    run "$@"
    is "$name: status" "$expected" "$status"
    has "$name" "$text" "$out"
}
