# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# run.sh — runs tests side by side and counts. Sourced by hack/test.
#   report passed|failed|skipped NAME SECONDS LOG [NOTE [CASES]]
#   run_program NAME LIMIT DIRECTORY COMMAND…    counts its TAP cases, or 1 by its exit status
#   run_isolated NAME LIMIT DIRECTORY COMMAND…   the same, in mount, process and network namespaces of its own
#   run_rest                                     waits for those that still run
#   run_again                                    runs once more, alone, those that failed and may have failed for want of the machine
#   lane_start COMMAND…, lane_join               the command, which runs tests, beside this script; what it counted is added
# AT_ONCE tests run at once, as many as there are processors, and more, up to MOST, while processors are idle: many mostly wait.

TEST_LOGS=$ROOT/build/test-logs
passed=0 failed=0 skipped=0
failures=()
running=() started=() directories=() # by process id: the test's name, when it began, its TMPDIR
durations=() begun=0  # "SECONDS NAME" of those that ended; how many began
commands=() to_repeat=() # by process id, and of those to be run again: prefix, MILLRACE_BUILD, name, limit, directory, command, quoted
unsteady=() repeating='' # "NAME: LOG" of those that failed at first and passed when run again, alone
GRACE=10 # seconds that a test has to clean up after its time limit
AGAIN_AT_MOST=5 # in a lane: where more fail, it isn't chance
AT_ONCE=$(nproc) MOST=$((6 * $(nproc)))
ticker=

start_run()
{
    began=$SECONDS
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/mt.XXXXXX") # the tests' TMPDIR: short, for the sake of sockets, and open to users without rights
    chmod 711 "$SCRATCH"
    rm -rf "$TEST_LOGS"
    mkdir -p "$TEST_LOGS"
    export SOURCE_ROOT=$ROOT
}

wanted() # STAGE/NAME
{
    [[ $1 =~ ${pattern:-} ]]
}

wanted_of() # STAGE: those of the names on standard input
{
    local name
    while read -r name; do
        if wanted "$1/$name"; then echo "$name"; fi
    done
}

timeout_of() # SCRIPT: seconds: twice what it says, which is enough where nothing else runs
{
    local limit
    limit=$(sed -n 's/^# timeout: \([0-9]*\).*/\1/p;T;q' "$1")
    echo $((2 * ${limit:-300}))
}

is_alone() # SCRIPT
{
    grep -q '^# alone$' "$1"
}

list_scripts() # STAGE: those that can be run and are no libraries
{
    find "$ROOT/tests/$1" -maxdepth 1 -name '*.sh' -perm -u+x ! -name lib.sh ! -name '*_lib.sh' 2>/dev/null | sort
}

wanted_scripts() # STAGE: paths; tsan's are those of integration that say so
{
    local file
    list_scripts "${1/#tsan/integration}" | while read -r file; do
        if ! wanted "$1/$(basename "$file" .sh)"; then continue; fi
        if [ "$1" != tsan ] || grep -qx '# tsan' "$file"; then echo "$file"; fi
    done
}

repeat_of() # STAGE/NAME: the command that runs this test alone
{
    local name=${1#*/}
    case $1 in
    unit/* | golden/*) echo "hack/dev $name" ;;
    tsan/*) if [ -e "$ROOT/tests/integration/$name.sh" ]; then echo "hack/test tsan -k '/$name\$'"; else echo "hack/dev --tsan $name"; fi ;;
    build/*) echo "cmake --build build/$name" ;;
    */no-tests-found | */runner | no-test-matches) echo "hack/test" ;;
    *) echo "hack/test ${1%%/*} -k '/$name\$'" ;;
    esac
}

# The first lines that name the failure: where only the end of all output is kept, it is still to be read there.
what_it_said() # LOG
{
    grep -m 3 -aE '^ *(not ok|FAIL|FAILED|error|.*(FAIL|FAILED|ERROR|panic): )|test runner: ' "$1" 2>/dev/null | cut -c 1-300 | sed 's/^ */      /; 1s/^/\n/' || true
}

# One line a test, and the end of its output if it failed.
report() # RESULT NAME SECONDS LOG [NOTE]
{
    printf '%(%H:%M:%S)T %-7s %s (%s)\n' -1 "$1" "$2" "${5:+$5, }$3 s" >&2
    case $1 in
    passed) passed=$((passed + ${6:-1})) ;;
    skipped) skipped=$((skipped + ${6:-1})) ;;
    failed)
        failed=$((failed + ${6:-1}))
        failures+=("$2: $4; again: $(repeat_of "$2")$(what_it_said "$4")")
        ;;
    esac
    if [ "$1" != passed ]; then tail -n 40 "$4" 2>/dev/null | cut -c 1-300 | sed 's/^/    /' >&2; fi
    [ "$1" != failed ] || log "again: $(repeat_of "$2")"
}

# Counts the cases of a TAP stream: sets ok, not_ok, skips and planned.
count_tap() # LOG
{
    read -r ok not_ok skips planned < <(awk '
        /^1\.\.[0-9]+/ { sub(/^1\.\./, ""); planned += $1 }
        /^(not )?ok [0-9]+.*# *[Ss][Kk][Ii][Pp]/ { skips++; next }
        /^ok [0-9]/ { ok++ }
        /^not ok [0-9]/ { bad++ }
        END { print ok + 0, bad + 0, skips + 0, planned + 0 }' "$1")
}

# Tests of real processes, kills and clusters share two processors with others: one that fails may have been starved, and is run
# once more when nothing else runs. What a sanitizer found is never chance, nor is a failure of what needs no machine.
may_repeat() # NAME LOG
{
    [ -z "$repeating$only_once" ] && [ ${#to_repeat[@]} -lt "$AGAIN_AT_MOST" ] || return 1
    case $1 in
    e2e/00_install) return 1 ;;
    unit/* | tsan/* | integration/* | e2e/* | programs/*) ;;
    *) return 1 ;;
    esac
    ! grep -qaE '(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error: ' "$2"
}

run_again()
{
    local line words RUN_PREFIX=${RUN_PREFIX:-}
    [ ${#to_repeat[@]} != 0 ] || return 0
    local -x MILLRACE_BUILD=${MILLRACE_BUILD:-}
    repeating=yes
    for line in "${to_repeat[@]}"; do
        run_rest
        eval "words=($line)"
        RUN_PREFIX=${words[0]} MILLRACE_BUILD=${words[1]}
        cp "$TEST_LOGS/${words[2]//\//-}.log" "$TEST_LOGS/${words[2]//\//-}.first.log"
        log "once more, alone: ${words[2]}"
        run_program "${words[@]:2}"
    done
    run_rest
    repeating='' to_repeat=()
}

verdict() # NAME SECONDS LOG STATUS COMMAND
{
    local name=$1 seconds=$2 log=$3 status=$4 ok not_ok skips planned note=
    [ "$status" != 124 ] && [ "$status" != 137 ] || echo "test runner: ended after its time limit" >>"$log"
    count_tap "$log"
    if [ "$status$not_ok" != 00 ] && [ "$status" != 77 ] && may_repeat "$name" "$log"; then
        to_repeat+=("$5")
        printf '%(%H:%M:%S)T %-7s %s (%s)\n' -1 "failed, to be run again" "$name" "$seconds s" >&2
        tail -n 40 "$log" | cut -c 1-300 | sed 's/^/    /' >&2
        return 0
    fi
    [ -z "$repeating" ] || [ "$status$not_ok" != 00 ] || unsteady+=("$name: $TEST_LOGS/${name//\//-}.first.log$(what_it_said "${log%.log}.first.log")")
    if [ "$planned" = 0 ]; then
        case $status in
        0) report passed "$name" "$seconds" "$log" ;;
        77) report skipped "$name" "$seconds" "$log" ;;
        *) report failed "$name" "$seconds" "$log" "status $status" ;;
        esac
        return 0
    fi
    # Cases that were planned and never reported, and a bad end after good cases, are failures too.
    [ $((ok + not_ok + skips)) -ge "$planned" ] || not_ok=$((planned - ok - skips))
    [ "$status" = 0 ] || [ "$not_ok" != 0 ] || not_ok=1
    note="$planned cases"
    skipped=$((skipped + skips))
    if [ "$not_ok" = 0 ]; then
        report passed "$name" "$seconds" "$log" "$note" "$ok"
    else
        passed=$((passed + ok))
        report failed "$name" "$seconds" "$log" "$note, status $status" "$not_ok"
    fi
    [ "$skips" = 0 ] || grep -iE '^(not )?ok .*# *skip' "$log" | sed 's/^/    /' >&2
}

# Returns as soon as the test runs; before, it waits until there is room for it.
run_program()
{
    local name=$1 limit=$2 dir=$3 log=$TEST_LOGS/${1//\//-}.log tmp=$SCRATCH/$BASHPID.$begun pid command
    printf -v command '%q ' "${RUN_PREFIX:-}" "${MILLRACE_BUILD:-}" "$@"
    shift 3
    wait_for_room
    mkdir -p "$tmp"
    # shellcheck disable=SC2086 # RUN_PREFIX is a command and its options
    (cd "$dir" && TMPDIR=$tmp exec ${RUN_PREFIX:-} timeout --kill-after="$GRACE" "$limit" "$@" </dev/null >"$log" 2>&1) &
    pid=$!
    running[pid]=$name
    started[pid]=$EPOCHREALTIME
    directories[pid]=$tmp
    commands[pid]=$command
    begun=$((begun + 1))
}

processors() # the machine's time so far, all of it and the idle part, in ticks
{
    local _ user nice system idle iowait irq softirq steal rest
    # shellcheck disable=SC2034 # rest
    read -r _ user nice system idle iowait irq softirq steal rest </proc/stat
    ticks=$((user + nice + system + idle + iowait + irq + softirq + steal))
    idle_ticks=$((idle + iowait))
}

wait_for_room()
{
    local ticks idle_ticks before idle_before
    while [ ${#running[@]} -ge "$AT_ONCE" ]; do
        processors
        before=$ticks idle_before=$idle_ticks
        run_next tick
        [ ${#running[@]} -lt "$MOST" ] || continue
        processors
        [ $((ticks - before)) -lt 20 ] || [ $(((idle_ticks - idle_before) * 4 * $(nproc))) -lt $((ticks - before)) ] || return 0
    done
}

run_next() # [tick]: waits until one of the running tests ends; or half a second passes
{
    local pid status=0 name seconds command
    if [ -n "${1:-}" ] && [ -z "$ticker" ]; then
        sleep 0.5 &
        ticker=$!
    fi
    wait -n -p pid "${!running[@]}" ${1:+"$ticker"} || status=$?
    if [ "$pid" = "$ticker" ]; then
        ticker=
        return 0
    fi
    name=${running[pid]}
    seconds=$(awk -v a="${started[pid]}" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    durations+=("$seconds $name")
    rm -rf --one-file-system "${directories[pid]:?}"
    command=${commands[pid]}
    unset "running[$pid]" "started[$pid]" "directories[$pid]" "commands[$pid]"
    verdict "$name" "$seconds" "$TEST_LOGS/${name//\//-}.log" "$status" "$command"
}

run_rest()
{
    while [ ${#running[@]} -gt 0 ]; do run_next; done
}

end_running() # when this script is interrupted
{
    [ ${#running[@]} = 0 ] || kill "${!running[@]}" 2>/dev/null || true
    [ -z "${lane:-}" ] || { kill "$lane" && wait "$lane"; } 2>/dev/null || true
}

lane_start()
{
    (
        passed=0 failed=0 skipped=0 failures=() running=() durations=() begun=0 lane='' ticker='' to_repeat=() unsteady=()
        trap end_running EXIT
        trap 'exit 143' TERM
        "$@"
        run_rest
        declare -p passed failed skipped failures durations begun unsteady >"$SCRATCH/lane"
    ) &
    lane=$!
}

lane_join() # a lane that comes to grief is a failed test
{
    local all=("$passed" "$failed" "$skipped" "$begun") status=0 earlier=("${failures[@]}") lasted=("${durations[@]}") shaky=("${unsteady[@]}")
    [ -n "${lane:-}" ] || return 0
    wait "$lane" || status=$?
    lane=
    if [ "$status" != 0 ] || [ ! -e "$SCRATCH/lane" ]; then
        report failed "$1/runner" 0 /dev/null "status $status"
        return 0
    fi
    eval "$(sed 's/^declare -[-aix]* //' "$SCRATCH/lane")"
    passed=$((passed + all[0])) failed=$((failed + all[1])) skipped=$((skipped + all[2])) begun=$((begun + all[3]))
    failures=("${earlier[@]}" "${failures[@]}")
    durations=("${lasted[@]}" "${durations[@]}")
    unsteady=("${shaky[@]}" "${unsteady[@]}")
}

# Whatever a test leaves behind, a process, a mount, a port, goes with its namespaces.
run_isolated()
{
    local name=$1 limit=$2 dir=$3
    shift 3
    # shellcheck disable=SC2016 # the inner shell's
    [ "$(id -u)" != 0 ] || set -- unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc \
        bash -c 'ip link set lo up && exec "$@"' - "$@"
    run_program "$name" "$limit" "$dir" "$@"
}

summary()
{
    local failure
    [ ${#unsteady[@]} = 0 ] || log "unsteady: failed at first, passed when run once more, alone; each is to be looked into:"
    for failure in "${unsteady[@]}"; do log "  $failure"; done
    [ ${#durations[@]} -le 10 ] || log "slowest: $(printf '%s\n' "${durations[@]}" | sort -rn | head -n 10 | awk '{ printf "%s%s %s s", (NR > 1 ? ", " : ""), $2, $1 }')"
    [ ${#failures[@]} = 0 ] || log "failed:"
    for failure in "${failures[@]}"; do log "  $failure"; done
    log "all of it took $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
    echo "$passed passed, $failed failed, $skipped skipped"
}
