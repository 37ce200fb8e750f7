#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: hadoop
# The HDFS store by other ways in than a name node's plain one: by TLS (swebhdfs, option tls), and by HttpFS.
#   hdfs_tls.sh CONFORMANCE MILLRACE (test_store_conformance, millrace)
set -euo pipefail
# shellcheck source=tests/integration/hdfs_lib.sh
. "$(dirname "$(readlink -f "$0")")/hdfs_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-hdfs.XXXXXX")
leave()
{
    local status=$?
    [ "$status" = 0 ] || tail -n 30 "$WORK"/hadoop/*.log >&2
    hdfs_end
    cd /
    rm -rf "$WORK"
}
trap leave EXIT
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY https_proxy HTTPS_PROXY
conformance=$1 millrace=$2
cd "$WORK"
HDFS_MORE+=("${HDFS_PROXY[@]}")
hdfs_tls
hdfs_start
HADOOP_USER_NAME=$(id -un)
export HADOOP_USER_NAME

keeps_promises() # URL
{
    MILLRACE_STORE_URL=$1 "$conformance" >cases || failed=1
    sed '/^1\.\./d' cases | sed "s/^\(\(not \)\?ok [0-9]* - \)/\1${1%%:*}: /"
    count=$((count + $(grep -cE '^(not )?ok [0-9]' cases)))
}
hdfs_does "${HDFS_HTTP[0]}" PUT '/tls?op=MKDIRS' >/dev/null
hdfs_does "${HDFS_HTTP[0]}" PUT '/httpfs?op=MKDIRS' >/dev/null
head -c 9000000 /dev/urandom >big

# -- by TLS, to the data node, too
run "$millrace" ls "swebhdfs://$HDFS_HTTPS/"
has "a certificate that nobody knows is told" "TLSFailed" "$out"
ca=(--option "ca-cert=$(cat "$HDFS_CA")")
run "$millrace" cp "${ca[@]}" big "swebhdfs://$HDFS_HTTPS/tls/big"
is "writes by TLS" "0:" "$status:$out"
run "$millrace" cp "${ca[@]}" --option tls=true --option "http-port=${HDFS_HTTPS#*:}" hdfs://127.0.0.1:8020/tls/big back
is "reads by TLS, by option tls" "0:$(sha256sum <big)" "$status:$(sha256sum <back)"
run "$millrace" ls --option tls-verify=false "swebhdfs://$HDFS_HTTPS/tls/"
is "without a look at the certificate, when told so" "0:big" "$status:$out"

# -- by HttpFS, which is in front of all nodes
hdfs_httpfs
keeps_promises "webhdfs://$HDFS_HTTPFS/httpfs"
run "$millrace" cp big "webhdfs://$HDFS_HTTPFS/httpfs/big"
is "HttpFS: what is written is the same to Hadoop" "0:$(sha256sum <big)" "$status:$(hdfs dfs -cat /httpfs/big | sha256sum)"
echo "1..$count"
exit "$failed"
