#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: shells
# Manual pages and completion scripts that the CLI makes of its tables, in the programs that read them.
set -euo pipefail
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
millrace=${MILLRACE_BUILD:-$(dirname "$(readlink -f "$0")")/../../build/asan}/bin/millrace
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
verbs=$("$millrace" help | sed -n 's/^  \([a-z]*\) .*/\1/p')

"$millrace" help --man --to "$work"
is "a page of every verb, and one of all" "$({ echo millrace.1 && printf 'millrace-%s.1\n' $verbs; } | sort)" "$(cd "$work" && ls *.1 | sort)"
for page in "$work"/*.1; do
    is "groff has nothing to say of $(basename "$page")" "" "$(groff -man -Tutf8 -ww -z "$page" 2>&1)"
    is "man has nothing to say of it" "" "$(man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)"
done
for verb in $verbs; do
    is "help --man $verb prints its page" "$(<"$work/millrace-$verb.1")" "$("$millrace" help --man "$verb")"
done

for shell in bash zsh fish; do
    "$millrace" completion "$shell" >"$work/$shell"
done
complete_in_bash() # WORDS…: what bash offers for the last one
{
    # shellcheck disable=SC2016 # the other bash's
    bash --norc -c 'source "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && compopt() { :; } && _millrace && printf "%s\n" "${COMPREPLY[@]}"' - \
        "$work/bash" "$@"
}
is "bash: verbs" "$(sort <<<"$verbs")" "$(complete_in_bash millrace '' | sort)"
is "bash: a verb" "umount" "$(complete_in_bash millrace um)"
is "bash: flags" $'--cache-dir\n--cache-size\n--check' "$(complete_in_bash millrace mount --c | sort)"
is "bash: values of a flag" $'AsyncThrough\nCacheThrough\nThrough' "$(complete_in_bash millrace mount --write-type '' | sort)"
is "bash: after an equals sign" "Through" "$(complete_in_bash millrace mount --write-type = T)"
is "bash: words of a verb" "zsh" "$(complete_in_bash millrace completion z)"
mkdir "$work/tree" && : >"$work/tree/file"
mkdir "$work/tree/directory"
is "bash: paths" "$work/tree/file" "$(complete_in_bash millrace load "$work/tree/f")"
is "bash: directories" "$work/tree/directory" "$(complete_in_bash millrace mount --cache-dir "$work/tree/")"
is "zsh parses its script" "" "$(zsh -n "$work/zsh" 2>&1)"
# shellcheck disable=SC2016 # zsh's
is "zsh takes it as the completion of millrace" "_millrace" \
    "$(zsh -f -c 'autoload -U compinit && compinit -D -u && source "$1" && print -r -- "$_comps[millrace]"' - "$work/zsh" 2>&1)"
complete_in_fish() # LINE
{
    HOME=$work fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$work/fish" "$1" 2>&1 | cut -f 1 | sort
}
is "fish: verbs" "$(sort <<<"$verbs")" "$(complete_in_fish 'millrace ')"
is "fish: flags" $'--cache-dir\n--cache-size\n--check' "$(complete_in_fish 'millrace mount --c')"
is "fish: values of a flag" $'AsyncThrough\nCacheThrough\nThrough' "$(complete_in_fish 'millrace mount --write-type ')"
echo "1..$count"
exit "$failed"
