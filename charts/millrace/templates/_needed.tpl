{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* Made by hack/helm_values --write. Groups of values, and values with a default that null would not mean, too: each template begins with
       it, since nobody knows which is rendered first. */ -}}
{{- define "millrace.needed" -}}
{{- range list
  "image"
  "image.repository"
  "image.pullPolicy"
  "logLevel"
  "crds"
  "crds.install"
  "crds.keep"
  "tfjob"
  "tfjob.enabled"
  "tfjob.hostAccess"
  "kubeflowRoles"
  "operator"
  "operator.replicas"
  "operator.resources"
  "operator.priorityClassName"
  "csi"
  "csi.kubeletDir"
  "csi.cacheKeepFree"
  "csi.allowRootDisk"
  "csi.callers"
  "csi.resources"
  "csi.priorityClassName"
  "csi.tolerations"
  "gpuSlices"
  "gpuSlices.enabled"
  "gpuSlices.devDir"
  "gpuSlices.podResources"
  "gpuSlices.mps"
  "gpuSlices.resources"
  "gpuSlices.tolerations"
  "metrics"
  "metrics.podMonitor"
  "metrics.podMonitor.enabled"
  "metrics.podMonitor.interval"
  "metrics.prometheusRule"
  "metrics.prometheusRule.enabled"
  "metrics.dashboards"
  "metrics.dashboards.enabled"
  "metrics.dashboards.labels"
  "metrics.networkPolicy"
  "metrics.networkPolicy.enabled"
  "admissionPolicies"
  "admissionPolicies.enabled"
  "cachePods"
  "cachePods.priorityClass"
  "cachePods.priorityClass.create"
  "cachePods.priorityClass.value"
  "resourceQuota"
  "resourceQuota.create"
  "resourceQuota.pods"
  "openshift"
  "openshift.enabled"
  "podSecurity"
  "podSecurity.createNamespace"
  "startupTaint"
  "uninstallCheck"
  "upgradeCheck"
  "limits" }}
{{- $at := $.Values }}
{{- range splitList "." . }}{{ $at = index $at . }}{{ end }}
{{- if kindIs "invalid" $at }}
{{- fail (printf "\n\nThe value %s is missing. `helm upgrade --reuse-values` leaves out what is new in this chart: use --reset-then-reuse-values. To take a default, leave a value out instead of setting it to null; for none of a list write [], of a text \"\".\n" .) }}
{{- end }}
{{- end }}
{{- include "millrace.keys" . }}
{{- end }}
