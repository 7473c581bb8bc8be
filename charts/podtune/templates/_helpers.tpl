{{/* Name of everything in the release: podtune, where the release is called that. */}}
{{- define "podtune.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of what belongs to no namespace: another release may be called the same elsewhere. */}}
{{- define "podtune.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "podtune.fullname" .) -}}
{{- end -}}

{{- define "podtune.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "podtune.labels" -}}
{{ include "podtune.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: podtune
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "podtune.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "podtune.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image by its values: (list . .Values.image). */}}
{{- define "podtune.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $repository := empty $image.variant | ternary $image.repository (printf "%s-%v" $image.repository $image.variant) -}}
{{- printf "%s:%s" $repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}

{{/* What the operator may do where it serves Experiments. */}}
{{- define "podtune.rules" -}}
- apiGroups: [podtune.dev]
  resources: [experiments]
  # To delete one is for ttlSecondsAfterFinished.
  verbs: [get, list, watch, patch, update, delete]
- apiGroups: [podtune.dev]
  resources: [trials]
  verbs: [create, get, list, watch, patch, update, delete, deletecollection]
- apiGroups: [podtune.dev]
  resources: [experiments/status, trials/status]
  verbs: [get, patch, update]
# What makes an owner wait for what it owns, where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [podtune.dev]
  resources: [experiments/finalizers, trials/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, list, watch, patch, delete, deletecollection]
# By which the pods of a trial that has several find each other.
- apiGroups: [""]
  resources: [services]
  verbs: [create, get]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# What an experiment has learnt from an earlier one (search.warmStart), and what storage pods have to know of trials.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get]
# Volumes that trials keep over their attempts (checkpoints.scratch).
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [create, get, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* A number of pods, or unlimited. Helm reads large numbers as floating ones. */}}
{{- define "podtune.podLimit" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ int . }}{{ end }}
{{- end }}

{{/* As the operator reads them: team-a=8,team-b=unlimited. */}}
{{- define "podtune.podLimits" -}}
{{- $limits := list }}
{{- range $namespace, $limit := . }}
{{- $limits = append $limits (printf "%s=%s" $namespace (include "podtune.podLimit" $limit)) }}
{{- end }}
{{- join "," $limits }}
{{- end }}
