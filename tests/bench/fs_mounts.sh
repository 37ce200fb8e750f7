# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What hack/bench fs mounts: ours and the others. A mount is named by variant and dataset: $WORK/mnt-VARIANT-DATASET, its cache
# $WORK/cache-VARIANT-DATASET, its log $WORK/VARIANT-DATASET.log. All of them serve s3://data/DATASET of the same server.

declare -A PIDS=() PROFILES=() POPULATED=()
VARIANTS=(millrace)

# One that is slow is read in one round only, and a part of the small files only, which it has as a dataset of its own.
is_slow() # VARIANT
{
    [ "$1" = alluxio ]
}

data_of() # VARIANT DATASET: what it is given as the dataset
{
    if is_slow "$1" && [ -e "$WORK/$2-part.list" ]; then echo "$2-part"; else echo "$2"; fi
}

variants_find()
{
    local peer
    [ "$PEERS" != none ] || return 0
    for peer in s3fs rclone alluxio; do
        [ "$PEERS" = auto ] || [[ ,$PEERS, = *",$peer,"* ]] || continue
        if "find_$peer"; then
            VARIANTS+=("$peer")
        fi
    done
    [ "$PEERS" = auto ] || for peer in ${PEERS//,/ }; do
        [[ " ${VARIANTS[*]} " = *" $peer "* ]] || die "$peer could not be had; hack/bench fs --help names the peers"
    done
    log "measured: native ${VARIANTS[*]}"
}

find_s3fs()
{
    command -v s3fs >/dev/null || apt_install s3fs || { log "no s3fs: its Debian package cannot be installed"; return 1; }
}

find_rclone()
{
    command -v rclone >/dev/null || apt_install rclone || { log "no rclone: its Debian package cannot be installed"; return 1; }
}

# --- mounting -------------------------------------------------------------------------------------------------------------------

start_millrace() # DATASET MOUNTPOINT CACHE PROFILE
{
    PATH=$BIN:$PATH exec "$CLI" mount "s3://data/$1" "$2" --foreground --read-only --cache-dir "$3" --cache-size 64Gi --memory-size 0 \
        --immutable="$([ "$4" = sealed ] && echo true || echo false)" --option "endpoint=$ENDPOINT" --option path-style=true --option region=us-east-1 --metadata-sync 1h
}

start_s3fs()
{
    (umask 077 && printf '%s:%s\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" >"$WORK/s3fs.passwd")
    mkdir -p "$3"
    exec s3fs "data:/$1" "$2" -f -o "url=$ENDPOINT,use_path_request_style,passwd_file=$WORK/s3fs.passwd,use_cache=$3,ro" \
        -o stat_cache_expire=3600,parallel_count=16,kernel_cache,max_stat_cache_size=1000000
}

start_rclone()
{
    mkdir -p "$3"
    RCLONE_S3_PROVIDER=Other RCLONE_S3_ENDPOINT=$ENDPOINT RCLONE_S3_ENV_AUTH=true RCLONE_CONFIG=/dev/null \
        exec rclone mount ":s3:data/$1" "$2" --read-only --vfs-cache-mode full --cache-dir "$3" --dir-cache-time 1h --attr-timeout 1h \
        --vfs-cache-max-age 24h --allow-other
}

mount_variant() # VARIANT DATASET PROFILE
{
    local variant=$1 dataset=$2 profile=$3 mnt=$WORK/mnt-$1-$2 end patience=30
    [ "$variant" != native ] || return 0
    ! is_slow "$variant" || patience=240
    mkdir -p "$mnt"
    "start_$variant" "$dataset" "$mnt" "$WORK/cache-$variant-$dataset" "$profile" >>"$WORK/$variant-$dataset.log" 2>&1 9>&- &
    PIDS[$variant-$dataset]=$!
    PROFILES[$variant-$dataset]=$profile
    end=$((SECONDS + patience))
    until mountpoint -q "$mnt" && [ -n "$(timeout 20 ls "$mnt")" ]; do
        if ! kill -0 "${PIDS[$variant-$dataset]}" 2>/dev/null || [ $SECONDS -gt $end ]; then
            log "$variant does not mount: $(tail -n 3 "$WORK/$variant-$dataset.log")"
            return 1
        fi
        nap 0.02
    done
}

is_mounted() # VARIANT DATASET PROFILE
{
    [ "$1" = native ] && [ -n "${POPULATED[native-$2]:-}" ] && return 0
    [ "${PROFILES[$1-$2]:-}" = "$3" ] || { [ "$1" != millrace ] && [ -n "${PROFILES[$1-$2]:-}" ]; }
}

unmount() # VARIANT DATASET
{
    local mnt=$WORK/mnt-$1-$2 pid=${PIDS[$1-$2]:-} all
    POPULATED[native-$2]=''
    [ -n "$pid" ] || return 0
    all=$(pids_of "$1" "$2")
    ! mountpoint -q "$mnt" || umount "$mnt" 2>/dev/null || umount -l "$mnt"
    [ "$1" != alluxio ] || kill "$pid" 2>/dev/null || true # the others end when they are unmounted
    for _ in $(seq 200); do
        kill -0 "$pid" 2>/dev/null || break
        nap 0.05
    done
    # shellcheck disable=SC2086 # words
    ! kill -0 "$pid" 2>/dev/null || kill -9 $all 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    unset "PIDS[$1-$2]" "PROFILES[$1-$2]"
}

remount()
{
    unmount "$1" "$2"
    mount_variant "$@"
}

unmount_all()
{
    local name
    for name in "${!PIDS[@]}"; do unmount "${name%-*}" "${name##*-}"; done
}

variants_stop()
{
    local name all=''
    for name in "${!PIDS[@]}"; do
        all+=" $(pids_of "${name%-*}" "${name##*-}")"
        umount -l "$WORK/mnt-$name" 2>/dev/null || true
        kill "${PIDS[$name]}" 2>/dev/null || true
    done
    nap 0.2
    # shellcheck disable=SC2086 # words
    kill -9 $all 2>/dev/null || true
}

wipe() # VARIANT DATASET
{
    [ "$1" = native ] || toss "$WORK/cache-$1-$2"
    POPULATED[$1-$2]=''
}

# --- states ----------------------------------------------------------------------------------------------------------------------

root_of() # VARIANT DATASET
{
    if [ "$1" = native ]; then echo "$S3_DATA/$2"; else echo "$WORK/mnt-$1-$2"; fi
}

# Mounted, with all of the dataset in its cache on disk.
populate() # VARIANT DATASET PROFILE
{
    is_mounted "$@" || { unmount "$1" "$2" && mount_variant "$@"; } || return 1
    [ -z "${POPULATED[$1-$2]:-}" ] || return 0
    fs_read seq "$(root_of "$1" "$2")" "$WORK/$(data_of "$1" "$2").list" 16 >/dev/null || return 1
    POPULATED[$1-$2]=1
}

# What the variant keeps on disk is in the page cache: of the disk's file system, not of the mount's.
cached_in_memory() # VARIANT DATASET
{
    local dir=$WORK/cache-$1-$2
    [ "$1" != native ] || dir=$S3_DATA/$2
    [ ! -d "$dir" ] || find "$dir" -type f -size +0 ! -name index -print0 | xargs -0 -r cat >/dev/null
}

# --- what it costs ---------------------------------------------------------------------------------------------------------------

pids_of() # VARIANT DATASET: the processes that serve it, with their children and theirs
{
    local pids=${PIDS[$1-$2]:-} all=''
    while [ -n "$pids" ]; do
        all+=" $pids"
        pids=$(pgrep -P "${pids// /,}" -d ' ' || true)
    done
    echo "$all"
}

cpu_of() # VARIANT DATASET: seconds so far
{
    local pid
    for pid in $(pids_of "$1" "$2"); do cat "/proc/$pid/stat" 2>/dev/null || true; done |
        awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); s += $12 + $13 } END { printf "%.2f", s / hz }'
}

# What its processes have in memory; what they share counts once.
rss_kib_of() # VARIANT DATASET
{
    local pid
    for pid in $(pids_of "$1" "$2"); do cat "/proc/$pid/smaps_rollup" 2>/dev/null || true; done | awk '$1 == "Pss:" { s += $2 } END { print s + 0 }'
}

status_of() # FIELD VARIANT DATASET: KiB
{
    local pid
    for pid in $(pids_of "$2" "$3"); do cat "/proc/$pid/status" 2>/dev/null || true; done | awk -v f="$1:" '$1 == f { s += $2 } END { print s + 0 }'
}

rss_of() { awk -v k="$(rss_kib_of "$@")" 'BEGIN { printf "%.1f", k / 1024 }'; }

peak_rss_of() { awk -v k="$(status_of VmHWM "$@")" 'BEGIN { printf "%.1f", k / 1024 }'; }

# --- the report -------------------------------------------------------------------------------------------------------------------

report() # JSON
{
    local slow='' variant note='1 round, with JVMs just started where the row is cold'
    for variant in "${VARIANTS[@]}"; do ! is_slow "$variant" || slow=$variant; done
    [ ! -e "$WORK/small-part.list" ] || note+=", $PART_FILES of the $(wc -l <"$WORK/small.list") small files"
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "$GOALS" | awk -v json="$1" -v results="$WORK/results" -v slow="$slow" -v note="$note" -f "$BENCH_DIR/fs_report.awk"
    log "the figures: $1"
}
