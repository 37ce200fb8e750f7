#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# timeout: 240
# A job says in which order it will read: the files are here when it comes to them, no more of them than fit, on a read-only mount and
# as nobody too.
set -euo pipefail
# shellcheck disable=SC2016 # expressions that wait_for evaluates
# shellcheck source=tests/integration/fuse_lib.sh
. "$(dirname "$(readlink -f "$0")")/fuse_lib.sh"
MILLRACE=$BUILD/bin/millrace
PYTHONPATH=$(dirname "$(readlink -f "$0")")/../../examples/python
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1

status() { curl -sf "http://$HTTP/status" | jq -r "$1"; }
is() { [ "$(status "$1")" = "$2" ]; }
at_least() { [ "$(status "$1")" -ge "$2" ]; }
idle() # nothing is being brought in any more
{
    local before
    before=$(status .hints.done)
    sleep 0.3
    [ "$(status .hints.done)" = "$before" ]
}

fuse_source s3
mkdir -p "$DATA/a" "$DATA/b/deep" "$DATA/big"
for i in $(seq 0 299); do
    head -c $((20000 + i * 331)) /dev/urandom >"$DATA/a/$i"
    head -c $((20000 + i * 77)) /dev/urandom >"$DATA/b/deep/$i"
done
(cd "$DATA" && find a b -type f | sort -R --random-source=<(yes) >"$WORK/order")
(cd "$DATA" && find a b -type f -exec sha256sum {} + | sort -k 2 >"$WORK/sums")
total=$(cd "$DATA" && find a b -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')

for profile in open sealed; do
    echo "# $profile: all of it is brought in, in that order; what is no file is counted"
    fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":4000000000}]}' immutable="$(immutable_of $profile)"
    fuse_mount --allow-other
    { head -n 100 "$WORK/order"; printf 'a/absent\n/etc/passwd\nb/../a/1\na\n'; tail -n +101 "$WORK/order" | sed 's,^,./,'; } >"$WORK/list"
    [ "$("$MILLRACE" hint "$MNT" "$WORK/list")" = "604 paths" ]
    wait_for "the first window" at_least .hints.done 512
    wait_for "an end of the first window" idle
    is .hints.done 512 || die "more than the window: $(status .hints.done)"
    is .reads.cacheBytes 0 || die "somebody read"
    fetched=$(status .reads.storeBytes)
    head -n 400 "$WORK/order" | (cd "$MNT" && xargs sha256sum) >"$WORK/read"
    wait_for "the rest" is .hints.done 602
    is .reads.storeBytes "$total" || die "$(status .reads.storeBytes) bytes of $total (before the reader: $fetched)"
    tail -n +401 "$WORK/order" | (cd "$MNT" && xargs sha256sum) >>"$WORK/read"
    sort -k 2 "$WORK/read" | cmp - "$WORK/sums" || die "wrong bytes"
    is .reads.storeBytes "$total" || die "what was brought in was fetched again"
    is .hints.missing 2 && is .hints.refused 2 && is .hints.failed 0 || die "$(status .hints)"
    [[ $(status .hints.firstMissing) =~ ^a(/absent)?$ ]] || die "$(status .hints)"
    at_least .hints.followed 590 || die "$(status .hints)"
    "$MILLRACE" stat "$MNT" >"$WORK/stat.out"
    grep -qE '^  not there +2, the first: a' "$WORK/stat.out" || die "$(cat "$WORK/stat.out")"
    curl -sf "http://$METRICS/metrics" | grep '^millrace_hint_entries_total{result="missing"} 2$' >/dev/null || die "no metric"

    echo "# $profile: a reader who begins in the middle"
    fuse_umount
    rm -rf "$CACHE"
    fuse_mount --allow-other
    for _ in 1 2 3 4 5; do cat "$WORK/order"; done | python3 -m millrace hint "$MNT" - >"$WORK/hint.out"
    wait_for "the first window" at_least .hints.done 500
    wait_for "an end of the first window" idle
    for _ in 1 2; do tail -n 20 "$WORK/order" | (cd "$MNT" && xargs cat) >/dev/null; done
    wait_for "files after those" at_least .hints.done 550
    fuse_umount
    rm -rf "$CACHE"
done

echo "# no more than fits: nothing that is next is evicted"
for i in {00..79}; do head -c 1000000 /dev/urandom >"$DATA/big/$i"; done
fuse_config readOnly=true 'cache={"tiers":[{"medium":"SSD","quota":40000000}]}'
fuse_mount --allow-other
# Far from the order of the directory, or who reads would be followed through that, too, and what is ahead of him be twice as much.
mapfile -t order < <(for i in {0..79}; do printf '%02d\n' $((i * 7 % 80)); done)
printf 'big/%s\n' "${order[@]}" | "$MILLRACE" hint "$MNT" -
wait_for "the first files" at_least .hints.done 2
wait_for "an end of the first window" idle
at_least .reads.storeBytes 4000001 && die "more than a tenth of the cache was fetched ahead: $(status .reads.storeBytes)"
for i in {0..79}; do
    cmp "$MNT/big/${order[i]}" "$DATA/big/${order[i]}"
    [ $((i % 20)) != 0 ] || wait_for "the next ones" idle
done
at_least .reads.storeBytes 80000000 || die "somebody else fetched it"
# On a machine that stops for seconds a file finds no room now and then and is fetched once more; all are, if what is next is evicted.
at_least .reads.storeBytes 88000001 && die "$(status .reads.storeBytes) bytes were fetched for 80000000"
is .hints.followed 80 || die "$(status .hints)"

echo "# a list whose reader stays away holds nobody up; the process may be killed under it"
"$MILLRACE" hint "$MNT/b/deep" "$WORK/order" >"$WORK/hint.out"
kill -9 "$(served)"
wait_for "another process" is_served
cmp "$MNT/a/17" "$DATA/a/17"
wait_for "the list of the process before" at_least .hints.lists 1
wait_for "an end of its window" idle
missing=$(status .hints.missing)
done=$(status .hints.done)
seq 0 299 | "$MILLRACE" hint "$MNT/b/deep" - >"$WORK/hint.out"
wait_for "files of a directory" at_least .hints.done $((done + 20))
is .hints.missing "$missing" || die "$(status .hints)"

echo "# as nobody, on a mount that is read-only for him"
mkdir "$WORK/ro"
chmod 711 "$WORK"
mount --bind "$MNT" "$WORK/ro"
mount -o remount,bind,ro "$WORK/ro"
setpriv --reuid 65534 --regid 65534 --clear-groups "$MILLRACE" hint "$WORK/ro" - <<<"$WORK/ro/a/1" >"$WORK/hint.out" || die "$(cat "$WORK/hint.out")"
wait_for "his list" at_least .hints.lists 3
umount "$WORK/ro"

echo "# what is wrong is said"
if "$MILLRACE" hint "$WORK" "$WORK/order" 2>"$WORK/hint.out"; then die "a list for no mount"; fi
grep -q "is not on a mount of millrace" "$WORK/hint.out" || die "$(cat "$WORK/hint.out")"
if "$MILLRACE" hint "$MNT" "$WORK/absent" 2>"$WORK/hint.out"; then die "a list that is not there"; fi
grep -q "No such file" "$WORK/hint.out" || die "$(cat "$WORK/hint.out")"
if "$MILLRACE" hint "$MNT" 2>"$WORK/hint.out"; then die "no list"; else [ $? = 2 ]; fi
fuse_umount
