#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: versitygw
# `millrace mount --also`: several stores in one tree, each with options and secrets of its own; one that is dead is one directory that fails.
#   cli_also.sh DIRECTORY (with millrace and millrace-fuse in it)
set -euo pipefail
# shellcheck source=tests/integration/s3_lib.sh
. "$(dirname "$(readlink -f "$0")")/s3_lib.sh"
# shellcheck source=tests/integration/cli_lib.sh
. "$(dirname "$(readlink -f "$0")")/cli_lib.sh"
s3_start
export XDG_CACHE_HOME=$WORK/xdg
cd "$WORK"
mounts() { run millrace mount "$@"; [ "$status" = 0 ] || echo "# $out"; }
store_of() { millrace stat --json | jq -r --arg m "$WORK/$1" --arg p "$2" '.mounts[] | select(.mount == $m) | .status.mounts[] | select(.path == $p) | "\(.mountPoint) \(.ready)"'; }

mkdir -p main other mnt mnt2 secrets/labels secrets/s3 "$S3_ROOT/data/labels" "$S3_ROOT/data/more"
echo main >main/file
echo other >other/file
echo label >"$S3_ROOT/data/labels/one"
echo more >"$S3_ROOT/data/more/two"
printf testaccess >secrets/labels/access-key-id
printf testsecret123 >secrets/labels/secret-access-key
printf testaccess >secrets/s3/access-key-id
printf wrong >secrets/s3/secret-access-key
chmod -R go= secrets

echo "# each has its options and its secrets"
mounts "file://$WORK/main" mnt --cache-dir "$WORK/cache" --secrets-dir secrets --also s3://data/labels=/labels \
    --option "/labels:endpoint=$S3_ENDPOINT" --option /labels/:region=us-east-1 --also "file://$WORK/other=/deep/other/"
is "mounts" 0 "$status"
is "the first" main "$(cat mnt/file)"
is "an object" label "$(cat mnt/labels/one)"
is "a directory below a directory" other "$(cat mnt/deep/other/file)"
is "a write goes where it belongs" "written" "$(echo written >mnt/labels/new && millrace persist mnt/labels/new >/dev/null && cat "$S3_ROOT/data/labels/new")"
is "and to no other" "file" "$(ls main)"
is "stat knows each" "s3://data/labels true" "$(store_of mnt /labels)"
has "in words, too" "s3://data/labels at /labels" "$(millrace stat mnt)"
has "and where all mounts are told" "file://$WORK/main  s3://data/labels at /labels  file://$WORK/other at /deep/other  ready" "$(millrace stat)"
is "no secret is on a command line" "" "$(ps -C millrace-fuse -o args= | grep testsecret123 || true)"
is "unmounts" 0 "$(run millrace umount mnt; echo "$status")"

echo "# the secrets of one do not serve another"
says "wrong keys are told" 1 "s3://data/more" millrace mount "file://$WORK/main" mnt --secrets-dir secrets --also s3://data/more=/s3 \
    --option "/s3:endpoint=$S3_ENDPOINT"
is "and nothing is mounted" no "$(mountpoint -q mnt || echo no)"

echo "# without a directory of secrets: the environment, and profiles"
printf '[bucket]\naws_access_key_id = testaccess\naws_secret_access_key = testsecret123\n' >aws
AWS_SHARED_CREDENTIALS_FILE=$WORK/aws mounts "file://$WORK/main" mnt --cache-dir "$WORK/cache" --also s3://data/more=/more \
    --option "/more:endpoint=$S3_ENDPOINT" --option /more:profile=bucket
is "a profile for one store" "0 more" "$status $(cat mnt/more/two)"
millrace umount mnt

echo "# what is wrong with it"
for bad in "s3://b" "s3://b=" "s3://b=/" "s3://b=path" "=/path" "b=/path"; do
    says "--also $bad" 2 "--also $bad: write --also URL=/PATH" millrace mount "file://$WORK/main" mnt --also "$bad"
done
says "--also without a value" 2 "--also needs a value" millrace mount "file://$WORK/main" mnt --also
says "two at one path" 1 'is the path of mounts[1] too' millrace mount "file://$WORK/main" mnt --also file:///a=/x --also file:///b=/x/
says "a path that leads out" 1 '"..' millrace mount "file://$WORK/main" mnt --also file:///a=/x/../y
says "an option of nobody" 1 "there is no --also URL=/nobody" millrace mount "file://$WORK/main" mnt --option /nobody:region=x
says "a secret on the command line" 1 "secrets do not belong there" millrace mount "file://$WORK/main" mnt --also s3://b=/x --option /x:secret-access-key=hush
says "an option twice" 1 "--option region: option region is given twice, as region and as region: keep one" millrace ls s3://bucket --option region=a --option region=b
says "an option by two of its names" 1 "--option url: option endpoint is given twice, as endpoint and as url: keep one" millrace ls s3://bucket --option "endpoint=$S3_ENDPOINT" --option "url=$S3_ENDPOINT"
says "an option twice of a further store" 1 "--option /x:url: option endpoint is given twice" millrace mount "file://$WORK/main" mnt --also s3://bucket=/x --option "/x:endpoint=$S3_ENDPOINT" --option "/x:url=$S3_ENDPOINT"
mkdir -p "$WORK/region" && echo us-east-1 >"$WORK/region/region" && chmod 700 "$WORK/region"
says "an option and a file" 1 "option region is given twice, in options as region and from a Secret as region: keep one" millrace ls s3://bucket --option region=a --secrets-dir "$WORK/region"
is "is not repeated" "" "$(grep hush <<<"$out" || true)"
says "an option that this kind has not" 1 "unknown option 'endpoint'" millrace mount "file://$WORK/main" mnt --also "file://$WORK/other=/x" --option /x:endpoint=http://x
says "a scheme that is none" 1 "gopher" millrace mount "file://$WORK/main" mnt --also gopher://b=/x
says "a bucket that is not there" 1 "BucketNotFound" env AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123 \
    millrace mount "file://$WORK/main" mnt --also s3://nobody=/x --option "/x:endpoint=$S3_ENDPOINT"
is "nothing is mounted" no "$(mountpoint -q mnt || echo no)"

echo "# one dead store is one dead directory"
kill -STOP "$S3_PID"
export AWS_ACCESS_KEY_ID=testaccess AWS_SECRET_ACCESS_KEY=testsecret123 AWS_ENDPOINT_URL=$S3_ENDPOINT
mounts "file://$WORK/main" mnt2 --cache-dir "$WORK/cache2" --also s3://data/labels=/labels --also "file://$WORK/other=/other"
is "mounts" 0 "$status"
has "and says which is dead" "/labels is mounted all the same, and can be read once it answers" "$out"
is "the others serve" "main other" "$(cat mnt2/file mnt2/other/file | xargs)"
is "stat knows which is dead" "s3://data/labels false" "$(store_of mnt2 /labels)"
is "and which are not" "file://$WORK/other true" "$(store_of mnt2 /other)"
has "in words" "s3://data/labels at /labels (not ready)" "$(millrace stat)"
says "reads in it fail" 1 "Input/output error" timeout 200 cat mnt2/labels/one
kill -CONT "$S3_PID"
reads_label() { [ "$(cat mnt2/labels/one)" = label ]; }
is "it comes back by itself" 0 "$(wait_for reads_label; echo $?)"
ready_again() { [ "$(store_of mnt2 /labels)" = "s3://data/labels true" ]; }
is "and stat says so" 0 "$(wait_for ready_again; echo $?)"
is "unmounts" 0 "$(run millrace umount mnt2; echo "$status")"

echo "# all dead: it is no mount"
says "says why" 1 "$WORK/none" millrace mount "file://$WORK/none" mnt2 --also "file://$WORK/none2=/x"
echo "1..$count"
exit "$failed"
