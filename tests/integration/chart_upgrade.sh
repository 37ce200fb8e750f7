#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# needs: helm
# Values of the chart with which Datasets that are there would be left to nobody, or parted from their caches: helm upgrade refuses, names
# them, and says what to do. The cluster is a program that answers Helm's look-ups with what the chart itself rendered for the values of
# before, as the API server would.
set -euo pipefail
chart=$(dirname "$(readlink -f "$0")")/../../charts/millrace
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
# shellcheck source=tests/integration/tap_lib.sh
. "$(dirname "$(readlink -f "$0")")/tap_lib.sh"

cat >"$work/api.py" <<'PYTHON'
"""An API server that knows the objects of files, read again for each request: objects.yaml and more.yaml."""
import http.server
import json
import os
import sys
import yaml

work = sys.argv[1]
KINDS = {  # path of the group: kind, plural, is namespaced
    "apis/apps/v1": [("Deployment", "deployments", True), ("DaemonSet", "daemonsets", True)],
    "apis/apiextensions.k8s.io/v1": [("CustomResourceDefinition", "customresourcedefinitions", False)],
    "apis/storage.k8s.io/v1": [("CSIDriver", "csidrivers", False)],
    "apis/rbac.authorization.k8s.io/v1": [("ClusterRole", "clusterroles", False)],
    "apis/scheduling.k8s.io/v1": [("PriorityClass", "priorityclasses", False)],
    "api/v1": [("Namespace", "namespaces", False)],
    "apis/millrace.dev/v1alpha1": [("Dataset", "datasets", True)],
    "apis/kubeflow.org/v1": [("TFJob", "tfjobs", True)],
}


def objects():
    for name in ("objects.yaml", "more.yaml"):
        with open(work + "/" + name, encoding="utf-8") as text:
            yield from filter(None, yaml.safe_load_all(text))


def answer(path):
    if path == "version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
    for group, kinds in KINDS.items():
        if path == group:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group.split("/", 1)[1], "resources": [
                {"name": plural, "kind": kind, "namespaced": space, "verbs": ["get", "list"]} for kind, plural, space in kinds]}
        parts = path[len(group) + 1:].split("/") if path.startswith(group + "/") else []
        space = parts[1] if parts[:1] == ["namespaces"] else ""
        parts = parts[2:] if space else parts
        for kind, plural, _ in kinds:
            if parts[:1] != [plural]:
                continue
            found = [o for o in objects() if o["kind"] == kind and o["apiVersion"] == group.split("/", 1)[1]
                     and (not space or o["metadata"].get("namespace") == space)]
            if len(parts) == 1:
                return {"kind": kind + "List", "apiVersion": group.split("/", 1)[1], "metadata": {}, "items": found}
            return next((o for o in found if o["metadata"]["name"] == parts[1]), None)
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = answer(self.path.split("?")[0].strip("/"))
        body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(work + "/port.new", "w", encoding="utf-8") as file:
    file.write(str(listener.server_port))
os.rename(work + "/port.new", work + "/port")
listener.serve_forever()
PYTHON
: >"$work/objects.yaml"
: >"$work/more.yaml"
python3 "$work/api.py" "$work" &
server=$!
for ((i = 0; i < 600; i++)); do [ ! -e "$work/port" ] || break && sleep 0.1; done
cat >"$work/kubeconfig" <<YAML
{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}],
 clusters: [{name: a, cluster: {server: "http://127.0.0.1:$(cat "$work/port")"}}]}
YAML
export KUBECONFIG=$work/kubeconfig HOME=$work
unset http_proxy HTTP_PROXY

result() { is "$1" "" "$2"; } # NAME WRONG

render() { helm template --kube-version 1.34.0 --set crds.install=false a "$chart" -n millrace-system "$@"; }
upgrade() { { render --dry-run=server "$@" >"$work/rendered.yaml"; } 2>&1; }

# What there is: a release with these values, and the CustomResourceDefinitions.
installed() # FLAG…
{
    : >"$work/objects.yaml"
    render "$@" >"$work/new.yaml"
    python3 - "$work/new.yaml" >"$work/objects.yaml" <<'PYTHON'
import sys
import yaml
with open(sys.argv[1], encoding="utf-8") as text:
    objects = [o for o in yaml.safe_load_all(text) if o and o["kind"] in ("Deployment", "DaemonSet", "CSIDriver")]
for name in ("datasets.millrace.dev", "tfjobs.kubeflow.org"):
    objects.append({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {
        "name": name, "annotations": {"helm.sh/resource-policy": "keep"}}})
for o in objects:
    o["metadata"].setdefault("annotations", {}).update({"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": "millrace-system"})
yaml.safe_dump_all(objects, sys.stdout)
PYTHON
}

# Objects of people, each as NAMESPACE/NAME, or TFJob:NAMESPACE/NAME[:CONDITION]
there()
{
    local what kind condition
    : >"$work/more.yaml"
    for what; do
        kind=Dataset version=millrace.dev/v1alpha1 condition=
        if [[ $what = TFJob:* ]]; then
            kind=TFJob version=kubeflow.org/v1 what=${what#TFJob:}
            [[ $what != *:* ]] || condition="{type: ${what#*:}, status: 'True'}"
            what=${what%%:*}
        fi
        echo "--- {apiVersion: $version, kind: $kind, metadata: {namespace: ${what%/*}, name: ${what#*/}}, status: {conditions: [$condition]}}"
    done >"$work/more.yaml"
}

good() # FLAG…
{
    result "taken: $*" "$(upgrade "$@" || echo "helm fails")"
}

refused() # WORDS FLAG…: words are separated by |
{
    local words=$1 word answer wrong=
    shift
    if answer=$(upgrade "$@"); then
        wrong="it is accepted"
    else
        while IFS= read -r word; do
            [[ $answer == *"$word"* ]] || wrong+="no '$word' in: $answer"$'\n'
        done <<<"${words//|/$'\n'}"
    fi
    result "refused: $*" "$wrong"
}

# Nothing is there, then a release without Datasets.
good --set watchNamespace=team-a,csi.cacheDir=/mnt/a
installed
good --set watchNamespace=team-a,csi.cacheDir=/mnt/a,tfjob.enabled=false

# Another namespace.
there team-a/photos team-b/texts TFJob:team-b/runs TFJob:team-b/ended:Succeeded TFJob:team-b/lost:Failed TFJob:team-a/mine
good
refused "works for all namespaces, and with watchNamespace=team-a|  Dataset team-b/texts|  TFJob team-b/runs|kubectl delete|--set watchNamespace=|upgradeCheck=false" --set watchNamespace=team-a
for word in photos ended lost mine; do
    result "not named: $word" "$(upgrade --set watchNamespace=team-a | grep "/$word" || true)"
done
good --set watchNamespace=team-a,upgradeCheck=false
refused "would not look after TFJobs any more|  TFJob team-b/runs|  TFJob team-a/mine|upgradeCheck=false" --set tfjob.enabled=false
result "nor those that have ended" "$(upgrade --set tfjob.enabled=false | grep -e ended$ -e /lost || true)"
good --set tfjob.enabled=false,upgradeCheck=false
installed --set tfjob.enabled=false
good
refused "Dataset team-b/texts" --set watchNamespace=team-a,tfjob.enabled=false
result "TFJobs of another operator's are not named" "$(upgrade --set watchNamespace=team-a,tfjob.enabled=false | grep TFJob || true)"
result "nor where they were another's" "$(upgrade --set watchNamespace=team-a | grep TFJob || true)"
installed --set watchNamespace=team-a
good --set watchNamespace=team-a
good
refused "works for namespace team-a, and with watchNamespace=team-b|Dataset team-a/photos|TFJob team-a/mine" --set watchNamespace=team-b
result "what it never worked for is not named" "$(upgrade --set watchNamespace=team-c | grep team-b/ || true)"
there team-b/texts
good --set watchNamespace=team-c
# shellcheck disable=SC2046
there $(printf 'team-a/d%02d ' {1..12})
refused "  Dataset team-a/d10
  and 2 more" --set watchNamespace=team-b
good --set watchNamespace=team-a,csi.cacheDir=/mnt/a # from below kubelet's directory to a disk: what is in use there stays

# Another directory.
installed --set csi.cacheDir=/mnt/a
there team-a/photos
good --set csi.cacheDir=/mnt/a
good --set csi.cacheDir=/mnt/a,csi.callers=true,csi.nodeSelector.pool=b
refused "csi.cacheDir, or csi.cacheDirs, does not name /mnt/a any more|  Dataset team-a/photos|docs/install/upgrade.md|delete these Datasets|upgradeCheck=false|delete csi.millrace.dev in /mnt/a" --set csi.cacheDir=/mnt/b
refused "does not name /mnt/a any more" --set csi.cacheDir=
good --set csi.cacheDir=/mnt/b,upgradeCheck=false
nvme='[{"nodeSelector": {"disks": "nvme"}, "path": "/mnt/nvme"}]'
good --set csi.cacheDir=/mnt/a --set-json "csi.cacheDirs=$nvme"
there
good --set csi.cacheDir=/mnt/b
installed --set csi.cacheDir=/mnt/a --set-json "csi.cacheDirs=$nvme"
there team-a/photos
good --set csi.cacheDir=/mnt/a --set-json "csi.cacheDirs=$nvme"
refused "does not name /mnt/nvme any more" --set csi.cacheDir=/mnt/a
refused "does not name /mnt/a, /mnt/nvme any more" --set csi.cacheDir=/mnt/nvme --set-json 'csi.cacheDirs=[{"nodeSelector": {"disks": "nvme"}, "path": "/mnt/a"}]'
refused "does not name /mnt/a any more" --set csi.cacheDir=/mnt/b --set-json "csi.cacheDirs=$nvme"

echo "1..$count"
exit $failed
