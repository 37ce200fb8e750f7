/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the node plugin: its DaemonSets, one for each cache directory, and its driver. */
#include "fuse/cli/doctor.h"

#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/jget.h"
#include "lib/kube/kube.h"

#include <string.h>

#define COMPONENT_PLUGIN "csi"

static bool is_plugin_set(const json_t *set)
{
    return strcmp(jget_str(set, "spec.template.metadata.labels.\"" LABEL_COMPONENT "\"", ""),
               COMPONENT_PLUGIN)
        == 0;
}

/* All of them, summed up. */
struct plugin_sets {
    const json_t *first, *lacking; /* lacking: the first one that lacks pods; NULL: none */
    int64_t desired, ready;
};

static struct plugin_sets plugin_sets_of(const struct doctor_facts *f)
{
    struct plugin_sets s = {0};
    const json_t *set;
    size_t i;
    json_array_foreach (f->daemonsets, i, set) {
        if (!is_plugin_set(set))
            continue;
        int64_t desired = jget_int(set, "status.desiredNumberScheduled", 0),
                ready = jget_int(set, "status.numberReady", 0);
        s.first = s.first ? s.first : set;
        s.lacking = !s.lacking && ready < desired ? set : s.lacking;
        s.desired += desired;
        s.ready += ready;
    }
    return s;
}

void doctor_check_plugin(const struct doctor_facts *f, struct doctor_lines *r)
{
    const struct plugin_sets s = plugin_sets_of(f);
    const json_t *down = doctor_first_of(f, COMPONENT_PLUGIN, false);
    if (!f->daemonsets)
        doctor_line(r, DOCTOR_SKIPPED, "csi: you may not list DaemonSets of all namespaces");
    else if (!s.first)
        doctor_line(
            r, DOCTOR_FAILED, "csi: there is no DaemonSet of the node plugin: install the chart");
    else if (s.desired < 1)
        doctor_line(r, DOCTOR_FAILED,
            "csi: the DaemonSet %s/%s is meant for no node: mend csi.nodeSelector and csi.tolerations "
            "of the chart",
            kube_namespace(s.first), kube_name(s.first));
    else if (s.lacking && down)
        doctor_line(r, DOCTOR_FAILED,
            "csi: %lld of %lld nodes have a ready pod; kubectl -n %s describe pod %s",
            (long long)s.ready, (long long)s.desired, kube_namespace(down), kube_name(down));
    else if (s.lacking)
        doctor_line(r, DOCTOR_FAILED,
            "csi: %lld of %lld nodes have a ready pod; kubectl -n %s describe daemonset %s (a privileged "
            "pod may be refused: label the namespace "
            "pod-security.kubernetes.io/enforce=privileged)",
            (long long)s.ready, (long long)s.desired, kube_namespace(s.lacking),
            kube_name(s.lacking));
    else
        doctor_line(r, DOCTOR_OK, "csi: %lld of %lld nodes have a ready pod", (long long)s.ready,
            (long long)s.desired);
}

/* -- where caches lie -------------------------------------------------------------------------- */

/* What the plugin of that DaemonSet was told by a flag; NULL: nothing. */
static const char *plugin_flag(const json_t *set, const char *flag)
{
    const json_t *word;
    size_t i, n = strlen(flag);
    json_array_foreach (jget_arr(set, "spec.template.spec.containers[0].command"), i, word) {
        const char *text = json_string_value(word);
        if (text && strncmp(text, flag, n) == 0)
            return text + n;
    }
    return NULL;
}

/* "/mnt/nvme/csi.millrace.dev" without its last part, which is the plugin's own. */
static char *cache_dir_of(const json_t *set)
{
    const char *root = plugin_flag(set, "--cache-root="), *end = root ? strrchr(root, '/') : NULL;
    return end && end > root ? xstrndup(root, (size_t)(end - root)) : NULL;
}

void doctor_check_disks(const struct doctor_facts *f, struct doctor_lines *r)
{
    const struct plugin_sets s = plugin_sets_of(f);
    const json_t *set;
    size_t i;
    int64_t below = 0;
    cleanup_free char *own = NULL, *unsure = NULL; /* the first directory of each kind */
    json_array_foreach (f->daemonsets, i, set) {
        if (!is_plugin_set(set))
            continue;
        cleanup_free char *dir = cache_dir_of(set);
        const char *allowed = plugin_flag(set, "--allow-root-disk=");
        char **first = allowed && strcmp(allowed, "false") == 0 ? &own : &unsure;
        if (!dir)
            below += jget_int(set, "status.desiredNumberScheduled", 0);
        else if (!*first)
            *first = steal(&dir);
    }
    if (below)
        doctor_line(r, DOCTOR_NOTE,
            "disks: caches of %lld of %lld nodes lie below kubelet's directory, and a full disk there "
            "makes kubelet evict pods, whoever they are of: name a directory on another disk, "
            "csi.cacheDir of the chart",
            (long long)below, (long long)s.desired);
    if (unsure)
        doctor_line(r, DOCTOR_NOTE,
            "disks: caches lie in %s; a node where no disk is mounted there fills its root disk: "
            "csi.allowRootDisk=false of the chart refuses that, and the plugin's log warns of it",
            unsure);
    if (own && !below && !unsure)
        doctor_line(r, DOCTOR_OK, "disks: caches lie in %s, on a disk of their own", own);
}

/* -- the driver -------------------------------------------------------------------------------- */

static bool registers_driver(const json_t *csinode)
{
    const json_t *d;
    size_t i;
    json_array_foreach (jget_arr(csinode, "spec.drivers"), i, d)
        if (strcmp(jget_str(d, "name", ""), NAME_DRIVER) == 0)
            return true;
    return false;
}

/* A node that has a ready plugin, and kubelet does not know of it; NULL: none. */
static const char *unregistered(const struct doctor_facts *f, size_t *n)
{
    const json_t *csinode, *pod;
    const char *first = NULL;
    size_t i, k;
    *n = 0;
    json_array_foreach (f->csinodes, i, csinode)
        json_array_foreach (f->pods, k, pod)
            if (doctor_is_component(pod, COMPONENT_PLUGIN) && doctor_pod_is_ready(pod)
                && !registers_driver(csinode)
                && strcmp(jget_str(pod, "spec.nodeName", ""), kube_name(csinode)) == 0) {
                first = first ? first : kube_name(csinode);
                ++*n;
            }
    return first;
}

void doctor_check_driver(const struct doctor_facts *f, struct doctor_lines *r)
{
    size_t n;
    if (!f->driver && !f->may_get_driver) {
        doctor_line(r, DOCTOR_SKIPPED, "driver: you may not read CSIDrivers");
        return;
    }
    if (!f->driver) {
        doctor_line(r, DOCTOR_FAILED,
            "driver: the CSIDriver " NAME_DRIVER " is not there: install the chart");
        return;
    }
    if (!f->csinodes) {
        doctor_line(r, DOCTOR_SKIPPED, "driver: you may not list CSINodes");
        return;
    }
    const char *first = unregistered(f, &n);
    if (first)
        doctor_line(r, DOCTOR_FAILED,
            "driver: kubelet of %zu nodes does not know it, as %s, though the csi pod is ready: is "
            "csi.kubeletDir of the chart the kubelet's --root-dir there?",
            n, first);
    else
        doctor_line(r, DOCTOR_OK,
            "driver: " NAME_DRIVER " is registered on every node with a ready csi pod");
}
