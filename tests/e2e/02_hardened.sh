#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# What is shipped is hardened: each program of the release build, as the image has it.
. "$(dirname "$0")/lib.sh"

for program in operator csi gpu fuse worker; do programs+=("$BUILD/bin/millrace-$program"); done
for program in "${programs[@]}" "$BUILD/bin/millrace"; do
    step "${program##*/}"
    readelf --wide --file-header "$program" | grep -q 'Type: *DYN' || fail "$program has a fixed address"
    readelf --wide --dynamic "$program" >"$WORK/dynamic"
    grep -q 'BIND_NOW\|FLAGS_1.*NOW' "$WORK/dynamic" || fail "$program binds symbols while it runs"
    grep -q 'FLAGS_1.*PIE' "$WORK/dynamic" || fail "$program is no position-independent executable"
    readelf --wide --program-headers "$program" >"$WORK/headers"
    grep -q 'GNU_RELRO' "$WORK/headers" || fail "$program's tables can be written to"
    grep 'GNU_STACK' "$WORK/headers" | grep -q ' RW ' || fail "$program's stack can be executed"
    readelf --wide --dyn-syms "$program" >"$WORK/symbols"
    grep -q '__stack_chk_fail' "$WORK/symbols" || fail "$program's stack is not guarded"
    grep -q '_chk@' "$WORK/symbols" || fail "$program's buffers are not guarded"
done
