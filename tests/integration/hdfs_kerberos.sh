#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: hadoop
# An HDFS in secure mode, with a KDC: by keytab and by credential cache; tokens that are renewed and replaced, with the KDC and without.
#   hdfs_kerberos.sh DIRECTORY (with millrace and millrace-fuse in it)
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
HDFS_MORE+=(dfs.namenode.delegation.token.renew-interval=20000 dfs.namenode.delegation.token.max-lifetime=40000)
hdfs_start
url=webhdfs://${HDFS_HTTP[0]} me=$(id -un)@MILLRACE.TEST
names=$WORK/hadoop/name1.log
made() { grep -c "Creating password for identifier.*TOKEN" "$names" || true; }
renewed() { grep -c "Token renewal for identifier" "$names" || true; }
more_than() { [ "$("$1")" -gt "$2" ]; } # COUNTER NUMBER

mkdir -m 700 secrets wrong mnt
cp "$HDFS_KEYTAB" secrets/keytab
cp "$KRB5_CONFIG" secrets/krb5-conf
# The machine knows neither realm nor key: all of it comes from the Secret.
plain() { env -u KRB5_CLIENT_KTNAME KRB5_CONFIG=/dev/null KRB5CCNAME="FILE:$WORK/none" millrace "$@"; }
head -c 9000000 /dev/urandom >big

# -- by keytab
run plain cp --secrets-dir secrets --option kerberos=true big "$url/big"
is "writes by a keytab, to the data node, too" "0:" "$status:$out"
run plain cp --secrets-dir secrets --option kerberos=true --option "principal=$me" "$url/big" back
is "reads by it, with the principal" "0:" "$status:$out"
cmp big back

# -- what is wrong is told
run plain ls --option kerberos=true "$url/"
has "without a keytab: run kinit" "run kinit, or give a keytab" "$out"
run plain ls --secrets-dir secrets --option kerberos=true --option "principal=who@MILLRACE.TEST" "$url/"
has "a principal that the keytab has not" "AccessDenied: Kerberos:" "$out"
cp secrets/krb5-conf wrong/
run plain ls --secrets-dir wrong --option kerberos=true "$url/"
has "a Secret without a keytab" "option kerberos needs a keytab" "$out"
kadmin.local addprinc -randkey other >/dev/null
kadmin.local ktadd -k "$WORK/wrong/keytab" other >/dev/null
kadmin.local ktadd -k "$WORK/newer" other >/dev/null
run plain ls --secrets-dir wrong --option kerberos=true "$url/"
has "a keytab that is no longer the newest" "is the keytab of that principal, and its newest?" "$out"
echo garbage >wrong/keytab
run plain ls --secrets-dir wrong --option kerberos=true "$url/"
has "what is no keytab" "AccessDenied: Kerberos:" "$out"
printf '[plugins]\npwqual = { module = x:/tmp/x.so }\n' >wrong/krb5-conf
cp "$HDFS_KEYTAB" wrong/keytab
run plain ls --secrets-dir wrong --option kerberos=true "$url/"
has "a krb5.conf that loads modules" "option krb5-conf has the word 'module' in it" "$out"
cp secrets/krb5-conf wrong/
echo token >wrong/delegation-token
run plain ls --secrets-dir wrong --option kerberos=true "$url/"
has "a token, too" "two ways to say who we are" "$out"
run plain ls --option "principal=$me" "$url/"
has "a principal without Kerberos" 'set option kerberos to "true"' "$out"
run plain ls "$url/"
has "nothing at all" "or option kerberos" "$out"

# -- by the user's own credential cache
kinit -k -t "$HDFS_KEYTAB" -c "FILE:$WORK/tickets" "$me"
run env -u KRB5_CLIENT_KTNAME KRB5CCNAME="FILE:$WORK/tickets" millrace ls --option kerberos=true "$url/"
has "by kinit's tickets" "big" "$out"

# -- a mount, whose token is replaced and renewed while it is read and written
run plain mount --secrets-dir secrets --option kerberos=true --cache-dir "$WORK/cache" --cache-size 16MiB "$url/" mnt
is "mounts by a keytab" 0 "$status"
cat >work.py <<'PY'
import hashlib, os, sys, time
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
    time.sleep(0.2)
PY
python3 work.py mnt "$(sha256sum <big | cut -d ' ' -f 1)" >said 2>&1 &
worker=$!
cancel() # what the mount has now
{
    local token
    token=$(grep -o 'op=CREATE[^ ]*delegation=[^& ]*' "$names" | tail -n 1)
    hdfs_does "${HDFS_HTTP[0]}" PUT "/?op=CANCELDELEGATIONTOKEN&token=${token##*=}" >/dev/null
}
wait_for test -e mnt/w0
before=$(made)
cancel
wait_for more_than made "$before" || true
is "it is replaced when it is refused" yes "$(more_than made "$before" && echo yes)"
before=$(renewed)
wait_for more_than renewed $((before + 1)) || true
is "it is renewed" yes "$(more_than renewed $((before + 1)) && echo yes)"
before=$(made)
wait_for more_than made "$before" || true
is "and replaced at the end of its life" yes "$(more_than made "$before" && echo yes)"
touch stop
status=0
wait "$worker" || status=$?
is "no read and no write failed" "0:" "$status:$(cat said)"

# -- the KDC is away: a token is used for as long as it holds, and all goes on when the KDC is back
writes() { python3 -c 'import os, sys; f = open("mnt/p" + sys.argv[1], "wb"); f.write(b"x"); os.fsync(f.fileno())' "$1"; }
cancel
run writes 1 # by a new one
hdfs_kill kdc
run writes 2
is "a token that holds is used without the KDC" "0:" "$status:$out"
run plain ls --secrets-dir secrets --option kerberos=true "$url/"
has "who has none is told why" "Unreachable: Kerberos:" "$out"
has "and what to look at" "is the KDC that krb5.conf names reachable from here?" "$out"
before=$(made)
cancel || true # if it has not expired meanwhile
writes 3 >said 2>&1 &
writer=$!
hdfs_kdc
status=0
wait "$writer" || status=$?
is "all goes on when it is back" "0:" "$status:$(cat said)"
is "with another token" yes "$(more_than made "$before" && echo yes)"
echo "1..$count"
exit "$failed"
