#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench.py WHO MODE JOBS OUT: measures one operator in a control plane of plane.sh's, from the directory of that. Prints nothing;
OUT gets a JSON object.
WHO    millrace or training-operator; MILLRACE_OPERATOR and TRAINING_OPERATOR are the programs, UPSTREAM its module's directory, CRDS ours
MODE   run       JOBS jobs (1 chief, 2 workers) at once, whose pods never end: until all run
       complete  the same with pods that succeed 20 s after their start: until all have succeeded
       finished  JOBS jobs that have ended are there when the operator starts: start-up, memory, idleness"""
import base64, collections, http.client, json, multiprocessing, os, ssl, subprocess, sys, threading, time

WHO, MODE, JOBS, OUT = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
HOST, NS, GROUP = "10.89.0.1", "bench", "/apis/kubeflow.org/v1"
LIMIT = 900  # seconds for what is waited for
tls = ssl.create_default_context(cafile="ca.crt")
tls.load_cert_chain("admin.crt", "admin.key")
kube, bench_dir = os.environ["KUBE"], os.getcwd()


def connect():
    return http.client.HTTPSConnection(HOST, 6443, context=tls)


def ask(c, method, path, body=None, kind="application/json"):
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind})
    r = c.getresponse()
    data = r.read()
    if r.status >= 300:
        raise RuntimeError(f"{method} {path}: {r.status} {data[:300]!r}")
    return json.loads(data)


def kubectl(*args, stdin=None):
    command = [kube, "kubectl", "--kubeconfig", "admin.kubeconfig", "--cache-dir", "cache", *args]
    subprocess.run(command, check=True, input=stdin, text=True, stdout=subprocess.DEVNULL)


def job(i):
    labels = {"bench/run": "short" if MODE == "complete" else "ever"}
    container = {"name": "tensorflow", "image": "bench/none:1", "command": ["train"],
                 "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    replica = lambda n: {"replicas": n, "restartPolicy": "Never",
                         "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": f"job-{i:05d}", "namespace": NS},
            "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "tfReplicaSpecs": {"Chief": replica(1), "Worker": replica(2)}}}


def ended():
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    cond = lambda t, s, m: {"type": t, "status": s, "reason": "TFJob" + t, "message": m, "lastUpdateTime": now, "lastTransitionTime": now}
    return {"conditions": [cond("Created", "True", "TFJob is created."), cond("Running", "False", "TFJob is running."),
                           cond("Succeeded", "True", "TFJob successfully completed.")],
            "replicaStatuses": {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 2}}, "startTime": now, "completionTime": now,
            "observedGeneration": 1}  # or ours would write it to each, once, while it is to be at rest


def submit(first, step):
    c = connect()
    path = f"{GROUP}/namespaces/{NS}/tfjobs"
    for i in range(first, JOBS, step):
        ask(c, "POST", path, job(i))
        if MODE == "finished":
            ask(c, "PATCH", f"{path}/job-{i:05d}/status", {"status": ended()}, "application/merge-patch+json")


def submit_all():
    hands = [multiprocessing.Process(target=submit, args=(k, 4)) for k in range(4)]
    for h in hands:
        h.start()
    return hands


# --- the operators ---

def install_millrace():
    kubectl("apply", "--server-side", "-f", os.environ["CRDS"])
    kubectl("-n", "default", "create", "secret", "generic", "millrace-key")  # as the chart does; the operator fills it


def start_millrace():
    return [os.environ["MILLRACE_OPERATOR"], "--kubeconfig", "operator.kubeconfig", "--metrics", "127.0.0.1:8080", "--http", ""], None


def install_upstream():
    base = os.environ["UPSTREAM"] + "/manifests/base"
    for name in sorted(os.listdir(base + "/crds")):
        if name.startswith("kubeflow.org_"):
            kubectl("apply", "--server-side", "-f", f"{base}/crds/{name}")
    kubectl("create", "namespace", "kubeflow")
    kubectl("-n", "kubeflow", "create", "secret", "generic", "training-operator-webhook-cert")
    kubectl("-n", "kubeflow", "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "training-operator"},
         "spec": {"ports": [{"name": "webhook-server", "port": 443, "targetPort": 9443}]}},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "training-operator"},
         "subsets": [{"addresses": [{"ip": HOST}], "ports": [{"name": "webhook-server", "port": 9443}]}]}]}))
    webhooks = open(base + "/webhook/manifests.yaml").read()
    for old, new in (("name: validating-webhook-configuration", "name: validator.training-operator.kubeflow.org"),
                     ("name: webhook-service", "name: training-operator"), ("namespace: system", "namespace: kubeflow")):
        webhooks = webhooks.replace(old, new)
    kubectl("apply", "-f", "-", stdin=webhooks)


def start_upstream():
    """With a /tmp of its own, where it keeps certificates and where we play kubelet: the Secret becomes files."""
    certs = bench_dir + "/tmp/k8s-webhook-server/serving-certs"
    os.makedirs(certs, exist_ok=True)
    for name in ("ca.crt", "operator.kubeconfig"):
        subprocess.run(["cp", name, "tmp/"], check=True)
    subprocess.run(["cp", os.environ["TRAINING_OPERATOR"], "tmp/training-operator"], check=True)

    def mount():
        c = connect()
        while not os.path.exists(certs + "/tls.crt"):
            data = ask(c, "GET", "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert").get("data") or {}
            for name in sorted(data):
                with open(f"{certs}/{name}", "wb") as f:
                    f.write(base64.b64decode(data[name]))
            time.sleep(0.05)
    script = f"mount --bind {bench_dir}/tmp /tmp; exec /tmp/training-operator --kubeconfig /tmp/operator.kubeconfig --enable-scheme=tfjob"
    return ["unshare", "--mount", "sh", "-c", script], mount


def healthy(port):
    try:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        c.request("GET", "/readyz")
        return c.getresponse().status == 200
    except OSError:
        return False


def start_once():
    command, beside = start_millrace() if WHO == "millrace" else start_upstream()
    log = open("operator.log", "w")
    began = time.time()
    p = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ, MY_POD_NAMESPACE="kubeflow", MY_POD_NAME="bench"))
    if beside:
        threading.Thread(target=beside, daemon=True).start()
    while p.poll() is None and time.time() - began < 120:
        text = open("operator.log").read()
        if "controllers run" in text if WHO == "millrace" else "Starting workers" in text and "tfjob" in text and healthy(8081):
            return p, time.time() - began
        time.sleep(0.01)
    p.kill()
    return None, None


def start():
    """The process, and the seconds until it works: ours says so itself, upstream's log does. One that ends is started again, as by
    kubelet: upstream's gives up when its certificates or its first lists come late."""
    for _ in range(4):
        p, seconds = start_once()
        if p:
            return p, seconds
    raise RuntimeError("the operator does not start:\n" + open("operator.log").read()[-2000:])


# --- figures ---

def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid, key="VmRSS"):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(key))


class Watch(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.running, self.over, self.failed = {}, {}, []
        self.version = ask(connect(), "GET", f"{GROUP}/namespaces/{NS}/tfjobs?limit=1")["metadata"]["resourceVersion"]
        self.start()

    def run(self):
        c = connect()
        c.request("GET", f"{GROUP}/namespaces/{NS}/tfjobs?watch=1&resourceVersion={self.version}&timeoutSeconds=3000")
        for line in c.getresponse():
            now, o = time.time(), json.loads(line)["object"]
            for x in o.get("status", {}).get("conditions") or []:
                if x["type"] == "Running":
                    self.running.setdefault(o["metadata"]["name"], now)
                if x["type"] == "Succeeded" and x["status"] == "True":
                    self.over.setdefault(o["metadata"]["name"], now)
                if x["type"] == "Failed":
                    self.failed.append(o["metadata"]["name"])


def requests(since, until):
    """What the operator asked for, by verb and resource; codes other than success apart."""
    stamp = lambda t: time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) + f".{int(t % 1 * 1e6):06d}Z"
    counts = collections.Counter()
    with open("audit.log") as f:
        for line in f:
            e = json.loads(line)
            if e["user"]["username"] != "operator" or not stamp(since) <= e["requestReceivedTimestamp"] <= stamp(until):
                continue
            o, code = e.get("objectRef", {}), e.get("responseStatus", {}).get("code", 0)
            key = f"{e['verb']} {o.get('resource', '')}{'/' + o['subresource'] if 'subresource' in o else ''}"
            counts[key if code < 300 else f"{key} -> {code}"] += 1
    return counts


def measure_jobs(p):
    watch = Watch()
    before, first = cpu(p.pid), memory(p.pid)
    began = time.time()
    hands = submit_all()
    wanted = watch.running if MODE == "run" else watch.over
    while len(wanted) < JOBS and time.time() - began < LIMIT:
        time.sleep(0.05)
    used = cpu(p.pid) - before
    for h in hands:
        h.join()
    time.sleep(12)  # stragglers: events, of which one may be written each 10 s
    until = time.time()
    counts = requests(began, until)
    writes = {k: v for k, v in counts.items() if k.split()[0] not in ("get", "list", "watch")}
    events = sum(v for k, v in writes.items() if k.split()[1] == "events")
    pods = sum(v for k, v in writes.items() if k == "create pods")
    reached = lambda at: max(at.values()) - began if len(at) == JOBS else None
    return {"jobs": JOBS, "reported_running": len(watch.running), "succeeded": len(watch.over), "failed": len(set(watch.failed)),
            "stuck": JOBS - len(wanted), "seconds_to_all_running": reached(watch.running), "seconds_to_all_succeeded": reached(watch.over),
            "cpu_s": used, "cpu_s_with_stragglers": cpu(p.pid) - before, "rss_mib_before": first, "rss_mib": memory(p.pid, "VmHWM"),
            "writes_per_job": (sum(writes.values()) - events) / JOBS, "events_per_job": events / JOBS,
            "duplicate_pods": pods - 3 * JOBS, "requests": dict(counts.most_common())}


def measure_idle(p, seconds):
    time.sleep(5)
    a, began = cpu(p.pid), time.time()
    time.sleep(seconds)
    share = (cpu(p.pid) - a) / (time.time() - began) * 100
    counts = requests(began, time.time())
    return {"jobs": JOBS, "idle_cpu_percent": share, "rss_mib": memory(p.pid), "rss_mib_peak": memory(p.pid, "VmHWM"),
            "idle_requests": dict(counts)}


def main():
    (install_millrace if WHO == "millrace" else install_upstream)()
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    ask(connect(), "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    if MODE == "finished":
        for h in submit_all():
            h.join()
    p, ready = start()
    result = measure_idle(p, 30) if MODE == "finished" else measure_jobs(p)
    result["start_s"], result["who"], result["mode"] = ready, WHO, MODE
    with open(OUT, "w") as f:
        json.dump(result, f, indent=1)
    p.terminate()
    p.wait()


main()
