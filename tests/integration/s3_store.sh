#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# The S3 store against a real server.  s3_store.sh PROGRAM (test_s3_live)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
s3_start
"$1"
