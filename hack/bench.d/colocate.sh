# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A job over images of ImageNet's sizes (examples/imagenet, real tf.data) whose cache worker is on its own node, on another node, or not there
# at all, with a store that is 1, 10 and 50 ms away. Nodes are network namespaces with 1 Gbit/s each; the delay, of a round trip, is a relay's.
#   hack/bench colocate [--quick] [--rounds N] [--delays LIST] [--decode]     default: the median of 3 rounds; --quick: one, of a third of the images
# The workers have all of it, the node that reads has nothing of it yet: one epoch. Without a cache it has a worker no more than room for an epoch.
# Rows: records, in shards a tenth as large as ImageNet's, and files in random order, read alone, as where a GPU decodes; --decode: also decoded and
# cropped by tf.data, which takes the processors that all of this shares. Beside them the node's own disk. Needs root, /dev/fuse, 3 GB of disk.

# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
need_root "hack/bench colocate"
shards=12 files=1536 rounds=3 delays=1,10,50 decoders=gpu given=("$@")
while [ $# -gt 0 ]; do
    case $1 in
    --quick)
        shards=4 files=512 rounds=1
        shift
        continue
        ;;
    --decode)
        decoders='gpu cpu'
        shift
        continue
        ;;
    --rounds) rounds=${2:?--rounds wants a number} ;;
    --delays) delays=${2:?--delays wants milliseconds, with commas} ;;
    *)
        sed -n '3,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
    esac
    shift 2
done
[[ $rounds =~ ^[1-9][0-9]?$ && $delays =~ ^[0-9,.]+$ ]] || die "--rounds and --delays: numbers"
if [ -z "${MILLRACE_BENCH_INSIDE:-}" ]; then # in namespaces: whatever ends this script, nothing of it is left
    "$ROOT/hack/setup" build test versitygw tensorflow
    run_step "configure release" cmake --preset release -S "$ROOT"
    run_step "build release" cmake --build "$ROOT/build/release" --target millrace-fuse millrace-worker delay_relay
    export MILLRACE_BENCH_INSIDE=1
    exec unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$ROOT/hack/bench" colocate "${given[@]}"
fi

BIN=$ROOT/build/release/bin
WORK=$(mktemp -d "${TMPDIR:-/var/tmp}/millrace-bench.XXXXXX")
PORT=7070 STATUS=9400 METRICS=9402 STORE=10.77.0.1
leave()
{
    local status=$?
    trap - EXIT
    ! mountpoint -q "$WORK/mnt" || umount -l "$WORK/mnt"
    rm -rf --one-file-system "$WORK"
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY MILLRACE_CONFIG
export AWS_EC2_METADATA_DISABLED=true

until_true() # WHAT COMMAND…
{
    local end=$((SECONDS + 90)) what=$1
    shift
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || { tail -n 20 "$WORK"/*.log >&2 && die "in vain: $what"; }
        sleep 0.05
    done
}

node() # NUMBER COMMAND…: with that node's network
{
    local number=$1
    shift
    nsenter --net="/run/netns/node$number" "$@"
}

limited() # COMMAND…: tc there
{
    "$@" root tbf rate 1gbit burst 256kb latency 50ms
}

make_net()
{
    local number
    mount -t tmpfs none /run
    ip link set lo up
    ip link add nodes type bridge
    ip addr add "$STORE/24" dev nodes
    ip link set nodes up
    for number in 1 2; do
        ip netns add "node$number"
        ip link add "n$number" type veth peer name eth0 netns "node$number"
        ip link set "n$number" master nodes up
        node $number ip addr add "10.77.0.1$number/24" dev eth0
        node $number ip link set lo up
        node $number ip link set eth0 up
        limited tc qdisc add dev "n$number"
        limited node $number tc qdisc add dev eth0
    done
    printf '127.0.0.1 localhost\n10.77.0.11 near-cache-0.near-cache\n10.77.0.12 far-cache-0.far-cache\n' >"$WORK/hosts"
    mount --bind "$WORK/hosts" /etc/hosts
}

make_store()
{
    mkdir -p "$WORK/s3/data" "$WORK/secrets/0" "$WORK/mnt"
    run_step "images" env PYTHONPATH="$CACHE/trainer/site" TF_CPP_MIN_LOG_LEVEL=2 \
        python3 "$ROOT/tests/programs/imagenet_made.py" "$WORK/s3/data/images" "$shards" "$files"
    printf testaccess >"$WORK/secrets/0/id"
    printf testsecret123 >"$WORK/secrets/0/key"
    "$CACHE/bin/versitygw" --access testaccess --secret testsecret123 --port 127.0.0.1:$PORT --keep-alive --quiet posix "$WORK/s3" \
        >"$WORK/store.log" 2>&1 &
    until_true "the store" bash -c ": </dev/tcp/127.0.0.1/$PORT"
}

far_store() # MS
{
    [ -z "${RELAY:-}" ] || { kill "$RELAY" && wait "$RELAY" || true; } 2>/dev/null
    "$BIN/delay_relay" $STORE $PORT 127.0.0.1 $PORT "$1" 2>>"$WORK/relay.log" &
    RELAY=$!
    until_true "the relay" bash -c ": </dev/tcp/$STORE/$PORT"
}

configure() # NAME MEMBERS-AS-JSON
{
    jq -n --arg endpoint "http://$STORE:$PORT" --argjson more "$2" '{readOnly: true, mounts: [{mountPoint: "s3://data/images", immutable: true,
        options: {endpoint: $endpoint, region: "us-east-1", "path-style": "true"},
        secrets: {"access-key-id": "0/id", "secret-access-key": "0/key"}}]} + $more' >"$WORK/$1.json"
}

worker_up() # near|far NUMBER-OF-NODE
{
    local tiers='{"tiers": [{"medium": "SSD", "quota": 2000000000}]}'
    configure "$1" "{\"cache\": $tiers, \"workers\": {\"service\": \"$1-cache\", \"name\": \"$1-cache\", \"count\": 1, \"port\": $STATUS}}"
    node "$2" "$BIN/millrace-worker" --config "$WORK/$1.json" --cache-dir "$WORK/$1" --secrets-dir "$WORK/secrets" --index 0 \
        --http "10.77.0.1$2:$STATUS" --metrics "" >>"$WORK/$1.log" 2>&1 &
    until_true "the worker" node "$2" curl -sf -o "$WORK/readyz" "http://10.77.0.1$2:$STATUS/readyz"
    : >"$WORK/report"
    node "$2" "$BIN/millrace-worker" --config "$WORK/$1.json" --secrets-dir "$WORK/secrets" --http "10.77.0.1$2:$((STATUS + 1))" --metrics "" \
        --report "$WORK/report" --load / >>"$WORK/load.log" 2>&1 || die "it cannot be loaded: $(cat "$WORK/report")"
}

rate_of() # DIRECTORY DECODE: images a second of one epoch on node 1
{
    node 1 env PYTHONPATH="$CACHE/trainer/site" PYTHONDONTWRITEBYTECODE=1 CUDA_VISIBLE_DEVICES='' TF_CPP_MIN_LOG_LEVEL=2 \
        python3 "$ROOT/examples/imagenet/train.py" --data "$1" --model none --decode "$2" 2>"$WORK/train.log" |
        tee -a "$WORK/epochs" | sed -n 's/^epoch 0 .* \([0-9.]*\) images\/s.*/\1/p'
}

is_served() { [ "$(node 1 curl -sf http://127.0.0.1:$STATUS/status | jq .serving)" = true ]; }

# For minutes ext4 steps over each inode that was deleted, whenever a file is made: what came after a removed cache would be slower than the
# one before, by as much as all that were removed. So its files stay until the end, without their bytes.
put_away() # DIRECTORY
{
    [ -d "$1" ] || return 0
    find "$1" -type f -exec truncate -s 0 {} +
    mv "$1" "$(mktemp -d "$WORK/gone.XXXXXX")"
}

measure() # PLACE FORM DECODE
{
    local client
    node 1 "$BIN/millrace-fuse" --mountpoint "$WORK/mnt" --cache-dir "$WORK/cache" --config "$WORK/$1.json" --secrets-dir "$WORK/secrets" \
        --http 127.0.0.1:$STATUS --metrics 127.0.0.1:$METRICS >>"$WORK/fuse.log" 2>&1 &
    client=$!
    until_true "the mount" is_served
    rate_of "$WORK/mnt/$2" "$3"
    node 1 curl -sf http://127.0.0.1:$STATUS/status | jq -c --arg what "$*" '{what: $what, reads}' >>"$WORK/reads"
    umount "$WORK/mnt"
    wait $client || die "the client ended with $?: $(tail -n 5 "$WORK/fuse.log")"
    put_away "$WORK/cache"
}

measure_all()
{
    local round delay form decode place
    for ((round = 1; round <= rounds; round++)); do
        for form in records files; do for decode in $decoders; do
            echo "$form $decode - disk $(rate_of "$WORK/s3/data/images/$form" $decode)"
            for delay in ${delays//,/ }; do
                far_store "$delay" >/dev/null
                for place in near far none; do
                    echo "$form $decode $delay $place $(measure $place $form $decode)"
                done
            done
        done; done
        log "round $round of $rounds"
    done >"$WORK/rates"
}

report()
{
    jq -nR --arg rounds "$rounds" '[inputs | split(" ") | {key: .[:4] | join(" "), value: .[4] | tonumber}] | group_by(.key)
        | map({key: .[0].key, value: (map(.value) | sort | .[length / 2 | floor])}) | from_entries as $all
        | {rounds: ($rounds | tonumber), images_per_s: $all,
           ratios: [$all | keys[] | select(endswith(" near")) | rtrimstr(" near") as $row
               | {row: $row, near_to_far: ($all[. ] / $all[$row + " far"]), near_to_none: ($all[.] / $all[$row + " none"]),
                  near_to_disk: ($all[.] / $all[($row | split(" ") | .[:2] | join(" ")) + " - disk"])}]}' \
        "$WORK/rates" >"$ROOT/build/bench/colocate.json"
    printf '%-9s %-6s %5s %9s %9s %9s %9s  %8s %8s\n' form decode ms disk own-node far-node none own/far own/none
    jq -r '.images_per_s as $all | .ratios | sort_by(.row | split(" ") | [.[0], .[1], (.[2] | tonumber)])[] | (.row | split(" ")) as $at
        | [$at[], $all["\($at[0]) \($at[1]) - disk"], $all[.row + " near"], $all[.row + " far"], $all[.row + " none"], .near_to_far, .near_to_none] | @tsv' \
        "$ROOT/build/bench/colocate.json" | while read -r line; do
        # shellcheck disable=SC2086 # fields
        printf '%-9s %-6s %5s %9.0f %9.0f %9.0f %9.0f  %8.2f %8.2f\n' $line
    done
}

make_net
make_store
far_store 0
worker_up near 1
worker_up far 2
configure none '{"cache": {"tiers": [{"medium": "Memory", "quota": 67108864}]}}'
mkdir -p "$ROOT/build/bench"
measure_all
[ ! -s "$WORK/reads" ] || cp "$WORK/reads" "$ROOT/build/bench/colocate.reads"
report
log "images/s, medians of $rounds; goal: own/far of 2 at 10 ms"
