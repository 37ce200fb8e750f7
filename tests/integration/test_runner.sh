#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How hack/test counts: what failed for want of the machine is run once more and named; what a sanitizer found is not.
# shellcheck disable=SC2016 # the programs' variables
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/integration/tap_lib.sh
. "$here/tap_lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

program() # NAME LINE…: a test of that name
{
    printf '%s\n' '#!/bin/bash' "n=\$(cat $work/$1.n 2>/dev/null || echo 0); echo \$((n + 1)) >$work/$1.n" "${@:2}" >"$work/$1"
    chmod +x "$work/$1"
}

program good 'exit 0'
program bad 'echo "FAIL: always"; exit 1'
program shaky '[ $n != 0 ] || { echo "FAIL: no answer within 60 s"; exit 1; }'
program race 'echo "WARNING: ThreadSanitizer: data race"; [ $n != 0 ]'
program tap 'echo 1..3; echo ok 1; [ $n = 0 ] && echo not ok 2 || echo ok 2; echo ok 3; [ $n != 0 ]'
program build 'exit $((n == 0))'
program endless 'trap "sleep 12; touch $work/cleaned_up; exit 1" EXIT' 'sleep 60'

cat >"$work/runner" <<'END'
. "$here/../../hack/lib.sh"
. "$here/../../hack/test.d/run.sh"
TEST_LOGS=$work/logs
start_run
GRACE=${grace:-$GRACE}
for name; do run_program "$name" "${limit:-20}" "$work" "$work/${name#*/}"; done
run_rest
run_again
rm -rf "$SCRATCH"
summary
END

sum() # STAGE/NAME…: runs them as hack/test would; prints the last line, with all else in $work/said
{
    rm -f "$work"/*.n
    bash -euo pipefail "$work/runner" "$@" 2>"$work/said"
}

times() # NAME
{
    cat "$work/$1.n"
}

export here work only_once=
is "what passes" "1 passed, 0 failed, 0 skipped" "$(sum unit/good)"
is "is run once" 1 "$(times good)"
is "what fails twice has failed" "0 passed, 1 failed, 0 skipped" "$(sum e2e/bad)"
is "and was run twice" 2 "$(times bad)"
is "what fails once" "2 passed, 0 failed, 0 skipped" "$(sum e2e/shaky unit/good)"
is "and was run twice" 2 "$(times shaky)"
has "is named" "unsteady: failed at first" "$(<"$work/said")"
has "with what it said" "FAIL: no answer within 60 s" "$(sed -n '/unsteady/,$p' "$work/said")"
is "cases count once" "3 passed, 0 failed, 0 skipped" "$(sum integration/tap)"
is "what a sanitizer found has failed" "0 passed, 1 failed, 0 skipped" "$(sum tsan/race)"
is "and is not run again" 1 "$(times race)"
is "nor is what needs no machine" "0 passed, 1 failed, 0 skipped" "$(sum golden/build)"
only_once=yes
is "with --once nothing is" "0 passed, 1 failed, 0 skipped" "$(sum e2e/shaky)"
only_once=
for n in 1 2 3 4 5 6 7; do cp "$work/shaky" "$work/shaky$n" && sed -i "s/shaky/shaky$n/g" "$work/shaky$n"; done
is "where many fail, it is not chance" "5 passed, 2 failed, 0 skipped" "$(sum e2e/shaky{1,2,3,4,5,6,7})"

export limit=1 grace=30
only_once=yes
is "what is over its time has failed" "0 passed, 1 failed, 0 skipped" "$(sum e2e/endless)"
is "and has cleaned up" yes "$([ -e "$work/cleaned_up" ] && echo yes)"

echo "1..$count"
exit "$failed"
