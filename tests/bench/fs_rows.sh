# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2153,SC2017 # what options() sets; whole reads
# The rows of hack/bench fs: what is read from what state, what it is compared with, and the goal.

# row threads goal baseline state dataset workload profile. Goals are ratios to the baseline (at least), but for rows whose state is
# cpu (CPU seconds per GB to native's, at most) and memory (at most, in the unit of the workload). "-": no goal.
GOALS='small-warm-sealed 1 0.90 native warm small small sealed
small-warm-sealed 4 0.95 native warm small small sealed
small-warm-sealed 16 0.95 native warm small small sealed
small-warm-open 1 0.55 native warm small small open
small-warm-open 4 0.55 native warm small small open
small-warm-open 16 0.55 native warm small small open
small-cold 1 0.70 native cold small small open
small-cold 4 0.80 native cold small small open
small-cold 16 0.90 native cold small small open
small-cold-hinted 1 1.3 native cold-hinted small small open
small-cold-hinted 4 1.1 native cold-hinted small small open
small-cold-hinted 16 0.95 native cold-hinted small small open
small-fresh 1 0.33 native fresh small small open
small-fresh 4 - native fresh small small open
small-fresh 16 0.40 native fresh small small open
small-cold-sealed 1 - native cold small small sealed
small-cold-sealed 4 - native cold small small sealed
small-cold-sealed 16 - native cold small small sealed
small-fresh-sealed 1 - native fresh small small sealed
small-fresh-sealed 16 - native fresh small small sealed
large-seq-warm 1 0.95 native warm large seq auto
large-seq-cold 1 0.95 native cold large seq auto
large-seq-fresh 1 0.95 native fresh large seq auto
large-rand-warm 1 0.95 native warm large rand auto
large-rand-warm 4 0.95 native warm large rand auto
large-rand-cold 1 0.95 native cold large rand auto
large-rand-cold 4 0.95 native cold large rand auto
mmap-warm 1 0.95 native warm large mmap auto
mmap-cold 1 0.90 native cold large mmap auto
find-first 1 0.55 native cold small find auto
find-again 1 1.0 native warm small find auto
stat-first 1 0.25 native cold small stat auto
stat-again 1 0.90 native warm small stat auto
s3-cold-small 1 0.8 raw empty small small auto
s3-cold-small 4 0.7 raw empty small small auto
s3-cold-small 16 0.7 raw empty small small auto
s3-cold-small-hinted 1 0.8 raw16 empty-hinted small small auto
s3-cold-dir 1 0.6 raw16 empty-dir small small auto
s3-cold-large 1 0.9 raw-ranges empty one seq auto
s3-cold-large 4 0.9 raw-ranges empty large seq auto
cpu-small-sealed 1 1.1 native cpu small-warm-sealed - -
cpu-large 1 1.15 native cpu large-seq-warm - -
memory-page-cache 1 1.1 - memory large page-cache auto
memory-inode 1 160 - memory small inode auto
memory-backing 1 32768 - memory small backing open
rss-rest 1 10 - memory small rest auto
rss-stream 1 300 - memory one stream auto'

rows_wanted()
{
    awk -v only="$ONLY" '$1 ~ only' <<<"$GOALS"
}

# --- the data ---------------------------------------------------------------------------------------------------------------

make_large() # MIB
{
    mkdir -p "$S3_DATA/large" "$S3_DATA/one"
    LARGE_BYTES=$(($1 << 20))
    fs_make "$S3_DATA/large" 4 - "$LARGE_BYTES" >"$WORK/large.list"
    cat "$S3_DATA/large/shard-0" "$S3_DATA/large/shard-1" >"$S3_DATA/one/stream"
    echo stream >"$WORK/one.list"
}

# Whole directories of the small files, as hard links, for those that would take hours to read all of them.
make_part()
{
    local variant dir
    for variant in "${VARIANTS[@]}"; do
        is_slow "$variant" || continue
        [ "$(wc -l <"$WORK/small.list")" -gt "$PART_FILES" ] || return 0
        mkdir "$S3_DATA/small-part"
        sort "$WORK/small.list" | sed -n "1,${PART_FILES}p" >"$WORK/small-part.list"
        for dir in $(cut -d / -f 1 "$WORK/small-part.list" | uniq); do cp -al "$S3_DATA/small/$dir" "$S3_DATA/small-part/"; done
        return 0
    done
}
PART_FILES=3000 # a hundred a directory, as in all of them

start_s3()
{
    local port try
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM + try) % 10000))
        "$CACHE/bin/versitygw" --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" --port "127.0.0.1:$port" --keep-alive \
            --quiet posix "$WORK/s3" >"$WORK/versitygw.log" 2>&1 9>&- &
        S3_PID=$!
        for _ in $(seq 100); do
            kill -0 "$S3_PID" 2>/dev/null || continue 2
            if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
                ENDPOINT=http://127.0.0.1:$port
                return 0
            fi
            nap 0.05
        done
    done
    tail -n 5 "$WORK/versitygw.log" >&2
    die "versitygw does not start"
}

# Which of the data the wanted rows need.
make_data()
{
    local scale=1 datasets
    [ -z "$QUICK" ] || scale=10
    datasets=$(rows_wanted | cut -d ' ' -f 6)
    S3_DATA=$WORK/s3/data
    mkdir -p "$S3_DATA"
    ip link set lo up 2>/dev/null || true
    start_s3
    if grep -q small <<<"$datasets"; then
        log "small files: $((20000 / scale))"
        mkdir "$S3_DATA/small"
        fs_make "$S3_DATA/small" $((20000 / scale)) $((200 / scale)) >"$WORK/small.list"
        make_part
    fi
    if grep -qE 'large|one' <<<"$datasets"; then
        log "large files: 4 x $((512 / scale)) MiB"
        make_large $((512 / scale))
    fi
    sync -f "$WORK"
}

# What is not needed any more loses its bytes now and its names at the end: ext4 looks for free inodes among those that were deleted in
# the last minutes one by one, and whoever makes files next would pay for that.
toss() # DIRECTORY
{
    [ -d "$1" ] || return 0
    mkdir -p "$WORK/trash"
    find "$1" -type f -size +0 -print0 | xargs -0 -r truncate -s 0
    mv "$1" "$(mktemp -d "$WORK/trash/XXXXXX")/"
}

# --- one figure ---------------------------------------------------------------------------------------------------------------

drop_caches()
{
    sync -f "$WORK"
    echo 3 >/proc/sys/vm/drop_caches
}

# What is warm is read several times where it is little, or the clock says more of the machine than of the file system.
order() # DATASET STATE ROUND: the lists to read, in this round's order
{
    local times=1 list i
    [ "$2" != warm ] || times=${QUICK:+3}; times=${times:-1}
    for list in "$1" "$1-part"; do
        [ -e "$WORK/$list.list" ] || continue
        case $2 in
        *-dir) sort "$WORK/$list.list" ;;
        *) for ((i = times; i > 0; i--)); do shuf --random-source=<(yes "$3 $i") "$WORK/$list.list"; done ;;
        esac >"$WORK/order-$list"
    done
    ln -sfn "order-$1" "$WORK/order"
}

# The variant is mounted, and what it may have in memory or on disk is as the state says.
prepare() # VARIANT STATE DATASET PROFILE ROUND
{
    local variant=$1 state=$2 dataset=$3 profile=$4 data
    case $state in
    warm)
        populate "$variant" "$dataset" "$profile"
        ;;
    cold*)
        populate "$variant" "$dataset" "$profile"
        remount "$variant" "$dataset" "$profile"
        drop_caches
        ;;
    fresh)
        populate "$variant" "$dataset" "$profile"
        cached_in_memory "$variant" "$dataset"
        remount "$variant" "$dataset" "$profile"
        ;;
    empty*)
        unmount "$variant" "$dataset"
        wipe "$variant" "$dataset"
        drop_caches
        data=$S3_DATA/$(data_of "$variant" "$dataset")
        cat "$data"/* "$data"/*/* >/dev/null 2>&1 || true # the server's disk is not what is measured
        mount_variant "$variant" "$dataset" "$profile"
        ;;
    esac
}

# Prints: seconds bytes operations cpu-seconds, of the reader.
run_reader() # VARIANT DATASET WORKLOAD THREADS ROUND
{
    local ops=0 root
    root=$(root_of "$1" "$2")
    [ "$3" != rand ] || ops=$((LARGE_BYTES / 65536)) # twice as many bytes as a file has
    fs_read "$3" "$root" "$WORK/order-$(data_of "$1" "$2")" "$4" "$ops" "$5"
}

run_raw() # BASELINE DATASET THREADS
{
    local out=$WORK/raw size='' threads=$3
    toss "$out"
    mkdir "$out"
    drop_caches
    cat "$S3_DATA/$2"/* "$S3_DATA/$2"/*/* >/dev/null 2>&1 || true
    case $1 in
    raw16) threads=16 ;;
    raw-ranges)
        threads=16
        size=$(stat -c %s "$S3_DATA/$2/$(head -n 1 "$WORK/order")")
        ;;
    esac
    sed "s|^|$2/|" "$WORK/order" >"$WORK/keys"
    fs_download "$ENDPOINT" data "$WORK/keys" "$out" "$threads" ${size:+"$size"}
}

record() # ROW THREADS VARIANT ROUND SECONDS BYTES OPS CPU RSS-MIB
{
    printf '%s\n' "$*" >>"$WORK/results"
}

one_figure() # VARIANT ROW THREADS BASELINE STATE DATASET WORKLOAD PROFILE ROUND
{
    local variant=$1 row=$2 threads=$3 baseline=$4 state=$5 dataset=$6 workload=$7 profile=$8 round=$9 figures before rss
    if [[ $variant = raw* ]]; then
        figures=$(run_raw "$baseline" "$dataset" "$threads") || die "$row: the raw download failed"
        # shellcheck disable=SC2086 # four words
        record "$row" "$threads" "$variant" "$round" $figures 0
        return 0
    fi
    prepare "$variant" "$state" "$dataset" "$profile" "$round" || return 1
    if [ "$state-$round" = warm-1 ]; then # in random order another part would be read in each round
        run_reader "$variant" "$dataset" "${workload/rand/seq}" "$threads" "$round" >/dev/null || return 1
    fi
    if [[ $state = *-hinted ]] && [ "$variant" = millrace ]; then
        "$CLI" hint "$(root_of millrace "$dataset")" "$WORK/order" || return 1
    fi
    before=$(cpu_of "$variant" "$dataset")
    figures=$(run_reader "$variant" "$dataset" "$workload" "$threads" "$round") || return 1
    rss=$(rss_of "$variant" "$dataset")
    read -r -a figures <<<"$figures"
    figures[3]=$(awk -v a="${figures[3]}" -v b="$before" -v c="$(cpu_of "$variant" "$dataset")" 'BEGIN { printf "%.3f", a + c - b }')
    record "$row" "$threads" "$variant" "$round" "${figures[@]}" "$rss"
    ! is_slow "$variant" || unmount "$variant" "$dataset" # three idle JVMs are in the way of the others
}

# Hints are ours alone; what has no profiles is measured in the row of one of both.
can_do() # VARIANT ROW STATE ROUND
{
    case $1 in
    native | millrace | raw*) return 0 ;;
    *) [[ $3 != *-hinted && $2 != small-warm-open ]] && { [ "$4" = 1 ] || ! is_slow "$1"; } ;;
    esac
}

# What is in memory came by reading for all variants: copying out of pages that were written, in larger pieces, is a quarter faster.
same_memory() # BASELINE DATASET PROFILE
{
    local variant
    for variant in "$1" "${VARIANTS[@]}"; do is_slow "$variant" || populate "$variant" "$2" "$3" || true; done
    drop_caches
}

measure_row() # ROW THREADS GOAL BASELINE STATE DATASET WORKLOAD PROFILE
{
    local row=$1 threads=$2 baseline=$4 state=$5 dataset=$6 workload=$7 profile=$8 round variant variants rounds=$ROUNDS failed=' '
    if [[ $state = *-hinted ]] && ! "$CLI" hint --help >/dev/null 2>&1; then
        log "$row t$threads: left out: this millrace has no \`hint\`"
        return 0
    fi
    [[ $state != empty* ]] || [ "$rounds" -le 3 ] || rounds=3
    [ "$state" != warm ] || same_memory "$baseline" "$dataset" "$profile"
    for ((round = 1; round <= rounds; round++)); do
        order "$dataset" "$state" "$round"
        mapfile -t variants < <(printf '%s\n' "$baseline" "${VARIANTS[@]}" | shuf)
        for variant in "${variants[@]}"; do
            if ! can_do "$variant" "$row" "$state" "$round" || [[ $failed = *" $variant "* ]]; then continue; fi
            if ! one_figure "$variant" "$row" "$threads" "$baseline" "$state" "$dataset" "$workload" "$profile" "$round"; then
                [ "$variant" != millrace ] || die "$row t$threads: millrace failed; its log: $(tail -n 5 "$WORK/millrace-$dataset.log")"
                log "$row t$threads: $variant failed and is left out here"
                failed+="$variant "
                unmount "$variant" "$dataset"
            fi
        done
    done
    log "$row t$threads: $(summary "$row" "$threads" "$baseline")"
}

summary() # ROW THREADS BASELINE: a line while it runs
{
    awk -v row="$1" -v t="$2" '$1 == row && $2 == t { n[$3]++; s[$3] += $5; b[$3] += $6; o[$3] += $7 }
        END { for (v in n) { r = (b[v] ? b[v] / 1e6 : o[v] / 1e3) / s[v]; printf r < 10 ? "%s %.1f %s  " : "%s %.0f %s  ", v, r, b[v] ? "MB/s" : "kop/s" } }' "$WORK/results"
}

measure_all()
{
    local row rest
    : >"$WORK/results"
    while read -r row rest; do
        # shellcheck disable=SC2086 # words
        set -- $rest
        case $4 in
        cpu) ;;
        memory) measure_memory "$row" "$5" "$6" "$7" ;;
        *) measure_row "$row" "$@" ;;
        esac
    done < <(rows_wanted)
    unmount_all
}

# --- memory --------------------------------------------------------------------------------------------------------------------

page_cache() # bytes: of all files of this machine, which should do nothing else
{
    awk '$1 == "Cached:" { print $2 * 1024 }' /proc/meminfo
}

measure_memory() # ROW DATASET WHAT PROFILE
{
    local row=$1 dataset=$2 value mnt before
    unmount millrace "$dataset"
    order "$dataset" memory 1
    mnt=$WORK/mnt-millrace-$dataset
    case $3 in
    page-cache)
        populate millrace "$dataset" "$4"
        remount millrace "$dataset" "$4"
        drop_caches
        before=$(page_cache)
        fs_read seq "$mnt" "$WORK/order" 1 >/dev/null
        value=$(awk -v a="$(($(page_cache) - before))" -v b="$((4 * LARGE_BYTES))" 'BEGIN { printf "%.2f", a / b }')
        ;;
    inode)
        mount_variant millrace "$dataset" "$4"
        before=$(rss_kib_of millrace "$dataset")
        fs_read stat "$mnt" "$WORK/order" 1 >/dev/null
        value=$((($(rss_kib_of millrace "$dataset") - before) * 1024 / $(wc -l <"$WORK/order")))
        ;;
    backing)
        populate millrace "$dataset" "$4"
        value=$("$CLI" stat "$mnt" --json | sed -n 's/.*"backingFiles": *\([0-9]*\).*/\1/p')
        ;;
    rest)
        mount_variant millrace "$dataset" "$4"
        value=$(rss_of millrace "$dataset")
        ;;
    stream)
        wipe millrace "$dataset"
        mount_variant millrace "$dataset" "$4"
        fs_read seq "$mnt" "$WORK/order" 1 >/dev/null
        value=$(peak_rss_of millrace "$dataset")
        ;;
    esac
    unmount millrace "$dataset"
    record "$row" 1 millrace 1 1 0 "${value:-nan}" 0 0
    log "$row: ${value:-unknown}"
}
