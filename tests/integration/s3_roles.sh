#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: moto
# timeout: 180
# S3 by roles, against moto, which judges every request: keys, chains, tokens, what a container and a machine are told, profiles;
# loans that end in the middle, and roles that are refused.  s3_roles.sh PROGRAM (millrace)
set -euo pipefail
# The metadata services are at their own addresses, so this needs a network of its own.
if [ -z "${OWN_NET:-}" ]; then
    # shellcheck disable=SC2016 # the inner shell's
    OWN_NET=1 exec unshare --net bash -c 'ip link set lo up && ip addr add 169.254.169.254/32 dev lo && ip addr add 169.254.170.2/32 dev lo &&
        exec "$@"' - "$0" "$@"
fi
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"
# shellcheck source=tests/integration/moto_lib.sh
. "$(dirname "$(readlink -f "$0")")/moto_lib.sh"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/millrace-roles.XXXXXX")
trap 'cd /; moto_end; rm -rf "$WORK"' EXIT
cd "$WORK"
millrace=$1
role=arn:aws:iam::123456789012:role

# Nothing but what a case gives: no keys of whoever runs this.
with() # VARIABLE=VALUE… COMMAND…
{
    run env -i PATH="$PATH" HOME="$WORK/home" AWS_ENDPOINT_URL="$MOTO_ENDPOINT" ${ASAN_OPTIONS:+"ASAN_OPTIONS=$ASAN_OPTIONS"} "$@"
}

jwt() # AUDIENCE SECONDS [KEY]: what an issuer gives a service account
{
    local head body
    head=$(printf '{"alg":"HS256"}' | base64url)
    body=$(printf '{"sub":"system:serviceaccount:ml:train","aud":"%s","exp":%d}' "$1" $(($(date +%s) + $2)) | base64url)
    printf '%s.%s.%s' "$head" "$body" "$(printf '%s.%s' "$head" "$body" | openssl dgst -sha256 -hmac "${3:-issuer}" -binary | base64url)"
}

base64url()
{
    base64 -w 0 | tr -d = | tr '+/' '-_'
}

sees() # NAME: the last command has listed the bucket
{
    is "$1" "0:one" "$status:$out"
}

list=("$millrace" ls s3://data/set --option tls-verify=false)
trainer=(AWS_ACCESS_KEY_ID=AKIATRAINER AWS_SECRET_ACCESS_KEY=trainersecret)
mkdir -p home/.aws
moto_start 169.254.169.254:80 169.254.170.2:80

# -- keys, and roles that they assume
with AWS_ACCESS_KEY_ID=AKIAREADER AWS_SECRET_ACCESS_KEY=readersecret "${list[@]}"
sees "keys of a user"
with "${trainer[@]}" "${list[@]}"
has "keys that see nothing are refused" "AccessDenied (403 AccessDenied)" "$out"
with "${trainer[@]}" "${list[@]}" --option role-arn=$role/reader --option external-id=blue
sees "a role with an external id"
with "${trainer[@]}" "${list[@]}" --option role-arn=$role/reader --option external-id=red
has "another external id is refused" "AccessDenied: role $role/reader is not to be had (403 AccessDenied): " "$out"
has "with what the token service said" "is not authorized to perform: sts:AssumeRole" "$out"
with "${trainer[@]}" "${list[@]}" --option role-arn=$role/stranger
has "a role of others is refused" "role $role/stranger is not to be had (403 AccessDenied)" "$out"
has "and what to look at is said" "whom its trust policy names" "$out"
with AWS_ACCESS_KEY_ID=AKIATRAINER AWS_SECRET_ACCESS_KEY=wrong "${list[@]}" --option role-arn=$role/hop
has "a wrong key is told" "SignatureDoesNotMatch" "$out"

# -- tokens of a service account
jwt sts.amazonaws.com 3600 >token
token=(AWS_WEB_IDENTITY_TOKEN_FILE="$WORK/token")
with "${token[@]}" AWS_ROLE_ARN=$role/token "${list[@]}"
sees "a token and its role"
with "${token[@]}" "${list[@]}" --option role-arn=$role/token
sees "a token and the mount's role"
with "${token[@]}" AWS_ROLE_ARN=$role/hop AWS_ROLE_SESSION_NAME=test "${list[@]}" --option role-arn=$role/reader --option external-id=blue
sees "a chain: a token's role assumes the mount's"
with "${token[@]}" AWS_ROLE_ARN=$role/reader "${list[@]}"
has "a token for another role is refused" "role $role/reader is not to be had (400 AccessDenied): Not authorized" "$out"
jwt sts.amazonaws.com -10 >token
with "${token[@]}" AWS_ROLE_ARN=$role/token "${list[@]}"
has "an old token is told" "ExpiredCredentials: role $role/token is not to be had (400 ExpiredTokenException): Token expired" "$out"
jwt kubernetes 3600 >token
with "${token[@]}" AWS_ROLE_ARN=$role/token "${list[@]}"
has "another audience is told" "(400 InvalidIdentityToken): Incorrect token audience" "$out"
jwt sts.amazonaws.com 3600 forger >token
with "${token[@]}" AWS_ROLE_ARN=$role/token "${list[@]}"
has "another issuer is told" "the issuer of the token is known there" "$out"

# -- what a container and a machine are told
with AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/v2/credentials/task "${list[@]}"
sees "a task of ECS"
printf task >pod-token
with AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.2/v2/credentials/task \
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$WORK/pod-token" "${list[@]}"
sees "a pod with Pod Identity"
printf other >pod-token
with AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.2/v2/credentials/task \
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$WORK/pod-token" "${list[@]}"
has "with a wrong token it is refused" "no credentials from http://169.254.170.2/v2/credentials/task (403)" "$out"
with "${list[@]}" --option instance-metadata=true
sees "a machine with a role"
with "${list[@]}"
has "which is asked only where it is wanted, at a server that is not Amazon's" "no keys were given" "$out"
with "$millrace" ls s3://public/set
sees "a public bucket"

# -- the files of the AWS tools
cat >home/.aws/credentials <<'END'
[trainer]
aws_access_key_id = AKIATRAINER
aws_secret_access_key = trainersecret
END
cat >home/.aws/config <<END
[profile far]
role_arn = $role/reader
source_profile = near
external_id = blue
role_session_name = test
[profile near]
role_arn = $role/hop
source_profile = trainer
role_session_name = test
[profile pod]
role_arn = $role/token
web_identity_token_file = $WORK/token
[profile node]
role_arn = $role/reader
credential_source = Ec2InstanceMetadata
END
with AWS_PROFILE=far "${list[@]}"
sees "a profile whose role is assumed by another profile's role"
with AWS_PROFILE=near "${list[@]}"
has "which by itself sees nothing" "check what profile near of the AWS files may do" "$out"
jwt sts.amazonaws.com 3600 >token
with AWS_PROFILE=pod "${list[@]}"
sees "a profile with a token"
with AWS_PROFILE=node "${list[@]}"
has "a profile by the machine's role, which may not" "role $role/reader is not to be had" "$out"

# -- loans that end: the server ends those of "brief" after 11 s, whatever it said. An upload of 15 parts, 4 at a time, 3 s each.
head -c 240000000 /dev/zero >big
with "${token[@]}" AWS_ROLE_ARN=$role/brief "$millrace" cp big s3://data/slow/ --option tls-verify=false
is "an upload outlives the loan that it began with" "0:" "$status:$out"
is "the server had ended it" yes "$(grep -q 'PUT /data/slow/.* 400' moto.log && echo yes)"
with AWS_ACCESS_KEY_ID=AKIAREADER AWS_SECRET_ACCESS_KEY=readersecret "$millrace" stat s3://data/slow/big
has "and all of it is there" "240000000" "$out"
jwt sts.amazonaws.com 8 >token # and is old by then
with "${token[@]}" AWS_ROLE_ARN=$role/brief "$millrace" cp big s3://data/slow/second --option tls-verify=false
is "where no other loan is to be had, it fails" 1 "$status"
has "with the true cause" "role $role/brief is not to be had (400 ExpiredTokenException): Token expired" "$(tail -n 1 <<<"$out")"

[ "$failed" = 0 ] || grep -v '^ ' moto.log | tail -n 40 | cut -c 1-200 | sed 's/^/# moto: /'
echo "1..$count"
exit "$failed"
