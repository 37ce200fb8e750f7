# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Others' suites of file systems at full length: a million operations of fsx on a directory, and on S3 while the serving process is killed
# every second. It says how long each took; it fails where a byte is another one.
#   hack/bench posix [--ops N] [--seed N]
# Needs root, /dev/fuse and build/release (cmake --preset release; ninja -C build/release millrace-fuse).

# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
need_root "hack/bench posix"
export MILLRACE_FSX_OPS=1000000 MILLRACE_BUILD=$ROOT/build/release
while [ $# -gt 0 ]; do
    case $1 in
    --ops) MILLRACE_FSX_OPS=${2:?--ops needs a number} ;;
    --seed) export MILLRACE_FSX_SEED=${2:?--seed needs a number} ;;
    *)
        sed -n '4,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
    esac
    shift 2
done
"$ROOT/hack/setup" posix versitygw
[ -x "$MILLRACE_BUILD/bin/millrace-fuse" ] || die "no $MILLRACE_BUILD/bin/millrace-fuse"
# shellcheck disable=SC2016 # expanded by that bash
unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc bash -c 'ip link set lo up && exec "$@"' - \
    bash "$ROOT/tests/integration/posix_writes.sh"
