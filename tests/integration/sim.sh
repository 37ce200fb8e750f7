#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# Lives of a mount on a simulated disk, store and clock (tests/sim): kills at any change of a file, power cuts that lose and tear what was
# not flushed, answers of the store that are lost or late, writers on another node. A seed that fails is the same again:
#   build/asan/bin/sim -v SEED
#   MILLRACE_SIM_SEEDS=400 as many   MILLRACE_SIM_FIRST=1 from there on
set -euo pipefail
BUILD=${MILLRACE_BUILD:-$(dirname "$(readlink -f "$0")")/../../build/asan}
export ASAN_OPTIONS=detect_leaks=0 # a process that is killed has not given back what it had
"$BUILD/bin/sim" "${MILLRACE_SIM_FIRST:-1}" "${MILLRACE_SIM_SEEDS:-400}"
