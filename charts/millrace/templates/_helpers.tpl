{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* 63 characters are what the name of a Job may have: ours are this one and "-uninstall-check". */ -}}
{{- define "millrace.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 47 | trimAll "-." }}
{{- else }}
{{- $chart := .Values.nameOverride | default .Chart.Name }}
{{- if contains $chart .Release.Name }}{{ .Release.Name | trunc 47 | trimAll "-." }}{{ else }}{{ printf "%s-%s" .Release.Name $chart | trunc 47 | trimAll "-." }}{{ end }}
{{- end }}
{{- end }}

{{- define "millrace.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- /* Where the images of a Dataset's pods may come from, in quotes of CEL: this chart's repository, and that of the operator which leads until
       the new one does. With the tag they would be refused to the old one by an upgrade, and for good by one whose image cannot be pulled. */ -}}
{{- define "millrace.repositories" -}}
{{- $all := list .Values.image.repository }}
{{- $now := lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-operator" (include "millrace.name" .)) }}
{{- range dig "spec" "template" "spec" "containers" list $now }}
{{- $all = append $all (regexReplaceAll "(:[^/:@]*)?(@.*)?$" .image "") }}
{{- end }}
{{- toJson ($all | uniq) | replace "\"" "'" }}
{{- end }}

{{- /* Labels of an object: a dict of root, and labels of its own. Ours, which selectors and Helm need, win over the object's, and those
       over commonLabels: no key is there twice. */ -}}
{{- define "millrace.labels" -}}
{{- with .root }}
{{- $ours := dict "app.kubernetes.io/name" .Chart.Name "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_.") }}
{{- merge $ours ($.labels | default dict) (.Values.commonLabels | default dict) | toYaml }}
{{- end }}
{{- end }}

{{- /* metadata of an object: a dict of root, name, and namespaced where the object is; labels and annotations of its own */ -}}
{{- define "millrace.metadata" -}}
name: {{ .name | quote }}
{{- if .namespaced }}
namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
labels:
  {{- include "millrace.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* metadata of the pods of a component: no service mesh puts a proxy into them */ -}}
{{- define "millrace.podMetadata" -}}
labels:
  {{- include "millrace.labels" (dict "root" .root "labels" (merge (dict "millrace.dev/component" .component
    "sidecar.istio.io/inject" "false") (.labels | default dict))) | nindent 2 }}
annotations:
  {{- merge (dict "linkerd.io/inject" "disabled") (.annotations | default dict) (.root.Values.commonAnnotations | default dict) | toYaml | nindent 2 }}
{{- end }}

{{- define "millrace.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
millrace.dev/component: {{ .component }}
{{- end }}

{{- /* Of what the node plugin's pods are made: the operator knows by it which are the new ones. */ -}}
{{- define "millrace.pluginHash" -}}
{{- list (include "millrace.image" .) .Values.image .Values.csi .Values.env .Values.logLevel | toJson | sha256sum | trunc 16 }}
{{- end }}

{{- define "millrace.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The values' env, as a list for a container. */ -}}
{{- define "millrace.env" -}}
{{- range $name, $value := .Values.env }}
- {name: {{ $name | quote }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- define "millrace.startupTaint" -}}csi.millrace.dev/agent-not-ready{{- end }}

{{- /* Where the operator's own pods may run: those of the Deployment and of the uninstall check. */ -}}
{{- define "millrace.operatorPlacement" -}}
nodeSelector:
  {{- merge (dict) (.Values.operator.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- $tolerations := .Values.operator.tolerations | default list }}
{{- if .Values.startupTaint }}
{{- $tolerations = append $tolerations (dict "key" (include "millrace.startupTaint" .) "operator" "Exists") }}
{{- end }}
{{- with $tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "millrace.operatorSecurity" -}}
runAsNonRoot: true
{{- if not .Values.openshift.enabled }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* The class of cache pods: one of ours, one that is named, or none. */ -}}
{{- define "millrace.cachePriorityClass" -}}
{{- if .Values.cachePods.priorityClass.create }}{{ .Values.cachePods.priorityClassName | default (printf "%s-cache" (include "millrace.name" .)) }}
{{- else }}{{ .Values.cachePods.priorityClassName }}{{ end }}
{{- end }}

{{- /* The first ten of a list, a line each, and how many more there are. */ -}}
{{- define "millrace.someOf" -}}
{{- join "\n  " (slice . 0 (min 10 (len .))) }}
{{- if gt (len .) 10 }}
  and {{ sub (len .) 10 }} more
{{- end }}
{{- end }}

{{- /* TFJobs of a namespace ("": of all) that have not ended and are for us to run, a line each. */ -}}
{{- define "millrace.jobsNotEnded" -}}
{{- range (lookup "kubeflow.org/v1" "TFJob" . "").items }}
{{- $ended := false }}
{{- range dig "status" "conditions" list . }}
{{- if and (has .type (list "Succeeded" "Failed")) (eq .status "True") }}{{ $ended = true }}{{ end }}
{{- end }}
{{- $ours := eq "kubeflow.org/training-operator" (dig "spec" "runPolicy" "managedBy" "kubeflow.org/training-operator" .) }}
{{- if and $ours (not $ended) }}
{{ printf "TFJob %s/%s" .metadata.namespace .metadata.name }}
{{- end }}
{{- end }}
{{- end }}
