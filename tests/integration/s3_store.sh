#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw moto
# The S3 store against two real servers: what it promises as every store does, and what is its own.
#   s3_store.sh PROGRAM CONFORMANCE (test_s3_live, test_store_conformance)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/moto_lib.sh
. "$(dirname "$(readlink -f "$0")")/moto_lib.sh"
status=0

both() # SERVER PROGRAM CONFORMANCE: their cases, named after the server, numbered on
{
    echo "# $1"
    S3_ENDPOINT=$AWS_ENDPOINT_URL "$2" >"$WORK/live" || status=1
    MILLRACE_STORE_URL=s3://data/conformance "$3" >"$WORK/conformance" || status=1
    sed -E "/^1\.\./d; s/^((not )?ok [0-9]+ - )/\1$1: /" "$WORK/live" "$WORK/conformance" >>"$WORK/cases"
}

export AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123
s3_start
export AWS_ENDPOINT_URL=$S3_ENDPOINT
both versitygw "$@"
unset S3_ROOT
moto_start many
export AWS_ENDPOINT_URL=$MOTO_ENDPOINT
trap 'moto_end; s3_cleanup' EXIT
both moto "$@"
awk '/^(not )?ok [0-9]/ { n++; sub(/ok [0-9]+/, "ok " n) } { print } END { print "1.." n }' "$WORK/cases"
exit "$status"
