# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Sourced by tests that run commands and look at what they say; TAP. The caller ends with `echo "1..$count"; exit "$failed"`.
count=0 failed=0

is() # NAME EXPECTED ACTUAL
{
    count=$((count + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        printf '# expected: %s\n# got: %s\n' "$2" "$3" | sed '2,$s/^[^#]/#   &/'
        failed=1
    fi
}

has() # NAME TEXT ACTUAL
{
    case $3 in
    *"$2"*) is "$1" "$2" "$2" ;;
    *) is "$1" "$2" "$3" ;;
    esac
}

run() # COMMAND…: sets out and status
{
    status=0
    out=$("$@" 2>&1) || status=$?
}
