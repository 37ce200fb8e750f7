{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* Keys of values that are maps, refused by name: of a key the schema would tell the wrong place. */ -}}
{{- define "millrace.keys" -}}
{{- $ours := "^(.*[.])?millrace[.]dev/|^app[.]kubernetes[.]io/(name|instance|version|managed-by)$|^(meta[.])?helm[.]sh/" }}
{{- $server := "^(batch|apps|deployment|statefulset)[.]kubernetes[.]io/|^rbac[.]authorization[.]|^kubernetes[.]io/metadata[.]name$|^(job-name|controller-uid|pod-template-hash|pod-template-generation|controller-revision-hash)$" }}
{{- $mesh := "^sidecar[.]istio[.]io/inject$|^linkerd[.]io/inject$" }}
{{- $maps := dict "commonLabels" .Values.commonLabels "commonAnnotations" .Values.commonAnnotations
      "limits.namespaceSelector.matchLabels" (dig "namespaceSelector" "matchLabels" nil .Values.limits) }}
{{- range $component, $has := dig "cache" dict (.Values.defaults | default dict) }}
{{- if has $component (list "worker" "client" "loader") }}
{{- $_ := set $maps (printf "defaults.cache.%s.labels" $component) (dig "labels" nil ($has | default dict)) }}
{{- $_ := set $maps (printf "defaults.cache.%s.annotations" $component) (dig "annotations" nil ($has | default dict)) }}
{{- end }}
{{- end }}
{{- range $name, $map := $maps }}
{{- range $key, $_ := $map }}
{{- if not (regexMatch "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" $key) }}
{{- fail (printf "\n\nThe value %s has the key %q, which Kubernetes does not take: write NAME or PREFIX/NAME, the name of at most 63 letters, digits, '-', '_' and '.', the prefix like example.com.\n" $name $key) }}
{{- end }}
{{- $ends := splitList "." $name | last }}
{{- $taken := $ours }}
{{- if hasPrefix "common" $name }}{{ $taken = printf "%s|%s|%s" $ours $server $mesh }}{{ end }}
{{- if and (ne $ends "matchLabels") (regexMatch $taken $key) }}
{{- fail (printf "\n\nThe value %s must not have the key %s, which Kubernetes, Helm or Millrace itself sets on some of the objects: choose another key.\n" $name $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- $repository := .Values.image.repository }}
{{- if not (regexMatch "^([^/:@[:space:]]+(:[0-9]+)?/)?[a-z0-9]+([-._/]+[a-z0-9]+)*$" $repository) }}
{{- fail (printf "\n\nThe value image.repository is %s: write REGISTRY/NAME alone, like registry.example/ml/millrace, in small letters, without https://, a tag (image.tag) or a digest (image.digest).\n" $repository) }}
{{- end }}
{{- range $key, $_ := .Values.env }}
{{- if not (regexMatch "^[A-Za-z_][A-Za-z0-9_]*$" $key) }}
{{- fail (printf "\n\nThe value env has the variable %q: its name must be of letters, digits and '_', and not begin with a digit.\n" $key) }}
{{- end }}
{{- if has $key (list "MILLRACE_CONFIG" "MILLRACE_CA_BUNDLE" "NODE_NAME" "CUSTOM_CLUSTER_DOMAIN") }}
{{- fail (printf "\n\nThe value env must not have the variable %s, which Millrace itself sets: leave it out.\n" $key) }}
{{- end }}
{{- end }}
{{- end }}
