{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* The operator's configuration file. */ -}}
{{- define "millrace.config" -}}
{{- $c := dict "openshift" .Values.openshift.enabled "cacheKeepFree" (int .Values.csi.cacheKeepFree) }}
{{- with .Values.env }}{{ $_ := set $c "env" . }}{{ end }}
{{- with .Values.commonLabels }}{{ $_ := set $c "labels" . }}{{ end }}
{{- with .Values.commonAnnotations }}{{ $_ := set $c "annotations" . }}{{ end }}
{{- with .Values.caBundle }}{{ $_ := set $c "caBundle" . }}{{ end }}
{{- with include "millrace.cachePriorityClass" . }}{{ $_ := set $c "priorityClassName" . }}{{ end }}
{{- with .Values.defaults }}{{ $_ := set $c "defaults" . }}{{ end }}
{{- toPrettyJson $c }}
{{- end }}
