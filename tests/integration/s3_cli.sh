#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# The verbs of `millrace` that need no mount, against a real S3 server.  s3_cli.sh PROGRAM (millrace)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
millrace=$1
cd "$WORK"

s3_start
export AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123

head -c 20000000 /dev/urandom >big
mkdir -p tree/a/b "tree/with space"
echo one >tree/one
echo two >tree/a/b/two
echo three >"tree/with space/three +%"
: >tree/empty

run "$millrace" cp big s3://data/up/
is "a file goes up" "0:" "$status:$out"
run "$millrace" ls s3://data
is "its directory is listed" "up/" "$out"
run "$millrace" ls --long s3://data/up
has "with its size" "20000000" "$out"
run "$millrace" ls s3://data/up/big
is "a file lists itself" big "$out"
run "$millrace" cp s3://data/up/big down
is "and comes down again" "0:" "$status:$out"
is "as it was" "$(sha256sum <big)" "$(sha256sum <down)"
run "$millrace" stat s3://data/up/big
has "stat of an object" "20000000 (19.07MiB)" "$out"
run "$millrace" stat s3://data/up
has "stat of a prefix" "directory" "$out"

run "$millrace" cp --recursive tree s3://data/t
is "a tree goes up" "0:4 files copied" "$status:$out"
run "$millrace" ls s3://data/t --recursive
is "all of it" $'a/b/two\nempty\none\nwith space/three +%' "$(sort <<<"$out")"
run "$millrace" cp s3://data/t copy --recursive
is "a tree comes down" "0:4 files copied" "$status:$out"
is "the same one" "" "$(diff -r tree copy 2>&1)"
run "$millrace" cp --recursive s3://data/t "file://$WORK/local"
is "from store to store" "" "$(diff -r tree local 2>&1)"

run "$millrace" check s3://data/t --write
is "check finds nothing wrong" "0" "$status"
has "and says what it saw" "ok      listing: 4 entries at the top" "$out"
has "and that it wrote" "ok      writing: it can be written to" "$out"
is "without leaving a trace" $'a/\nempty\none\nwith space/' "$("$millrace" ls s3://data/t | sort)"

run "$millrace" check s3://nobucket/x
is "no bucket: fails" 1 "$status"
has "no bucket: why" "BucketNotFound (404 NoSuchBucket): create bucket nobucket" "$out"
AWS_SECRET_ACCESS_KEY=wrongwrong run "$millrace" ls s3://data
is "bad keys: fails" 1 "$status"
has "bad keys: why" "AccessDenied (403 SignatureDoesNotMatch): check the keys in the environment" "$out"
run "$millrace" ls s3://data --option endpoint=http://no.such.host.invalid
has "bad name: why" "NameNotResolved: the name of http://no.such.host.invalid does not resolve" "$out"
run "$millrace" ls s3://data --option endpoint=http://127.0.0.1:1
has "nobody there: why" "Unreachable" "$out"
run "$millrace" cp s3://data/none x
has "no such key" "s3://data/none: NotFound" "$out"
is "leaves nothing" "" "$(ls x* 2>/dev/null)"
run "$millrace" ls gopher://x
has "a bad scheme" "unknown scheme 'gopher'; write s3://bucket/prefix, gs://bucket/prefix, file:///directory, http" "$out"
run "$millrace" ls s3://data --option colour=red
has "an unknown option" "unknown option 'colour'; the options are endpoint, region" "$out"
run "$millrace" ls s3://data --option secret-access-key=testsecret123
has "a secret on the command line is refused" "secrets do not belong there" "$out"
is "with status 1" 1 "$status"
run "$millrace" frobnicate
is "an unknown verb is misuse" 2 "$status"
run "$millrace" ls
is "so is a missing argument" 2 "$status"
run "$millrace" cp a b
is "a copy of what is not there fails" 1 "$status"
run "$millrace" --help
has "help lists the verbs" "umount" "$out"
run "$millrace" mount --help
has "help of a verb says where the options of stores are" "millrace help options" "$out"
run "$millrace" help options
has "there they are" "path-style" "$out"

mkdir -m 700 secrets
printf testaccess >secrets/access-key-id
printf 'testsecret123\n' >secrets/secret-access-key
run env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$millrace" ls s3://data/t --secrets-dir secrets --option "endpoint=$S3_ENDPOINT"
is "keys from files" $'a/\nempty\none\nwith space/' "$(sort <<<"$out")"
printf nope-nope >secrets/secret-access-key
run "$millrace" ls s3://data/t --secrets-dir secrets --option "endpoint=$S3_ENDPOINT"
has "wrong ones: where to look" "check the keys in Secret directory secrets (keys access-key-id, secret-access-key)" "$out"
run env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY "$millrace" ls s3://data
is "without keys the server refuses" 1 "$status"
echo "1..$count"
exit "$failed"
