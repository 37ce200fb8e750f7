{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* The operator's configuration file. */ -}}
{{- define "millrace.config" -}}
{{- $c := dict "openshift" .Values.openshift.enabled }}
{{- if hasKey .Values.csi "cacheKeepFree" }}{{ $_ := set $c "cacheKeepFree" (int .Values.csi.cacheKeepFree) }}{{ end }}
{{- with .Values.env }}{{ $_ := set $c "env" . }}{{ end }}
{{- with .Values.commonLabels }}{{ $_ := set $c "labels" . }}{{ end }}
{{- with .Values.commonAnnotations }}{{ $_ := set $c "annotations" . }}{{ end }}
{{- with .Values.caBundle }}{{ $_ := set $c "caBundle" . }}{{ end }}
{{- with include "millrace.cachePriorityClass" . }}{{ $_ := set $c "priorityClassName" . }}{{ end }}
{{- $_ := set $c "pluginHash" (include "millrace.pluginHash" .) }}
{{- with .Values.defaults }}{{ $_ := set $c "defaults" . }}{{ end }}
{{- with .Values.operator.gpuResources }}{{ $_ := set $c "gpuResources" . }}{{ end }}
{{- with .Values.limits.endpoints }}{{ $_ := set $c "endpoints" . }}{{ end }}
{{- /* As csi.yaml has them: csi.cacheDirs may have another value of the same label. */ -}}
{{- $nodes := list }}
{{- range $key, $value := .Values.csi.nodeSelector }}
{{- $values := list $value }}
{{- range $.Values.csi.cacheDirs }}{{ $values = append $values (dig $key $value .nodeSelector) }}{{ end }}
{{- $nodes = append $nodes (dict "key" $key "operator" "In" "values" ($values | uniq)) }}
{{- end }}
{{- with $nodes }}{{ $_ := set $c "pluginNodes" . }}{{ end }}
{{- $everywhere := false }}
{{- range .Values.csi.tolerations }}
{{- if and (eq (.operator | default "") "Exists") (not .key) (not .effect) }}{{ $everywhere = true }}{{ end }}
{{- end }}
{{- if not $everywhere }}{{ $_ := set $c "pluginTolerations" (.Values.csi.tolerations | default list) }}{{ end }}
{{- $limits := dict }}
{{- if not (kindIs "invalid" .Values.limits.replicas) }}{{ $_ := set $limits "replicas" (int64 .Values.limits.replicas) }}{{ end }}
{{- with .Values.limits.tierQuota }}{{ $_ := set $limits "tierQuota" (kindIs "string" . | ternary . (printf "%d" (int64 (kindIs "string" . | ternary 0 .)))) }}{{ end }}
{{- with $limits }}{{ $_ := set $c "limits" . }}{{ end }}
{{- if .Values.metrics.networkPolicy.enabled }}
{{- $operator := dict
      "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace))
      "podSelector" (dict "matchLabels" (include "millrace.selector" (dict "root" . "component" "operator") | fromYaml)) }}
{{- $metrics := dict "ports" (list (dict "protocol" "TCP" "port" 9402)) }}
{{- with .Values.metrics.namespaces }}
{{- $_ := set $metrics "from" (list (dict "namespaceSelector" (dict "matchExpressions" (list
      (dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" .))))) }}
{{- end }}
{{- $_ := set $c "ingress" (list
      (dict "ports" (list (dict "protocol" "TCP" "port" 9400)) "from" (list $operator))
      $metrics) }}
{{- end }}
{{- toPrettyJson $c }}
{{- end }}
