#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# Two cache workers, a loader and a real mount on one machine: loading, reading through workers, workers that die, hang and
# come back, credentials that are wrong at first. Over a directory and over a real S3 server.
# timeout: 420
set -euo pipefail

if [ "$(id -u)" != 0 ]; then
    echo "SKIP: names for the workers and a mount take root"
    exit 77
fi
if [ -z "${WORKER_RING_INSIDE:-}" ]; then # /etc/hosts is ours alone in a mount namespace
    WORKER_RING_INSIDE=1 exec unshare --mount "$0" "$@"
fi

# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
WORKER=$BUILD/bin/millrace-worker
PORT=$((30000 + RANDOM % 2000)) # below those that connections get
METRICS_PORT=$((PORT + 2000))
declare -A PIDS=()
KEY=() # --cache-key-file FILE of the workers and the loader

cleanup_workers()
{
    local status=$? pid
    trap - EXIT
    for pid in "${PIDS[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${PIDS[@]}"; do
        timeout 10 tail --pid="$pid" -f /dev/null || kill -9 "$pid" 2>/dev/null || true
    done
    (exit "$status") || true
    trap 'fuse_cleanup' EXIT
    exit "$status"
}
trap 'cleanup_workers' EXIT

url() { echo "http://t-cache-$1.t-cache:$PORT"; }
status_of() { curl -sf "$(url "$1")/status"; }
is_ready() { curl -sf -o "$WORK/readyz" "$(url "$1")/readyz"; }
reason_is() { [ "$(status_of "$1" | jq -r .reason)" = "$2" ]; }
pinned() { [ $(($(status_of 0 | jq .cache.pinnedFiles) + $(status_of 1 | jq .cache.pinnedFiles))) = "$1" ]; }
client() { curl -sf "http://$HTTP/status" | jq "$1"; }

worker_start() # INDEX
{
    "$WORKER" --config "$CONFIG" --cache-dir "$WORK/worker$1" --secrets-dir "$WORK/secrets" --index "$1" "${KEY[@]}" \
        --http "127.0.0.$((2 + $1)):$PORT" --metrics "127.0.0.$((2 + $1)):$METRICS_PORT" >>"$WORK/worker$1.log" 2>&1 &
    PIDS[$1]=$!
}

worker_stop() # INDEX: by SIGTERM, which it must end well from
{
    kill "${PIDS[$1]}"
    wait "${PIDS[$1]}" || die "worker $1 ended with $?"
    unset "PIDS[$1]"
}

loader_metrics() { curl -sf "http://127.0.0.9:$METRICS_PORT/metrics" >"$WORK/metrics"; }

load() # PATH…
{
    : >"$WORK/report"
    "$WORKER" --config "$CONFIG" --secrets-dir "$WORK/secrets" --http "127.0.0.9:$PORT" --metrics "" --report "$WORK/report" "${KEY[@]}" --load "$@" \
        >>"$WORK/loader.log" 2>&1
}

same() { diff -r "$DATA" "$MNT" >&2 || die "the mount shows other bytes than the store has ($1)"; }

make_data()
{
    local i
    mkdir -p "$DATA/small"
    for i in $(seq 1 120); do head -c $((i * 1777)) /dev/urandom >"$DATA/small/f$i"; done
    head -c 5000001 /dev/urandom >"$DATA/middle"
    head -c 150000000 /dev/urandom >"$DATA/large" # three chunks
    : >"$DATA/empty"
}

run() # posix|s3
{
    local total try
    echo "# $1"
    fuse_source "$1"
    make_data
    total=$(find "$DATA" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
    fuse_config "readOnly=true" "workers={\"service\":\"t-cache\",\"name\":\"t-cache\",\"count\":2,\"port\":$PORT}"
    worker_start 0
    worker_start 1
    wait_for "worker 0" is_ready 0
    wait_for "worker 1" is_ready 1

    load / || die "the loader failed: $(cat "$WORK/report")"
    grep -q '^loaded 123 files' "$WORK/report" || die "the loader says: $(cat "$WORK/report")"
    [ "$(status_of 0 | jq .reads.storeBytes)" -gt 0 ] || die "worker 0 got nothing"
    [ "$(status_of 1 | jq .reads.storeBytes)" -gt 0 ] || die "worker 1 got nothing"
    [ $(($(status_of 0 | jq .reads.storeBytes) + $(status_of 1 | jq .reads.storeBytes))) = "$total" ] || die "not each byte was fetched once"
    wait_for "the count of the store" bash -c "curl -sf $(url 0)/status | jq -e '.ufs.complete and .ufs.bytes == $total and .ufs.files == 123'" >/dev/null

    for try in 1 2 3 4 5 6; do # on a busy machine a worker may be late, and the store is asked in its place
        fuse_mount
        same "all workers up"
        [ "$(client .reads.workerBytes)" != "$total" ] || break
        [ "$try" != 6 ] || die "of $total bytes $(client .reads.workerBytes) came from workers, $(client .reads.storeBytes) from the store"
        fuse_umount
        rm -rf "$CACHE"
    done
    fuse_umount
    rm -rf "$CACHE"

    echo "# where a file is"
    local where owner shares='([.files[0].workers[] | .cachedBytes == .ownedBytes] | all)'
    fuse_mount
    where=$("$BUILD/bin/millrace" location --json "$MNT/large")
    [ "$(jq "$shares and ([.files[0].workers[].ownedBytes] | add) == 150000000" <<<"$where")" = true ] || die "the workers that have it: $where"
    [ "$(jq -r '.files[0] | "\(.size) \(.cachedBytes) \(.persisted)"' <<<"$where")" = "150000000 0 true" ] || die "where it is: $where"
    cat "$MNT/middle" >/dev/null
    where=$("$BUILD/bin/millrace" location "$MNT/middle")
    grep -qx '  this node            4.77MiB' <<<"$where" || die "this node has it: $where"
    grep -qE '^  t-cache-[01]            4.77MiB, owns 4.77MiB$' <<<"$where" || die "one worker has it: $where"
    grep -qE '^  store                [a-z0-9]+://.*/middle$' <<<"$where" || die "its store: $where"
    where=$("$BUILD/bin/millrace" location "$(sed -n 's/^  store  *//p' <<<"$where")") || die "by its URL: $where"
    grep -qE '^  t-cache-[01]            4.77MiB, owns 4.77MiB$' <<<"$where" || die "by its URL: $where"
    owner=$("$BUILD/bin/millrace" location --json "$MNT/large" | jq -r '.files[0].workers[0].worker')
    kill -STOP "${PIDS[${owner#t-cache-}]}"
    where=$("$BUILD/bin/millrace" location "$MNT/large")
    kill -CONT "${PIDS[${owner#t-cache-}]}"
    grep -qE "^  $owner            owns [0-9.]+MiB, does not tell what it has: " <<<"$where" || die "a worker that does not answer: $where"
    fuse_umount
    rm -rf "$CACHE"

    echo "# what is pinned stays so until it is unpinned, whatever is loaded"
    load --pin=true /small || die "the loader failed: $(cat "$WORK/report")"
    load / || die "the loader failed: $(cat "$WORK/report")"
    pinned 120 || die "pinned: $(status_of 0 | jq -c .cache), $(status_of 1 | jq -c .cache)"
    curl -sf "http://127.0.0.2:$METRICS_PORT/metrics" >"$WORK/metrics"
    grep -q "^millrace_cache_pinned_files $(status_of 0 | jq .cache.pinnedFiles)$" "$WORK/metrics" || die "no metric"

    echo "# a worker is killed, and comes back with what it had"
    fuse_mount
    kill -9 "${PIDS[1]}"
    wait "${PIDS[1]}" || true
    same "one worker dead"
    [ "$(client .reads.storeBytes)" -gt 0 ] || die "nothing came from the store"
    [ "$(client .reads.workerBytes)" -gt 0 ] || die "nothing came from the other worker"
    fuse_umount
    rm -rf "$CACHE"
    worker_start 1
    wait_for "worker 1 again" is_ready 1
    load / || die "the loader failed: $(cat "$WORK/report")"
    [ "$(status_of 1 | jq .reads.storeBytes)" = 0 ] || die "worker 1 fetched again what it had"
    pinned 120 || die "pinned: $(status_of 0 | jq -c .cache), $(status_of 1 | jq -c .cache)"
    load --pin=false /small/f1 || die "the loader failed: $(cat "$WORK/report")"
    pinned 119 || die "pinned: $(status_of 0 | jq -c .cache), $(status_of 1 | jq -c .cache)"
    load --pin=false / || die "the loader failed: $(cat "$WORK/report")"
    pinned 0 || die "pinned: $(status_of 0 | jq -c .cache), $(status_of 1 | jq -c .cache)"

    echo "# a worker hangs"
    fuse_mount
    kill -STOP "${PIDS[0]}"
    same "one worker hanging"
    kill -CONT "${PIDS[0]}"
    [ "$(client .reads.storeBytes)" -gt 0 ] || die "nothing came from the store"
    fuse_umount
    rm -rf "$CACHE"

    worker_stop 0
    worker_stop 1
    if load /small; then die "the loader found workers that are gone"; fi
    grep -q 'load failed' "$WORK/report" || die "the loader says: $(cat "$WORK/report")"
    rm -rf "$WORK/worker0" "$WORK/worker1"
}

store_alone() # WHAT [FLAG…]: a client that the workers do not answer reads everything, from the store
{
    echo "# $1"
    shift
    fuse_mount "$@"
    same "workers that do not answer this client"
    [ "$(client .reads.workerBytes)" = 0 ] || die "workers gave $(client .reads.workerBytes) bytes"
    fuse_umount
    rm -rf "$CACHE"
    grep -q 'cache worker does not answer: reading from the store' "$WORK/fuse.log" || die "the client does not say so"
}

keys()
{
    echo "# a key"
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$WORK/key"
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$WORK/other"
    KEY=(--cache-key-file "$WORK/key")
    worker_start 0
    worker_start 1
    wait_for "worker 0" is_ready 0
    wait_for "worker 1" is_ready 1
    load / || die "the loader failed: $(cat "$WORK/report")"
    [ "$(curl -s -o "$WORK/answer" -w '%{http_code}' "$(url 0)/v1/data?mount=0&path=small/f1&version=1&size=1777")" = 401 ] || die "a stranger gets $(cat "$WORK/answer")"
    grep -q 'has the key of its Dataset' "$WORK/answer" || die "a stranger is told $(cat "$WORK/answer")"
    [ "$(curl -s -o "$WORK/answer" -w '%{http_code}' -X POST "$(url 0)/v1/unpin")" = 401 ] || die "a stranger unpins"
    [ "$(curl -s -o "$WORK/answer" -w '%{http_code}' -X POST "$(url 0)/v1/unmark?mark=1")" = 401 ] || die "a stranger ends marks"
    timeout 20 "$WORKER" --config "$CONFIG" --secrets-dir "$WORK/secrets" --http "127.0.0.9:$PORT" --metrics "" "${KEY[@]}" --preload pin=/small \
        >"$WORK/preload.log" 2>&1 &
    PIDS[2]=$!
    wait_for "what is preloaded to be pinned" pinned 120
    kill "${PIDS[2]}"
    wait "${PIDS[2]}" || true
    unset "PIDS[2]"
    load --pin=false / || die "the loader failed: $(cat "$WORK/report")"
    fuse_mount "${KEY[@]}"
    same "with the key"
    [ "$(client .reads.workerBytes)" -gt 0 ] || die "nothing came from the workers"
    fuse_umount
    rm -rf "$CACHE"
    store_alone "a client without the key"
    store_alone "a client with another key" --cache-key-file "$WORK/other"
    KEY=(--cache-key-file "$WORK/other")
    if load /small; then die "a loader with another key loads"; fi
    grep -q 'another key' "$WORK/report" || die "it says: $(cat "$WORK/report")"
    KEY=()
    worker_stop 0
    worker_stop 1
    worker_start 0
    worker_start 1
    wait_for "worker 0" is_ready 0
    wait_for "worker 1" is_ready 1
    store_alone "workers that have no key, asked by a client that has one" --cache-key-file "$WORK/key"
    worker_stop 0
    worker_stop 1
    echo "# a file that holds no key"
    echo nonsense >"$WORK/key"
    if "$WORKER" --config "$CONFIG" --cache-key-file "$WORK/key" >"$WORK/answer" 2>&1; then die "a worker runs without its key"; fi
    grep -q '64 hexadecimal characters' "$WORK/answer" || die "it says: $(cat "$WORK/answer")"
    if grep -q nonsense "$WORK/answer"; then die "what is in the file is in the log"; fi
    rm -rf "$WORK/worker0" "$WORK/worker1"
}

wrong_credentials()
{
    echo "# wrong credentials"
    printf wrong-secret >"$WORK/secrets/0/key"
    worker_start 0
    wait_for "the reason" reason_is 0 AccessDenied
    [ "$(curl -s -o "$WORK/readyz" -w '%{http_code}' "$(url 0)/readyz")" = 503 ] || die "ready without access"
    if grep -q 'wrong-secret' "$WORK/worker0.log" "$WORK/readyz"; then die "a secret is in the log"; fi
    echo "# a loader that waits for the store has metrics, too, where no worker's port is"
    "$WORKER" --config "$CONFIG" --secrets-dir "$WORK/secrets" --http "127.0.0.9:$PORT" --metrics "127.0.0.9:$METRICS_PORT" \
        --report "$WORK/report" --load / >>"$WORK/loader.log" 2>&1 &
    PIDS[2]=$!
    wait_for "the loader's metrics" loader_metrics
    grep -q '^millrace_ready 0$' "$WORK/metrics" || die "the loader says that it is ready: $(cat "$WORK/metrics")"
    if curl -sf "http://127.0.0.9:$PORT/metrics" >/dev/null; then die "the loader's metrics are on the port of its health, too"; fi
    kill "${PIDS[2]}"
    wait "${PIDS[2]}" || true
    unset "PIDS[2]"
    printf testsecret123 >"$WORK/secrets/0/key"
    wait_for "access" is_ready 0
    worker_stop 0
    echo "# a configuration that can't be used"
    echo '{' >"$CONFIG"
    worker_start 0
    wait_for "the reason" reason_is 0 InvalidOption
    worker_stop 0
}

printf '127.0.0.1 localhost\n127.0.0.2 t-cache-0.t-cache\n127.0.0.3 t-cache-1.t-cache\n' >"$WORK/hosts"
mount --bind "$WORK/hosts" /etc/hosts
mkdir -p "$WORK/secrets"
run posix
keys
run s3
wrong_credentials
