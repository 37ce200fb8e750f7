#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: hadoop
# An HDFS in secure mode, with a KDC, and delegation tokens from it that are cancelled and expire while files are read and written.
#   hdfs_tokens.sh DIRECTORY (with millrace and millrace-fuse in it)
set -euo pipefail
# shellcheck source=tests/integration/hdfs_lib.sh
. "$(dirname "$(readlink -f "$0")")/hdfs_lib.sh"
# shellcheck source=tests/integration/cli_lib.sh
. "$(dirname "$(readlink -f "$0")")/cli_lib.sh"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-hdfs.XXXXXX")
leave()
{
    local status=$?
    [ "$status" = 0 ] || tail -n 15 "$WORK"/hadoop/*.log "$WORK/kerberos/log" >&2 || true
    ! mountpoint -q "$WORK/mnt" || millrace umount "$WORK/mnt" || umount -l "$WORK/mnt"
    hdfs_end
    cd /
    rm -rf "$WORK"
}
trap leave EXIT
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
export XDG_CACHE_HOME=$WORK/xdg
cd "$WORK"
hdfs_kerberos
HDFS_MORE+=(dfs.namenode.delegation.token.renew-interval=60000)
hdfs_start
server=${HDFS_HTTP[0]} url=webhdfs://${HDFS_HTTP[0]}

token() { hdfs_does "$server" GET "/?op=GETDELEGATIONTOKEN&renewer=$(id -un)" | jq -re .Token.urlString; }
use() { printf %s "$1" >secrets/new && mv secrets/new secrets/delegation-token; } # TOKEN
# Without Kerberos, as we do.
answers() # TOKEN: the status
{
    curl -s -o /dev/null -w '%{http_code}' "http://$server/webhdfs/v1/?op=GETFILESTATUS&delegation=$1"
}
refused() { [ "$(answers "$1")" = 403 ]; }

mkdir -m 700 secrets mnt
head -c 9000000 /dev/urandom >big
run millrace ls "$url/"
has "who has no token is told" "AccessDenied (401): set option user, or delegation-token from a Secret" "$out"
run millrace ls --option user=root "$url/"
has "and a user's name is none" "AccessDenied (401)" "$out"
now=$(token)
use "$now"
is "the token is a real one" 200 "$(answers "$now")"
run millrace cp --secrets-dir secrets big "$url/big"
is "writes by a token, to the data node, too" "0:" "$status:$out"
run millrace cp --secrets-dir secrets big "$url/fresh"
is "and another file, which is not read yet" "0:" "$status:$out"
run millrace mount --secrets-dir secrets --cache-dir "$WORK/cache" --cache-size 16MiB "$url/" mnt
is "mounts by a token" 0 "$status"

# -- each is cancelled while the file is read and another one is written
cat >work.py <<'PY'
import hashlib, os, sys
top, sum = sys.argv[1:]
rounds = 0
while not os.path.exists("stop"):
    with open(top + "/big", "rb") as f:
        got = hashlib.sha256()
        while piece := f.read(1 << 20):
            got.update(piece)
    if got.hexdigest() != sum:
        sys.exit("other bytes")
    with open("%s/w%d" % (top, rounds), "wb") as f:
        f.write(b"x" * 3000000)
        os.fsync(f.fileno())
    rounds += 1
    open("rounds", "a").write(".")
PY
rounds() { stat -c %s rounds 2>/dev/null || echo 0; }
python3 work.py mnt "$(sha256sum <big | cut -d ' ' -f 1)" >said 2>&1 &
worker=$!
while [ "$(rounds)" -lt 4 ] && [ -e "/proc/$worker" ]; do
    before=$now
    now=$(token)
    use "$now"
    hdfs_does "$server" PUT "/?op=CANCELDELEGATIONTOKEN&token=$before" >/dev/null
done
is "the tokens of before are refused" 403 "$(answers "$before")"
touch stop
status=0
wait "$worker" || status=$?
is "no read and no write failed" "0:" "$status:$(cat said)"

# -- one expires, and there is no other
wait_for refused "$now" || true
run cmp big mnt/fresh
is "a read by an expired token fails" "2:cmp: mnt/fresh: Permission denied" "$status:$out"
run millrace ls --secrets-dir secrets "$url/"
has "and says what to do" "put a new delegation token into the Secret" "$out"
has "and why" "ExpiredCredentials" "$out"
use "$(token)"
run cmp big mnt/fresh
is "a new one is used at once" "0:" "$status:$out"
use garbage
run millrace ls --secrets-dir secrets "$url/"
has "what is no token is told" "ExpiredCredentials" "$out"
echo "1..$count"
exit "$failed"
