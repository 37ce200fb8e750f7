#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: hadoop
# timeout: 900
# A pair of real name nodes under a real mount: the active one steps down, and is killed, while files are read and written. No read
# fails, and what was acknowledged is there. With both dead, what fails says so in time, and works again when one is back.
set -euo pipefail
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
# shellcheck source=tests/integration/hdfs_lib.sh
. "$(dirname "$(readlink -f "$0")")/hdfs_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
leave()
{
    local status=$?
    touch "$WORK/stop"
    [ "$status" = 0 ] || tail -n 15 "$WORK"/hadoop/{name1,name2,data,client}.log "$WORK/reads" "$WORK/writes" >&2 || true
    hdfs_end
    (exit "$status") && : # for fuse_cleanup
    fuse_cleanup
}
trap leave EXIT
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY

# A name node on standby tells that to who asks for a file; its web server takes its time to start.
stands_by() # HOST:PORT
{
    [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$1/webhdfs/v1/?op=GETFILESTATUS&user.name=root")" = 403 ]
}
serves() { hdfs_does "$1" GET '/?op=GETFILESTATUS' >/dev/null; }
active_becomes() # NAME: by force, as the other one is dead and cannot be asked
{
    hdfs_until "$1 to be active" hdfs haadmin -transitionToActive --forceactive "$1"
    hdfs_until "$1 to serve" serves "${HDFS_HTTP[${1#name} - 1]}"
}

mount_nodes() # DEADLINE HOST:PORT…
{
    local deadline=$1 nodes
    shift
    nodes=$(IFS=,; echo "$*")
    rm -rf "$CACHE"
    mkdir -p "$CACHE"
    MOUNT_JSON="{\"mountPoint\":\"hdfs://cluster/data\",\"options\":{\"name-nodes\":\"$nodes\",\"user\":\"$(id -un)\"}}"
    fuse_config 'cache={"tiers":[{"medium":"SSD","quota":16000000}]}'
    fuse_mount --store-deadline "$deadline" --metadata-sync 1s
}

# Reads files that the cache has not the room for, one after the other, and writes others: a name is noted when its bytes are safe.
work_begin()
{
    rm -f "$WORK/stop"
    : >"$WORK/reads"
    : >"$WORK/writes"
    python3 - "$MNT" "$WORK" "$1" <<'PY' &
import hashlib, os, sys, threading
top, work, round = sys.argv[1:]
sums = dict(reversed(line.split()) for line in open(work + "/sums"))
stop = lambda: os.path.exists(work + "/stop")
def say(name, text):
    with open(work + "/" + name, "a") as f:
        f.write(text + "\n")
def reader(first):
    i = first
    while not stop():
        name = "r%d" % (i % len(sums))
        i += 1
        try:
            with open(top + "/" + name, "rb") as f:
                same = hashlib.sha256(f.read()).hexdigest() == sums[name]
            say("reads", "same" if same else "WRONG " + name)
        except OSError as e:
            say("reads", "FAILED %s %s" % (name, e))
def writer():
    i = 0
    while not stop():
        name = "w%s-%d" % (round, i)
        i += 1
        data = os.urandom(3000000)
        try:
            with open(top + "/" + name, "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            say("writes", "%s %s" % (hashlib.sha256(data).hexdigest(), name))
        except OSError as e:
            say("writes", "FAILED %s %s" % (name, e))
threads = [threading.Thread(target=reader, args=(i * 3,)) for i in range(3)] + [threading.Thread(target=writer)]
for t in threads: t.start()
for t in threads: t.join()
PY
    worker=$!
}
lines_beyond() { [ "$(wc -l <"$WORK/$1")" -gt "$2" ]; } # FILE COUNT
goes_on() # both, after what has just been done
{
    local reads writes
    reads=$(wc -l <"$WORK/reads") writes=$(wc -l <"$WORK/writes")
    hdfs_until "reads to go on" lines_beyond reads $((reads + 10))
    hdfs_until "writes to go on" lines_beyond writes $((writes + 3))
}
work_end() # WHAT
{
    local lost=0 sum name
    touch "$WORK/stop"
    wait "$worker"
    is "$1: no read fails or is wrong" "" "$(grep -v '^same$' "$WORK/reads" || true)"
    is "$1: no write fails" "" "$(grep FAILED "$WORK/writes" || true)"
    # by Hadoop's own client, all at once
    rm -rf "$WORK/theirs"
    hdfs dfs -get /data "$WORK/theirs"
    while read -r sum name; do
        echo "$sum  $WORK/theirs/$name" | sha256sum --status -c - || lost=$((lost + 1))
    done <"$WORK/writes"
    is "$1: what was acknowledged is in HDFS" "some, 0 lost" "$([ -s "$WORK/writes" ] && echo some), $lost lost"
    is "$1: and nothing is half written" "" "$(hdfs dfs -ls -C /data | grep millrace-put || true)"
}

hdfs_start ha
hdfs_does "${HDFS_HTTP[0]}" PUT '/data?op=MKDIRS' >/dev/null
mkdir "$WORK/source"
for i in $(seq 0 9); do head -c 5000000 /dev/urandom >"$WORK/source/r$i"; done
(cd "$WORK/source" && sha256sum r*) >"$WORK/sums"
hdfs dfs -put "$WORK"/source/* /data/
hdfs_until "the standby's web server" stands_by "${HDFS_HTTP[1]}"

# -- the active one steps down
mount_nodes 120s "${HDFS_HTTP[@]}"
work_begin 1
goes_on
hdfs_until "the fail-over" hdfs haadmin -failover name1 name2
goes_on
work_end "a fail-over"

# -- the active one dies, and the other takes over
work_begin 2
goes_on
hdfs_kill name2
active_becomes name1
goes_on
work_end "a killed name node"
fuse_umount

# -- the first of them is dead, or stands by
mount_nodes 60s "${HDFS_HTTP[1]}" "${HDFS_HTTP[0]}"
is "mounts with the first name node dead" "$(sha256sum <"$WORK/source/r1")" "$(sha256sum <"$MNT/r1")"
fuse_umount
hdfs_run name2
hdfs_until "the other name node" stands_by "${HDFS_HTTP[1]}"
mount_nodes 10s "${HDFS_HTTP[1]}" "${HDFS_HTTP[0]}"
is "and with the first one on standby" "$(sha256sum <"$WORK/source/r2")" "$(sha256sum <"$MNT/r2")"

# -- none is active; both are dead
hdfs_until "no name node to be active" hdfs haadmin -transitionToStandby name1
run timeout 100 cat "$MNT/r3"
has "none is active: the read fails in time" "Input/output error" "$out"
has "and it is told why" "none of the name nodes is active: name all of them in option name-nodes" \
    "$(getfattr --only-values -n user.millrace.error "$MNT/r3" 2>&1 || true)"
hdfs_kill name1
hdfs_kill name2
run timeout 100 cat "$MNT/r4"
has "both are dead: the read fails in time" "Input/output error" "$out"
has "and it is told why" "Unreachable" "$(getfattr --only-values -n user.millrace.error "$MNT/r4" 2>&1 || true)"
hdfs_run name1
active_becomes name1
hdfs_until "HDFS" hdfs_serves "${HDFS_HTTP[0]}"
again() { [ "$(sha256sum <"$MNT/r4")" = "$(sha256sum <"$WORK/source/r4")" ]; }
hdfs_until "reads, when one is back" again
is "one is back: it is read again" yes yes
echo "1..$count"
exit "$failed"
