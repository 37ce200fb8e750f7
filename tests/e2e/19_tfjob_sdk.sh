#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
# Kubeflow's Python SDK as it is published creates a TFJob, waits for it, reads its log, finds its pods and deletes it.
. "$(dirname "$0")/lib.sh"
. "$ROOT/hack/lib.sh"
start_test

SDK=$CACHE/sdk
install_sdk()
{
    apt_install python3-venv
    python3 -m venv "$SDK"
    "$SDK/bin/pip" install -q 'kubeflow-training==1.9.3' 'kubernetes==36.0.3'
}
with_lock sdk once "$SDK/stamp" 'kubeflow-training==1.9.3 kubernetes==36.0.3' run_step "Kubeflow's SDK" install_sdk

restricted none 'echo step 1; echo done: $TF_CONFIG; sleep 15' tensorflow | jq -c 'del(.volumes, .containers[].volumeMounts)' >"$WORK/pod.json"
"$SDK/bin/python" - "$NS" "$WORK/pod.json" <<'PYTHON'
import json, sys
from kubeflow.training import (TrainingClient, KubeflowOrgV1ReplicaSpec, KubeflowOrgV1RunPolicy, KubeflowOrgV1TFJob, KubeflowOrgV1TFJobSpec)
from kubernetes.client import V1ObjectMeta

namespace, path = sys.argv[1:]
pod = json.load(open(path))
pod["containers"][0]["name"] = "tensorflow"
template = {"spec": pod}  # without labels: the SDK cannot read any back that kubernetes >= 32 types as dict[str, str]
replica = lambda n: KubeflowOrgV1ReplicaSpec(replicas=n, restart_policy="OnFailure", template=template)
job = KubeflowOrgV1TFJob(api_version="kubeflow.org/v1", kind="TFJob", metadata=V1ObjectMeta(name="sdk", namespace=namespace),
                         spec=KubeflowOrgV1TFJobSpec(run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
                                                     tf_replica_specs={"Chief": replica(1), "Worker": replica(2)}))
client = TrainingClient(namespace=namespace, job_kind="TFJob")
client.create_job(job, namespace=namespace)
wait = {"namespace": namespace, "wait_timeout": 120, "polling_interval": 1}
client.wait_for_job_conditions("sdk", expected_conditions={"Running"}, **wait)
client.wait_for_job_conditions("sdk", **wait)
assert client.is_job_created("sdk") and client.is_job_succeeded("sdk"), client.get_job_conditions("sdk")
assert not client.is_job_running("sdk") and not client.is_job_restarting("sdk") and not client.is_job_failed("sdk")
assert [j.metadata.name for j in client.list_jobs()] == ["sdk"]
names = sorted(client.get_job_pod_names("sdk"))
assert names == ["sdk-chief-0", "sdk-worker-0", "sdk-worker-1"], names
assert client.get_job_pod_names("sdk", is_master=True) == ["sdk-chief-0"]
assert client.get_job_pod_names("sdk", replica_type="worker", replica_index=1) == ["sdk-worker-1"]
logs, _ = client.get_job_logs("sdk", is_master=True)
text = logs["sdk-chief-0"]
assert "step 1" in text and '"task":{"type":"chief","index":0}' in text, logs
patched = client.get_job("sdk")
patched.spec.run_policy.ttl_seconds_after_finished = 3600
client.update_job(patched, "sdk", namespace)
assert client.get_job("sdk").spec.run_policy.ttl_seconds_after_finished == 3600
client.delete_job("sdk")
PYTHON
expect 60 "the job is gone" has_text NotFound n get tfjob/sdk
expect 60 "so are its pods" has_text "No resources" n get pods -l training.kubeflow.org/job-name=sdk
