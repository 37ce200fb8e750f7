# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A large file of a real HDFS, read cold through a mount, beside curl that asks the same WebHDFS for ranges of it, eight at a time, and
# `hdfs dfs -get` into memory (without the time that Java takes to start, which is measured with an empty file).
#   hack/bench hdfs [--size MIB] [--rounds N]      default: 1024 MiB, the median of 5 rounds. Needs root and five times that in /dev/shm.
# The figures are ratios: the other's time by ours, goal 0.9.

# shellcheck source=hack/lib.sh
. "${here:?}/lib.sh"
need_root "hack/bench hdfs"
size=1024 rounds=5
while [ $# -gt 0 ]; do
    case $1 in
    --size) size=${2:?--size wants a number} ;;
    --rounds) rounds=${2:?--rounds wants a number} ;;
    *)
        sed -n '3,6p' "${bench:?}" | sed 's/^# \{0,1\}//' >&2
        exit 2
        ;;
    esac
    shift 2
done
[[ $size$rounds =~ ^[1-9][0-9]*$ ]] || die "--size and --rounds: numbers"
"$ROOT/hack/setup" build test hadoop
run_step "millrace" bash -c "cmake -S '$ROOT' --preset release && cmake --build '$ROOT/build/release' --target millrace millrace-fuse"

# shellcheck source=tests/integration/hdfs_lib.sh
. "$ROOT/tests/integration/hdfs_lib.sh"
PATH=$ROOT/build/release/bin:$PATH
WORK=$(mktemp -d /dev/shm/millrace-bench.XXXXXX)
leave()
{
    ! mountpoint -q "$WORK/mnt" || millrace umount "$WORK/mnt" || umount -l "$WORK/mnt"
    hdfs_end
    rm -rf --one-file-system "$WORK"
}
trap leave EXIT
HDFS_MORE+=(dfs.blocksize=134217728)
hdfs_start
url=webhdfs://${HDFS_HTTP[0]}
mkdir "$WORK/mnt"
: >"$WORK/empty"
hdfs dfs -put "$WORK/empty" /empty
head -c "${size}M" /dev/urandom >"$WORK/big"
millrace cp --option "user=$(id -un)" "$WORK/big" "$url/big"
sum=$(sha256sum <"$WORK/big")
for ((at = 0; at < size; at += 8)); do
    echo "url = http://${HDFS_HTTP[0]}/webhdfs/v1/big?op=OPEN&offset=$((at << 20))&length=$((8 << 20))"
    echo "output = /dev/null"
done >"$WORK/ranges"

seconds() # COMMAND…
{
    local from=$EPOCHREALTIME
    "$@" >/dev/null
    awk "BEGIN { print $EPOCHREALTIME - $from }"
}
by_mount() { cat "$WORK/mnt/big"; }
by_curl() { curl -fLZ --no-progress-meter --parallel-max 8 -K "$WORK/ranges" 2>/dev/null; }
by_get() { rm -f "$WORK/got" && hdfs dfs -get "/$1" "$WORK/got"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((round = 0; round <= rounds; round++)); do # the first one warms up
    millrace mount --read-only --cache-dir "$WORK/cache" --cache-size "$((size * 2))MiB" "$url/" "$WORK/mnt"
    ours=$(seconds by_mount)
    [ "$round" -gt 0 ] || [ "$(sha256sum <"$WORK/mnt/big")" = "$sum" ] || die "the mount reads something else"
    millrace umount "$WORK/mnt"
    rm -rf "$WORK/cache"
    curl=$(seconds by_curl)
    start=$(seconds by_get empty)
    get=$(seconds by_get big)
    [ "$round" -gt 0 ] || continue
    awk "BEGIN { printf \"%.3f %.3f %.3f %.3f\n\", $ours, $curl, $get - $start, $start }" | tee -a "$WORK/rounds"
done
mkdir -p "$ROOT/build/bench"
of_curl=$(awk '{ print $2 / $1 }' "$WORK/rounds" | median)
of_get=$(awk '{ print $3 / $1 }' "$WORK/rounds" | median)
jq -n --arg size "$size" --arg curl "$of_curl" --arg get "$of_get" --rawfile rounds "$WORK/rounds" \
    '{mib: ($size | tonumber), of_curl: ($curl | tonumber), of_get: ($get | tonumber),
      rounds_mount_curl_get_java: ($rounds | split("\n") | map(select(. != "") | split(" ") | map(tonumber)))}' \
    >"$ROOT/build/bench/hdfs.json"
log "cold, $size MiB: $of_curl of curl's ranges, $of_get of hdfs dfs -get (goal 0.9)"
