# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# self_test.sh — a check that cannot fail is none: in a copy of the checkout a breach of each rule is planted, and the rule
# must name it. Sourced by hack/check.

case_of() # RULE: plants in the copy, runs the rule there, and expects the planted place in its answer
{
    local rule=${1%%__*} answer expected
    git -C "$copy" reset -q --hard pristine
    git -C "$copy" clean -fdq
    count=$((count + 1))
    if ! expected=$(cd "$copy" && "plant_$1"); then
        answer="nothing was planted"
    elif answer=$("$copy/hack/check" "$rule" 2>&1); then
        answer="the rule holds: $answer"
    elif grep -qF -- "$expected" <<<"$answer" && grep -q '^not ok' <<<"$answer"; then
        echo "ok $count - $1 finds $expected"
        return 0
    fi
    broken=$((broken + 1))
    echo "not ok $count - $1 does not find '$expected'"
    head -n 10 <<<"$answer" | sed 's/^/#   /'
}

make_copy()
{
    mkdir "$copy"
    files . ':!tests/golden/*/*' | tar -cf - -T - | tar -xf - -C "$copy"
    git -C "$copy" init -q
    git -C "$copy" config user.name test
    git -C "$copy" config user.email test@localhost
    git -C "$copy" add -A
    git -C "$copy" commit -qm 'tree: begin'
    git -C "$copy" tag pristine
}

self_test()
{
    local work copy rule
    # shellcheck source=hack/check.d/plants.sh
    . "$ROOT/hack/check.d/plants.sh"
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # this directory
    trap "rm -rf '$work'" EXIT
    copy=$work/copy
    make_copy
    for rule in $(
        sed -n 's/^ *\(source_\)\{0,1\}rule \([a-z_]*\) ".*/\2/p' "$ROOT/hack/check"
        declare -F | sed -n 's/^declare -f plant_\(.*__.*\)/\1/p'
    ); do case_of "$rule"; done
}
