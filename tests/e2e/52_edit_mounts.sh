#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 420
# The mounts of a Dataset are edited under a pod that reads and has a file open: what stays is read on, without one failed read; what is
# added appears in the running pod, what is removed goes, and what was open there says so.
. "$(dirname "$0")/lib.sh"
start_test

s3_up
random_files 4 300000 train
printf one >"$WORK/one" && put "$WORK/one" more/one/text
printf two >"$WORK/two" && put "$WORK/two" more/two/text
secret keys "$S3_KEY" "$S3_SECRET"
mount() # PATH PREFIX [MORE]
{
    echo "{\"mountPoint\": \"s3://data$2\", \"path\": \"$1\", \"options\": {\"endpoint\": \"http://s3.$NS.svc.cluster.local:7070\", \"region\": \"us-east-1\"},
        \"secretRef\": {\"name\": \"whole\"}${3:+, $3}}"
}
n create secret generic whole --from-literal="access-key-id=$S3_KEY" --from-literal="secret-access-key=$S3_SECRET" >/dev/null
mounts() # MOUNT…: the Dataset has these
{
    local IFS=,
    n patch dataset data --type merge -p "{\"spec\": {\"mounts\": [$*]}}" >/dev/null
}
n apply -f - >/dev/null <<YAML
apiVersion: millrace.dev/v1alpha1
kind: Dataset
metadata: {name: data}
spec:
  mounts: [$(mount /main ""), $(mount /extra /more/one)]
  accessModes: [ReadWriteMany]
  cache: {replicas: 1, tiers: [{medium: SSD, quota: 512Mi}]}
YAML
pod reader data 'cd /mnt/fuse/main; exec 3<train/part-1; exec 4</mnt/fuse/extra/text; n=0
    while [ ! -e /tmp/stop ]; do sha256sum -c sums.txt >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }; n=$((n+1)); echo $n; sleep 0.05; done
    sha256sum <&3; echo done'
expect 120 "the pod runs" has_text Running jsonpath pod/reader '{.status.phase}'
rounds() { n logs reader --tail=1; }
test_further() { [ "$(rounds)" -gt "$(($1 + 2))" ]; }
goes_on()
{
    local was
    was=$(rounds)
    expect 90 "the reader goes on after round $was" test_further "$was"
    [ "$(jsonpath pod/reader '{.status.phase}')" = Running ] || fail "the reader has failed: $(n logs reader --tail=5)"
}
reads() { n exec reader -- /bin/busybox "$@" 2>&1; }
shows() { [ "$(reads cat "/mnt/fuse/$1")" = "$2" ]; } # FILE TEXT
gone() { ! reads ls "/mnt/fuse/$1" >/dev/null; }
goes_on

step "a mount is added"
mounts "$(mount /main "")" "$(mount /extra /more/one)" "$(mount /deep/added /more/two)"
expect 120 "it is in the running pod" shows deep/added/text two
goes_on
shows extra/text one || fail "another mount is not what it was"

step "one is turned to another source, and all change their order"
mounts "$(mount /deep/added /more/two)" "$(mount /extra /more/two)" "$(mount /main "")"
expect 120 "the running pod sees the other source" shows extra/text two
goes_on

step "one is removed"
mounts "$(mount /main "")" "$(mount /extra /more/two '"readOnly": true')"
expect 120 "it is gone in the running pod" gone deep
shows extra/text two || fail "the one beside it is gone, too"
has_text "Read-only file system" reads touch /mnt/fuse/extra/new || fail "a mount that became read-only: $(reads touch /mnt/fuse/extra/new)"
reads touch /mnt/fuse/main/new || fail "the one beside it became read-only, too"
goes_on
expect 60 "the Dataset is well" has_text True jsonpath dataset/data '{.status.conditions[?(@.type=="Ready")].status}'
n exec reader -- /bin/busybox touch /tmp/stop
expect 60 "the reader ends" has_text Succeeded jsonpath pod/reader '{.status.phase}'
has_text 'done' n logs reader --tail=1 || fail "$(n logs reader --tail=3)"
