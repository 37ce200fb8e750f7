# SPDX-License-Identifier: Apache-2.0
"""Runs the pods of an example's manifest as processes of this machine, on a real mount: what its comment says to put into a ConfigMap, its
commands, environment and working directory; TF_CONFIG, or the index of a Job, as the controllers give them.

    run_manifest.py MANIFEST MOUNT DIRECTORY [NAME=VALUE…]    what each says is in DIRECTORY/TYPE-INDEX.log; ends as the job does
"""
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time

import yaml

LIMIT = 900
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def port(taken=set()):
    """One that nobody has, and that no connection is given: above those for that."""
    while True:
        number = random.randrange(61000, 65536)
        with socket.socket() as one:
            if number not in taken and one.connect_ex(("127.0.0.1", number)):
                taken.add(number)
                return number


def main(manifest, mount, directory, *settings):
    with open(manifest, encoding="utf-8") as file:
        text = file.read()
    job = next(one for one in yaml.safe_load_all(text) if one["kind"] in ("Job", "TFJob"))
    app = f"{directory}/app"
    os.makedirs(app)
    for source in re.findall(r"--from-file=(\S+)", text):
        source = os.path.join(ROOT, source)
        for path in [source] if os.path.isfile(source) else [entry.path for entry in os.scandir(source) if entry.is_file()]:
            shutil.copy(path, app)
    spec = job["spec"]
    if job["kind"] == "TFJob":
        specs = {name.lower(): one for name, one in spec["tfReplicaSpecs"].items()}
        known = {name: [f"127.0.0.1:{port()}" for _ in range(one["replicas"])] for name, one in specs.items()}
        if job["metadata"].get("annotations", {}).get("millrace.dev/exclude-evaluator") == "true":
            known.pop("evaluator")
        pods = [(name, index, one["template"], {"TF_CONFIG": json.dumps({"cluster": known, "task": {"type": name, "index": index}, "environment": "cloud"})})
                for name, one in specs.items() for index in range(one["replicas"])]
        deciding = [(name, index) for name, index, _, _ in pods if name == "chief" or "chief" not in specs and name == "worker" and
                    (index == 0 or spec.get("successPolicy") == "AllWorkers")]
    else:
        pods = [("job", index, spec["template"], {"JOB_COMPLETION_INDEX": str(index)}) for index in range(spec["completions"])]
        deciding = [(name, index) for name, index, _, _ in pods]
    processes = {}
    for name, index, template, environ in pods:
        container = json.loads(json.dumps(template["spec"]["containers"][0]).replace("/mnt/fuse", mount).replace("/app", app))
        environ.update({one["name"]: one["value"] for one in container.get("env", [])})
        path = [environ.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        environ.update(dict(setting.split("=", 1) for setting in settings), PYTHONPATH=":".join(filter(None, path)))
        command = container["command"] + container.get("args", [])
        command = [re.sub(r"\$\((\w+)\)", lambda match: environ[match[1]], word) for word in command]
        with open(f"{directory}/{name}-{index}.log", "w", encoding="utf-8") as log:
            processes[name, index] = subprocess.Popen(command, cwd=container.get("workingDir", directory), env={**os.environ, **environ}, stdout=log,
                                                      stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    end, failed = time.monotonic() + LIMIT, None
    while not failed and any(processes[one].poll() is None for one in deciding):
        failed = next((one for one, process in processes.items() if process.poll()), None)
        if time.monotonic() > end:
            failed = "the time limit"
        time.sleep(0.2)
    failed = failed or next((one for one in deciding if processes[one].poll()), None)
    for process in processes.values():
        process.kill()
        process.wait()
    if failed:
        sys.exit(f"{manifest}: failed: {failed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
