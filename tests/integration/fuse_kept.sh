#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# Two mounts of one store, and a node that goes down: whoever writes second is told so, what he wrote is kept, and nothing that the store
# has is replaced by it. And what is acknowledged is in the store.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"

status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
fd() { python3 -c "$1" "$MNT"; } # a program with the mount's path as its argument

for kind in posix s3; do
    fuse_source $kind
    export DATA
    echo first >"$DATA/ckpt"
    echo log >"$DATA/log"
    echo long >"$DATA/trunc"
    fuse_mount

    echo "# $kind: another node writes the file while it is open here"
    fd '
import errno, os, sys
f = os.open(sys.argv[1] + "/ckpt", os.O_WRONLY)
os.write(f, b"OURS")
data = os.environ["DATA"]
with open(data + "/.new", "w") as other:                     # as another node does
    other.write("theirs, and longer\n")
os.replace(data + "/.new", data + "/ckpt")
try:
    os.close(f)
    sys.exit("the close of the second writer succeeded")
except OSError as e:
    assert e.errno == errno.ESTALE, e
'
    [ "$(cat "$DATA/ckpt")" = "theirs, and longer" ] || die "the other writer's version was replaced"
    [ "$(cat "$MNT/ckpt")" = "theirs, and longer" ] || die "the name does not lead to the other writer's version"
    [ "$(status .kept.files)" = 1 ] || die "what was written is not kept"
    [ "$(status '.kept.paths[0].path')" = ckpt ] || die "it is not said what is kept"
    kept=$(status '.kept.dir + "/" + .kept.paths[0].file')
    [ "$(head -c 4 "$kept")" = OURS ] || die "what is kept is not what was written"
    "$BUILD/bin/millrace" stat "$MNT" >"$WORK/stat.out"
    grep -qF "$kept" "$WORK/stat.out" || die "millrace stat does not say where it is"
    curl -sf "http://$METRICS/metrics" | grep -x 'millrace_kept_files 1' >/dev/null || die "no metric"

    echo "# $kind: what is acknowledged is in the store"
    fd '
import os, sys
w = os.open(sys.argv[1] + "/log", os.O_WRONLY | os.O_APPEND)
r = os.open(sys.argv[1] + "/log", os.O_RDONLY)
os.write(w, b"more\n")
os.fsync(r)                                                  # whoever asks
assert open(os.environ["DATA"] + "/log").read() == "log\nmore\n"
os.close(w)
t = os.open(sys.argv[1] + "/trunc", os.O_RDONLY | os.O_TRUNC)
os.close(t)
assert open(os.environ["DATA"] + "/trunc").read() == ""
d = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
os.fsync(d)
'

    echo "# $kind: kept for ever"
    fuse_umount
    fuse_mount
    [ "$(status .kept.files)" = 1 ] || die "it is not kept any more"
    rm "$kept" "$kept.path"
    [ "$(status .kept.files)" = 0 ] || die "what was dropped is still told of"
    fuse_umount
    rm -rf "$CACHE" "${DATA:?}"/*
done

if [ "$(id -u)" = 0 ]; then
    echo "# in a cluster: it is said where it lies on the node"
    volume=csi.millrace.dev/volumes/team/0f9e
    mkdir -p "$WORK/kubelet/plugins/$volume/cache" "$WORK/run"
    mount --bind "$WORK/kubelet/plugins/$volume" "$WORK/run" # as the pod has its volume
    CACHE=$WORK/run/cache
    fuse_source posix
    export DATA
    echo first >"$DATA/ckpt"
    fuse_mount
    fd '
import errno, os, sys
f = os.open(sys.argv[1] + "/ckpt", os.O_WRONLY)
os.write(f, b"OURS")
data = os.environ["DATA"]
with open(data + "/.new", "w") as other:
    other.write("theirs\n")
os.replace(data + "/.new", data + "/ckpt")
try:
    os.close(f)
    sys.exit("the close of the second writer succeeded")
except OSError as e:
    assert e.errno == errno.ESTALE, e
'
    "$BUILD/bin/millrace" stat "$MNT" >"$WORK/stat.out"
    where=$(sed -n 's/^ *\(csi.millrace.dev[^ ]*\)$/\1/p' "$WORK/stat.out")
    [ "$where" = "$volume/cache/stage/kept/$(status '.kept.paths[0].file')" ] || die "the place on the node is not said: $(cat "$WORK/stat.out")"
    [ "$(head -c 4 "$WORK/kubelet/plugins/$where")" = OURS ] || die "it does not lie there"
    grep -q "below csi.cacheDir" "$WORK/stat.out" || die "it is not said below what"
    ! grep -F "$CACHE" "$WORK/stat.out" || die "the pod's own path is said, too"
    fuse_umount
    rm -rf "$CACHE" "${DATA:?}"/*
    umount "$WORK/run"
    CACHE=$WORK/cache

    echo "# the disk of the node is full: said in words, and nothing that is kept is lost"
    mkdir -p "$CACHE"
    mount -t tmpfs -o size=16m tmpfs "$CACHE"
    fuse_source posix
    export DATA
    fuse_config 'cache={"keepFree":0,"tiers":[{"medium":"MEM","quota":50000000}]}'
    echo first >"$DATA/ckpt"
    fuse_mount
    fd '
import errno, os, sys
data, ours = os.environ["DATA"], b"OURS" * 250000
f = os.open(sys.argv[1] + "/ckpt", os.O_WRONLY)
os.write(f, ours)
large = os.open(sys.argv[1] + "/large", os.O_WRONLY | os.O_CREAT)
try:
    for i in range(30):
        os.write(large, bytes(1 << 20))
    os.fsync(large)
    sys.exit("30 MB fit into 16 MB")
except OSError as e:
    assert e.errno == errno.ENOSPC, e
why = os.getxattr(sys.argv[1] + "/large", "user.millrace.error").decode()
assert "the disk of the cache directory is full; make room" in why, why
with open(data + "/.new", "w") as other:
    other.write("theirs\n")
os.replace(data + "/.new", data + "/ckpt")
try:
    os.close(f)
    sys.exit("the close of the second writer succeeded")
except OSError as e:
    assert e.errno == errno.ESTALE, e
'
    [ "$(cat "$DATA/ckpt")" = theirs ] || die "the other writer's version was replaced"
    [ "$(status .kept.files)" = 1 ] || die "what was written is not kept"
    [ "$(stat -c %s "$(status '.kept.dir + "/" + .kept.paths[0].file')")" = 1000000 ] || die "not all of it is kept"
    rm "$MNT/large"
    fuse_umount
    umount "$CACHE"
fi
echo ok
