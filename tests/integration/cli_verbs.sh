#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# Verbs of `millrace` that work on files, each on a bucket's URL, a directory's URL and a mount; and what they say of mistakes.
#   cli_verbs.sh DIRECTORY (with millrace and millrace-fuse in it)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/cli_lib.sh
. "$(dirname "$(readlink -f "$0")")/cli_lib.sh"
s3_start
export AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123 XDG_CACHE_HOME=$WORK/xdg
cd "$WORK"

does() # NAME EXPECTED COMMAND…: status and all that it says
{
    local name=$1 expected=$2
    shift 2
    run "$@"
    is "$name" "$expected" "$status:$out"
}
sorted() { run "$@"; sort <<<"$out"; }
holds() # SECONDS FILE TEXT: writes it to the file, and keeps that open; nothing else closes it
{
    exec python3 -c 'import os, sys, time
fd = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY)
os.write(fd, sys.argv[3].encode())
print("written", flush=True)
time.sleep(float(sys.argv[1]))' "$@"
}

mkdir -p tree/a/b "tree/with space" dir mnt
seq 100 >tree/hundred
printf 'one\ntwo' >tree/a/two # the last line has no end
echo three >"tree/with space/three +%"
: >tree/empty
head -c 20000000 /dev/urandom >tree/a/b/big
all=$'a/b/big\na/two\nempty\nhundred\nwith space/three +%'

verbs_on() # WHAT PLACE: that is empty
{
    local t=$1 at=$2
    does "$t: cp -r takes a tree there" "0:5 files copied" millrace cp -r tree "$at/t"
    is "$t: ls -r shows it" "$all" "$(sorted millrace ls -r "$at/t")"
    is "$t: ls" $'a/\nempty\nhundred\nwith space/' "$(sorted millrace ls "$at/t")"
    says "$t: ls -l: size and state" 0 "292  PERSISTED" millrace ls -l "$at/t"
    says "$t: ls -lr" 0 "a/b/big" millrace ls -lr "$at/t"
    is "$t: ls --json" "file 292 true" "$(millrace ls --json "$at/t" | jq -r '.entries[] | select(.name == "hundred") | "\(.type) \(.size) \(.persisted)"')"
    is "$t: ls -r --json" 5 "$(millrace ls -r --json "$at/t" | jq '.entries | length')"
    is "$t: ls of several, with one that is not there" 1 "$(run millrace ls "$at/t" "$at/nope"; echo "$status")"
    does "$t: cat" $'0:one\ntwothree' millrace cat "$at/t/a/two" "$at/t/with space/three +%"
    is "$t: cat of a large file" "$(sha256sum <tree/a/b/big)" "$(millrace cat "$at/t/a/b/big" | sha256sum)"
    does "$t: cat of an empty file" "0:" millrace cat "$at/t/empty"
    says "$t: cat of a directory" 1 "is a directory; \`millrace ls\` lists it" millrace cat "$at/t/a"
    does "$t: head" "0:$(seq 10)" millrace head "$at/t/hundred"
    does "$t: head -n2" $'0:1\n2' millrace head -n2 "$at/t/hundred"
    does "$t: head -c" "0:1" millrace head -c 1 "$at/t/hundred"
    does "$t: head -n 0" "0:" millrace head -n 0 "$at/t/hundred"
    does "$t: tail" "0:$(seq 91 100)" millrace tail "$at/t/hundred"
    does "$t: tail -n" $'0:99\n100' millrace tail -n 2 "$at/t/hundred"
    does "$t: tail -n 1 of a line without end" "0:two" millrace tail -n 1 "$at/t/a/two"
    does "$t: tail of more lines than there are" $'0:one\ntwo' millrace tail -n 50 "$at/t/a/two"
    does "$t: tail -n +" $'0:99\n100' millrace tail -n +99 "$at/t/hundred"
    does "$t: tail -n +1 is all" $'0:one\ntwo' millrace tail -n +1 "$at/t/a/two"
    does "$t: tail -c" "0:100" millrace tail -c 4 "$at/t/hundred"
    does "$t: tail -c +" "0:100" millrace tail -c +289 "$at/t/hundred"
    does "$t: tail of an empty file" "0:" millrace tail "$at/t/empty"
    is "$t: headings of several" $'==> A <==\n1\n\n==> A <==\n1' "$(millrace head -n 1 "$at/t/hundred" "$at/t/hundred" | sed "s|$at/t/hundred|A|")"
    says "$t: du" 0 "19.07MiB" millrace du "$at/t"
    is "$t: du --json" "20000305 5" "$(millrace du --json "$at/t" | jq -r '.paths[0] | "\(.bytes) \(.files)"')"
    is "$t: count" "5 4 20000305" "$(millrace count --json "$at/t" | jq -r '.paths[0] | "\(.files) \(.directories) \(.bytes)"')"
    says "$t: count, in words" 0 "5 files            4 directories         20000305 bytes" millrace count "$at/t"
    does "$t: checksum" "0:$(sha256sum <tree/a/b/big | cut -d ' ' -f 1)  $at/t/a/b/big" millrace checksum "$at/t/a/b/big"
    does "$t: checksum --type md5" "0:$(md5sum <tree/hundred | cut -d ' ' -f 1)  $at/t/hundred" millrace checksum --type md5 "$at/t/hundred"
    is "$t: checksum -r" "$(cd tree && sha256sum a/b/big a/two empty hundred 'with space/three +%' | sort)" \
        "$(millrace checksum -r "$at/t" | sed "s|  $at/t/|  |" | sort)"
    is "$t: checksum --json" "$(sha256sum <tree/empty | cut -d ' ' -f 1)" "$(millrace checksum --json "$at/t/empty" | jq -r '.sums[0].sum')"
    says "$t: checksum of a directory" 1 "is a directory; --recursive sums all" millrace checksum "$at/t"
    says "$t: stat" 0 "292" millrace stat "$at/t/hundred"

    does "$t: mkdir" "0:" millrace mkdir "$at/new"
    says "$t: it is there" 0 "new/" millrace ls "$at"
    says "$t: mkdir of what is there" 1 "exists" millrace mkdir "$at/new"
    does "$t: mkdir -p of what is there" "0:" millrace mkdir -p "$at/new"
    does "$t: mkdir -p of several" "0:" millrace mkdir -p "$at/deep/er/est"
    does "$t: mv of a file" "0:" millrace mv "$at/t/hundred" "$at/new/century"
    does "$t: it is there" "0:1" millrace head -n 1 "$at/new/century"
    says "$t: and not where it was" 1 "t/hundred" millrace cat "$at/t/hundred"
    does "$t: mv into a directory keeps the name" "0:" millrace mv "$at/new/century" "$at/t"
    does "$t: there" "0:1" millrace head -n 1 "$at/t/century"
    does "$t: mv of a directory" "0:" millrace mv "$at/t/a" "$at/moved"
    is "$t: all of it" $'b/big\ntwo' "$(sorted millrace ls -r "$at/moved")"
    says "$t: and nothing is left" 1 "t/a" millrace ls "$at/t/a"
    says "$t: mv into itself" 1 "is not copied into itself" millrace mv "$at/moved" "$at/moved/x"
    says "$t: mv onto itself" 1 "one and the same" millrace mv "$at/moved/two" "$at/moved/two"
    does "$t: cp within it" "0:" millrace cp "$at/moved/two" "$at/t/"
    does "$t: the same" $'0:one\ntwo' millrace cat "$at/t/two"
    says "$t: cp of a directory" 1 "is a directory; --recursive copies it" millrace cp "$at/moved" "$at/x"
    says "$t: cp -r into itself" 1 "is not copied into itself" millrace cp -r "$at/moved" "$at/moved/x"
    rm -rf back
    does "$t: cp -r takes a tree from there" "0:2 files copied" millrace cp -r "$at/moved" back
    is "$t: as it was" "" "$(diff -r tree/a back)"
    is "$t: cp --json" "2 20000007 0" "$(rm -rf back; millrace cp -r --json "$at/moved" back | jq -r '"\(.files) \(.bytes) \(.failed)"')"
    does "$t: copyToLocal" "0:" millrace copyToLocal "$at/moved/two" dir
    is "$t: there" $'one\ntwo' "$(<dir/two)"
    does "$t: copyFromLocal of a directory" "0:2 files copied" millrace copyFromLocal back "$at/back"
    is "$t: there" $'b/big\ntwo' "$(sorted millrace ls -r "$at/back")"
    says "$t: cp of what is not there" 1 "nope" millrace cp "$at/nope" dir
    is "$t: leaves nothing" "two" "$(ls -A dir)"

    says "$t: rm of a directory" 1 "is a directory; --recursive removes it" millrace rm "$at/back"
    does "$t: rm" "0:" millrace rm "$at/back/two" "$at/t/two"
    is "$t: gone" "b/big" "$(sorted millrace ls -r "$at/back")"
    says "$t: rm of what is not there" 1 "nope" millrace rm "$at/nope"
    is "$t: rm -r --json" "1 20000000 0" "$(millrace rm -r --json "$at/back" | jq -r '"\(.files) \(.bytes) \(.failed)"')"
    is "$t: rm goes on past one that fails" "1" "$(run millrace rm "$at/nope" "$at/t/empty"; echo "$status")"
    is "$t: the other is gone" $'century\nwith space/' "$(sorted millrace ls "$at/t")"
    does "$t: mv of a directory without files" "0:" millrace mv "$at/new" "$at/newer"
    says "$t: it is there" 0 "newer/" millrace ls "$at"
    does "$t: and back" "0:" millrace mv "$at/newer" "$at/new"
    does "$t: rm -r of directories without files" "0:" millrace rm -r "$at/deep" "$at/new"
    does "$t: rm -r" "0:" millrace rm -r "$at/t" "$at/moved"
    does "$t: nothing is left" "0:" millrace ls "$at"
}

mkdir posix
millrace mkdir s3://data/s3 && millrace mkdir s3://data/mounted
verbs_on "bucket" s3://data/s3
verbs_on "directory" "file://$WORK/posix"
is "mounts" 0 "$(run millrace mount s3://data/mounted mnt --cache-dir "$WORK/cache"; echo "$status")"
verbs_on "mount" mnt

# What only a mount knows.
millrace cp -r tree mnt/t 2>/dev/null
cached_is() { [ "$(millrace ls -l mnt/t/hundred | awk '{ print $7 }')" = "$1" ]; }
freed() { millrace free mnt/t && cached_is 0%; } # again, if it was being fetched
is "a mount: ls -l of what was written: cached" 0 "$(wait_for cached_is 100%; echo $?)"
is "a mount: ls -l of what is not cached" 0 "$(wait_for freed; echo $?)"
sums() { jq -r '"\(.files) \(.bytes) \(.left) \(.failed)"'; } # of a --json
is "a mount: load as JSON" "1 292 0 0" "$(millrace load --json mnt/t/hundred | sums)"
is "a mount: pin as JSON" "1 292 0 0" "$(millrace pin --json mnt/t/hundred | sums)"
is "a mount: free as JSON leaves what is pinned" "0 0 1 0" "$(millrace free --json mnt/t/hundred | sums)"
is "a mount: unpin as JSON" "1" "$(millrace unpin --json mnt/t/hundred | jq .files)"
is "a mount: unpin of all as JSON" "0 0 0 0" "$(millrace unpin --all --json mnt | sums)"
is "a mount: unpin of all" "unpinned 1 files" "$(millrace pin mnt/t/hundred >"$WORK/pin.out" && millrace unpin --all mnt)"
is "a mount: its number as JSON" "1 0 0 0" "$(millrace pin mnt/t/hundred >"$WORK/pin.out" && millrace unpin --all --json mnt | sums)"
is "a mount: load as JSON of what is not there" "0 0 0 1" "$(millrace load --json mnt/t/none 2>/dev/null | sums)"
is "a mount: and what is not pinned goes" 0 "$(wait_for freed; echo $?)"
millrace cat mnt/t/hundred >"$WORK/cat.out"
is "a mount: ls -l of what was read" 0 "$(wait_for cached_is 100%; echo $?)"
is "a mount: its mode and owner" "-rw-r--r-- root root" "$(millrace ls -l mnt/t/hundred | awk '{ print $1, $2, $3 }')"
says "a mount: du tells how much is cached" 0 "B cached" millrace du mnt/t
says "stat of a file on a mount" 0 "292 bytes (292B), 100 % in the cache of this node, PERSISTED" millrace stat mnt/t/hundred
says "stat without an argument: all mounts" 0 "$WORK/mnt  s3://data/mounted  ready  cache " millrace stat
is "as JSON" "true s3://data/mounted" "$(millrace stat --json | jq -r --arg m "$WORK/mnt" '.mounts[] | select(.mount == $m) | "\(.ready) \(.status.mounts[0].mountPoint)"')"
is "stat of a URL as JSON" "file 292" "$(millrace stat --json s3://data/mounted/t/hundred | jq -r '"\(.type) \(.size)"')"
says "location of a file" 0 "mnt/t/hundred: 292B" millrace location mnt/t/hundred
has "in the cache of this node" "  this node            292B" "$out"
has "and of no worker" "  cache workers        none has a part of it" "$out"
has "and in the store" "  store                s3://data/mounted/t/hundred" "$out"
is "location by its URL, as JSON" "$WORK/mnt/t/hundred 292 true t/hundred" \
    "$(millrace location --json s3://data/mounted/t/hundred | jq -r '.files[0] | "\(.file) \(.cachedBytes) \(.persisted) \(.path)"')"
says "location of a URL that nobody has mounted" 1 "s3://data/mountedx: no mount of this machine has this store" millrace location s3://data/mountedx
says "location of a directory" 1 "mnt/t is a directory: location is of files" millrace location mnt/t
says "location of what is not there" 1 "mnt/nope" millrace location mnt/nope
says "location of what is on no mount" 1 "tree/hundred is not on a mount of millrace" millrace location tree/hundred
says "why of a relative path" 0 "wait" millrace why mnt/t

(holds 600 mnt/open unsaved) >"$WORK/held" &
holder=$!
wait_for grep -q written "$WORK/held"
says "a file that is being written: ls -l" 0 "NOT_PERSISTED" millrace ls -l mnt/open
says "a file that is being written: location" 0 "none, as the store does not have it yet" millrace location mnt/open
has "a file that is being written: its store" "s3://data/mounted/open, not what was written last" "$out"
says "a file that is being written: du" 0 "1 files NOT_PERSISTED" millrace du mnt
says "a file that is being written: the store does not have it" 1 "open" millrace cat s3://data/mounted/open
does "persist has it saved" "0:1 files are in the store, 1 of them since now" millrace persist mnt/open
does "there" "0:unsaved" millrace cat s3://data/mounted/open
says "a file that was saved: ls -l" 0 " PERSISTED" millrace ls -l mnt/open
kill "$holder"
wait "$holder" 2>/dev/null || true
does "persist of all, as nothing waits" "0:6 files are in the store, 0 of them since now" millrace persist mnt
says "persist of a URL" 1 "give the path of a file or directory on a mount" millrace persist s3://data
says "pin of something else" 1 "millrace: tree is not on a mount of millrace" millrace pin tree
says "persist of something else" 1 "is not on a mount of millrace" millrace persist tree
(holds 600 mnt/open2 unsaved) >"$WORK/held2" &
holder=$!
wait_for grep -q written "$WORK/held2"
mv "$S3_ROOT/data" "$WORK/away" # there is no such bucket
says "persist says what it waits for" 1 "BucketNotFound" millrace persist --timeout 1s mnt/open2
has "and that it has waited long enough" "given up (--timeout): mnt/open2: " "$out"
mv "$WORK/away" "$S3_ROOT/data"
says "and has it saved once that is over" 0 "1 files are in the store" millrace persist mnt/open2
does "there" "0:unsaved" millrace cat s3://data/mounted/open2
kill "$holder"
wait "$holder" 2>/dev/null || true

# Mistakes.
says "rm of a mount" 1 "is all of the mount: it is not removed" millrace rm -r mnt
says "rm of a bucket" 1 "is all of the store: it is not removed" millrace rm -r s3://data
says "rm of what is on no mount" 1 "is not on a mount of millrace: it is left alone" millrace rm -r tree
is "it is there still" "$all" "$(cd tree && find . -type f | sed 's|^\./||' | sort)"
for verb in ls cat head tail rm du count checksum; do
    says "$verb of a typo" 1 "millrace: buckett/key: there is no such file; if a store is meant, write its URL with a scheme, as in s3://buckett/key" \
        millrace $verb buckett/key
    says "$verb of a URL with one slash" 1 "write its URL with two slashes, as in s3://data/key" millrace $verb s3:/data/key
    says "$verb of an unknown scheme" 1 "unknown scheme 'gopher'" millrace $verb gopher://x/y
    says "$verb of nothing" 1 "an empty path" millrace $verb ""
    says "$verb without an argument" 2 "usage: millrace $verb" millrace $verb
    says "$verb of a bucket that is not there" 1 "BucketNotFound" millrace $verb s3://nobucket/x
done
for verb in cp mv; do
    says "$verb of a typo" 1 "there is no such file" millrace $verb buckett/key dir
    says "$verb without where to" 2 "usage: millrace $verb" millrace $verb tree
done
says "head of a wrong number" 2 "--lines: 'x' is not a number" millrace head -n x tree/hundred
says "head from a line on" 2 "--lines: '+5' is not a number" millrace head -n +5 tree/hundred
says "lines and bytes" 2 "not both" millrace tail -n 5 -c 5 tree/hundred
says "an unknown sum" 2 "--type: 'sha1' is none of sha256|md5|crc32c|crc64nvme" millrace checksum --type sha1 tree/hundred
says "an unknown letter" 2 "unknown flag -lx" millrace ls -lx tree
says "cp of a socket" 1 "is not a regular file" millrace cp /dev/null dir/null
says "checksum goes on past a bad file" 1 "$(sha256sum <tree/empty | cut -d ' ' -f 1)  tree/empty" millrace checksum buckett/key tree/empty
is "CRC as S3 has it" "$(millrace cp --option checksum=CRC32C tree/hundred s3://data/crc && millrace checksum --type crc32c s3://data/crc | cut -d ' ' -f 1)" \
    "$(millrace checksum --type crc32c tree/hundred | cut -d ' ' -f 1)"

# What is a file here and a directory there, as an object may be that others use as a directory.
mkdir dst
: >dst/a
run millrace cp -r tree dst
is "cp goes on past what fails" "1:2" "$status:$(find dst -name hundred -o -name 'three*' | wc -l)"
has "and names it" "dst/a/two: a file is where it needs a directory" "$out"
has "in words" "3 files copied, not all of them: see above" "$out"
mkdir -p dst2/hundred
says "a directory where a file is to be" 1 "dst2/hundred is a directory here" millrace cp -r tree dst2
is "the others are there" "$(cat tree/a/two)" "$(cat dst2/a/two)"

says "an alias has the help of its verb" 0 "usage: millrace cp" millrace copyToLocal --help
for verb in $(millrace help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    says "$verb --help" 0 "usage: millrace $verb" millrace "$verb" --help
done
says "a verb with a typo" 2 "there is no verb 'mout': is mount meant?" millrace mout
says "help of one" 2 "there is no verb 'cheksum': is checksum meant?" millrace help cheksum
does "a verb like none" "2:millrace: there is no verb 'xyzzy' (\`millrace help\` lists them)" millrace xyzzy
ln -s "$(command -v millrace)" kubectl-millrace
says "as a plugin of kubectl" 0 "usage: kubectl millrace ls" ./kubectl-millrace ls --help
says "of a URL" 0 "usage: kubectl millrace doctor [flags] [URL]" ./kubectl-millrace doctor --help
flat=$(tr -s '\n ' ' ' <<<"$out")
has "what is like it" "\`kubectl millrace check URL\` does the same" "$flat"
is "no other name" "" "$(sed 's/kubectl millrace//g' <<<"$flat" | grep -oE 'millrace [a-z]+' || true)"
says "misuse" 2 "kubectl millrace: doctor: --write is for a URL" ./kubectl-millrace doctor --write
says "too little" 2 "kubectl millrace: --help tells more" ./kubectl-millrace ls
says "a hint" 1 "kubectl millrace: tree is a directory; \`kubectl millrace ls\` lists it" ./kubectl-millrace cat tree
is "unmounts" 0 "$(run millrace umount mnt; echo "$status")"
is "stat without mounts of ours here" "" "$(millrace stat | grep -F "$WORK" || true)"
echo "1..$count"
exit "$failed"
