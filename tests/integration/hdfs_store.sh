#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: hadoop
# The HDFS store against a real HDFS: what it promises as every store does, and what is its own.
#   hdfs_store.sh CONFORMANCE MILLRACE (test_store_conformance, millrace)
set -euo pipefail
# shellcheck source=tests/integration/hdfs_lib.sh
. "$(dirname "$(readlink -f "$0")")/hdfs_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-hdfs.XXXXXX")
trap 'hdfs_end; cd /; rm -rf "$WORK"' EXIT
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
conformance=$1 millrace=$2
cd "$WORK"
hdfs_start

server=${HDFS_HTTP[0]} url=webhdfs://${HDFS_HTTP[0]}
HADOOP_USER_NAME=$(id -un)
export HADOOP_USER_NAME
hdfs_does "$server" PUT '/con%25f+o%20r?op=MKDIRS' >/dev/null # each path has what must be escaped
MILLRACE_STORE_URL="$url/con%f+o r" "$conformance" >cases || failed=1
sed '/^1\.\./d' cases
count=$(grep -cE '^(not )?ok [0-9]' cases)

# -- what Hadoop's own client sees, and what it has made
head -c 9000000 /dev/urandom >big # three blocks
run "$millrace" cp big "$url/a%41 b+c/ü;#?&=.bin"
has "a directory that is not there is told" NotFound "$out"
hdfs_does "$server" PUT '/a%2541%20b+c?op=MKDIRS' >/dev/null
run "$millrace" cp big "$url/a%41 b+c/ü;#?&=.bin"
is "a file of an odd name in an odd directory" "0:" "$status:$out"
is "is the same to Hadoop" "$(sha256sum <big)" "$(hdfs dfs -cat '/a%41 b+c/ü;#?&=.bin' | sha256sum)"
echo theirs >small
hdfs dfs -put small '/a%41 b+c/x%2By%.txt'
run "$millrace" cp "$url/a%41 b+c/x%2By%.txt" back
is "a file of Hadoop's client is the same to us" "0:theirs" "$status:$(cat back)"
is "names of both, as they are" "x%2By%.txt ü;#?&=.bin" "$("$millrace" ls "$url/a%41 b+c" | sort | tr '\n' ' ' | sed 's/ $//')"
is "nothing else is there" 2 "$(hdfs dfs -ls -C '/a%41 b+c' | wc -l)"
run "$millrace" cp small "$url/a:b"
has "a name that HDFS has not is told" "HDFS allows no ':' in names" "$out"

# -- listings come in pages of 200
for i in $(seq 450); do echo "url = http://$server/webhdfs/v1/many/d$i/e?op=MKDIRS&user.name=$HADOOP_USER_NAME"; done \
    | curl -sf -X PUT -K - >/dev/null
run "$millrace" ls "$url/many/"
is "three pages" "$(seq -f 'd%g/' 450 | sort)" "$(sort <<<"$out")"
for i in 7 77 277; do hdfs_does "$server" PUT "/many/d$i/e/f?op=MKDIRS" >/dev/null; done
hdfs dfs -put small /many/d77/e/one
hdfs dfs -put small /many/d450/two
run "$millrace" ls --recursive "$url/many"
is "files of a tree of some pages" $'d450/two\nd77/e/one' "$(sort <<<"$out")"

# -- who may what
hdfs_does "$server" PUT '/mine?op=MKDIRS&permission=700' >/dev/null
run env HADOOP_USER_NAME=other "$millrace" ls "$url/mine/"
has "who may not is told why" "AccessDenied: Permission denied: user=other, access=READ_EXECUTE, inode=\"/mine\"" "$out"
run env HADOOP_USER_NAME=other "$millrace" cp small "$url/mine/x"
has "and what to do" "set another one in option user" "$out"
run env HADOOP_USER_NAME='no such' "$millrace" ls "$url/"
has "a user that is none is told" "correct option user" "$out"
hdfs dfs -chmod 640 '/a%41 b+c/x%2By%.txt'
run "$millrace" cp small "$url/a%41 b+c/x%2By%.txt"
is "what replaces a file is as open as that was" "0:-rw-r-----" "$status:$(hdfs dfs -ls '/a%41 b+c/x%2By%.txt' | cut -d ' ' -f 1)"

# -- what is broken
hdfs dfsadmin -safemode enter >/dev/null
run timeout 100 "$millrace" cp small "$url/late"
has "safe mode is told" "is in safe mode" "$out"
run "$millrace" cp "$url/many/d77/e/one" back
is "and is read from" "0:theirs" "$status:$(cat back)"
hdfs dfsadmin -safemode leave >/dev/null
run "$millrace" cp small "$url/late"
is "and then it is written" "0:" "$status:$out"
find "$WORK/hadoop/blocks" -name 'blk_*' -size -2 -delete
run timeout 100 "$millrace" cp "$url/late" back
has "lost blocks are told" "late: " "$out"
is "and are no content" 1 "$status"
run "$millrace" ls "webhdfs://127.0.0.1:1/"
has "where nobody answers" "Unreachable" "$out"
run "$millrace" ls "webhdfs://${HDFS_RPC[0]}/"
is "the port of RPC is no WebHDFS" 1 "$status"

echo "1..$count"
exit "$failed"
