# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the tests whose machine loses its power, instead of fuse_lib.sh: the disk $DISK is an ext4 of its own that is shut down as a
# power cut does it (what was not flushed is lost), all processes are killed, and what comes back is another boot.
if [ -z "${CUT_NAMESPACE:-}" ]; then # another boot id for us alone
    export CUT_NAMESPACE=yes
    exec unshare --mount --propagation private "$0" "$@"
fi
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
IMAGE=$WORK/disk.img DISK=$WORK/disk

disk_mount() { mount -o loop,commit=1 "$IMAGE" "$DISK"; }

disk_make() # or the test is skipped
{
    modprobe -q loop 2>/dev/null || true
    mkdir -p "$DISK"
    { truncate -s 512M "$IMAGE" && mkfs.ext4 -q -F -J size=8 "$IMAGE" && disk_mount; } 2>"$WORK/disk.out" || {
        echo "SKIP: no ext4 on a loop device here: $(tail -n 1 "$WORK/disk.out")"
        exit 77
    }
}

power_goes() # under $SUPERVISOR and what it serves at $MNT
{
    local pid
    pid=$(served)
    "$BUILD/bin/disk_cut" "$DISK"
    kill -9 "$SUPERVISOR" ${pid:+"$pid"}
    wait "$SUPERVISOR" 2>/dev/null || true
    SUPERVISOR=''
}

power_comes() # all that was open there is closed by then, or will be soon
{
    unmount_dead
    wait_for "nobody having the disk" umount "$DISK" 2>/dev/null
    cat /proc/sys/kernel/random/uuid >"$WORK/boot_id"
    [ -n "${boot_is_ours:-}" ] || mount --bind "$WORK/boot_id" /proc/sys/kernel/random/boot_id
    boot_is_ours=yes
    disk_mount
}
