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
{{ include "podtune.standardLabels" . }}
{{- with include "podtune.givenLabels" (list . (dict)) }}{{ nindent 0 . }}{{ end }}
{{- end -}}

{{/* Labels that the values give: commonLabels, and before them others, such as in (list . .Values.podLabels). */}}
{{- define "podtune.givenLabels" -}}
{{- with merge (dict) (default (dict) (index . 1)) (default (dict) (index . 0).Values.commonLabels) -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* Labels of the operator's objects and of the dashboard's. */}}
{{- define "podtune.standardLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: podtune
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "podtune.serviceAccountName" -}}
{{- $account := .Values.serviceAccount -}}
{{- if not (or $account.create $account.name) -}}
{{- fail "serviceAccount.create=false needs serviceAccount.name: the namespace's default account would get the operator's rights, and with it each pod there; name an account of the operator's own" -}}
{{- end -}}
{{- default (include "podtune.fullname" .) $account.name -}}
{{- end -}}

{{/* An image by its values: (list . .Values.image). */}}
{{- define "podtune.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $repository := empty $image.variant | ternary $image.repository (printf "%s-%v" $image.repository $image.variant) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What the operator may do where it serves Experiments. */}}
{{- define "podtune.rules" -}}
# To serve them; patch is for the finalizer of deletionPolicy: Delete, delete for ttlSecondsAfterFinished.
- apiGroups: [podtune.dev]
  resources: [experiments]
  verbs: [get, list, watch, patch, delete]
# To make trials, and to own those that users add: by patch, and delete where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [podtune.dev]
  resources: [trials]
  verbs: [create, get, list, watch, patch, delete]
# To write down what was seen and decided.
- apiGroups: [podtune.dev]
  resources: [experiments/status, trials/status]
  verbs: [update]
# To have an owner wait for what it owns, where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [podtune.dev]
  resources: [experiments/finalizers, trials/finalizers]
  verbs: [update]
# To run trials, and storage pods; patch opens the gates of trials with several pods.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, list, watch, patch, delete, deletecollection]
# To have the pods of a trial find each other, where it has several.
- apiGroups: [""]
  resources: [services]
  verbs: [create, get]
# For the last lines of a program that has failed, for results on standard output, and for logs that are kept.
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# For what an experiment has learnt from an earlier one (search.warmStart), and what storage pods have to know of trials.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get]
# To keep the earlier versions of a trial template that was changed, for people to look at.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [create, get, delete]
# For volumes that trials keep over their attempts, and to see how that of a checkpoint store may be mounted.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [create, get, delete]
# To tell people of what has happened, and count what happens again in the same Event.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it may do in the whole cluster, wherever it serves Experiments. */}}
{{- define "podtune.clusterRules" -}}
# To learn who reports a result: the API server reviews the agent's token.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end -}}

{{/* What it may do in the whole cluster besides, where namespaces opt in. */}}
{{- define "podtune.optInRules" -}}
# To know where there are Experiments; patch takes the finalizer off one that is deleted where it serves none.
- apiGroups: [podtune.dev]
  resources: [experiments]
  verbs: [get, list, watch, patch]
# To say in an Experiment that its namespace has not opted in.
- apiGroups: [podtune.dev]
  resources: [experiments/status]
  verbs: [update]
# To learn whether a namespace has opted in: it asks what it may do there itself.
- apiGroups: [authorization.k8s.io]
  resources: [selfsubjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* What it may do in its own namespace. */}}
{{- define "podtune.leadershipRules" -}}
# To be the one that leads; a Lease that is not there yet can't be named.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# To go on leading; this one Lease alone.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "podtune.fullname" . }}-operator]
  verbs: [get, update]
# For the label by which the results Service finds the leader.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]
# To tell what a deleted Experiment has left in its bucket, where its own namespace is going, and of receivers of webhooks.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What it may do there besides, where it makes its own certificates. */}}
{{- define "podtune.tlsRules" -}}
# To keep the keys that sign the certificate of the results server, and replace them; this one Secret alone.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "podtune.fullname" . }}-results-tls]
  verbs: [get, update]
{{- end -}}

{{/* What it may do in the whole cluster besides, where readers of metrics are asked who they are. */}}
{{- define "podtune.metricsRules" -}}
# To learn whether somebody may read the metrics; who they are, a review of their token tells.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* Not empty where metrics have a port of their own, with TLS. */}}
{{- define "podtune.encryptsMetrics" -}}
{{- if and .Values.metrics.authentication .Values.results.tls.enabled }}true{{ end -}}
{{- end -}}

{{/* The port of the metrics, by its name. */}}
{{- define "podtune.metricsPort" -}}
{{- include "podtune.encryptsMetrics" . | empty | ternary "metrics" "metrics-tls" -}}
{{- end -}}

{{/* Not empty where it does. */}}
{{- define "podtune.makesCertificates" -}}
{{- if and .Values.results.tls.enabled (not .Values.results.tls.secret) }}true{{ end -}}
{{- end -}}

{{/* Where agents report to. */}}
{{- define "podtune.resultsURL" -}}
{{- if not (or .Values.results.tls.enabled .Values.results.plainHTTP) -}}
{{- fail "results.tls.enabled=false needs results.plainHTTP=true: agents have no other way to report" -}}
{{- end -}}
{{- if and .Values.results.tls.secret (not .Values.results.tls.enabled) -}}
{{- fail "results.tls.secret needs results.tls.enabled=true" -}}
{{- end -}}
{{- $host := printf "%s-results.%s.svc" (include "podtune.fullname" .) .Release.Namespace -}}
{{- .Values.results.tls.enabled | ternary (printf "https://%s:8443" $host) (printf "http://%s:8080" $host) -}}
{{- end -}}

{{/* What it may do there besides, where there are webhooks. */}}
{{- define "podtune.webhookRules" -}}
# To keep how far each receiver of webhooks has heard; a ConfigMap that is not there yet can't be named.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
# To go on from there; the ConfigMaps podtune-operator-webhook-NAME alone.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "podtune.webhookNames" . }}]
  verbs: [get, update]
{{- end -}}

{{/* Names of those ConfigMaps. */}}
{{- define "podtune.webhookNames" -}}
{{- $names := list -}}
{{- range .Values.webhooks -}}
{{- $names = append $names (printf "%s-operator-webhook-%s" (include "podtune.fullname" $) .name) -}}
{{- end -}}
{{- join ", " $names -}}
{{- end -}}

{{/* Empty where no receiver has a Secret. */}}
{{- define "podtune.webhookSecrets" -}}
{{- range .Values.webhooks }}{{ .secret }}{{ end -}}
{{- end -}}

{{/* The receivers as the operator reads them: a Secret is a directory there. */}}
{{- define "podtune.webhooks" -}}
{{- $receivers := list -}}
{{- range .Values.webhooks -}}
{{- $receiver := omit . "secret" -}}
{{- if .secret -}}
{{- $receiver = set $receiver "secrets" (printf "/etc/podtune/webhooks/%s" .name) -}}
{{- end -}}
{{- $receivers = append $receivers $receiver -}}
{{- end -}}
{{- toJson $receivers -}}
{{- end -}}

{{/* What it may do there besides, where there are traces. */}}
{{- define "podtune.tracingRules" -}}
# To mark what was traced.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
# To go on from there.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "podtune.fullname" . }}-operator-traces]
  verbs: [get, update]
{{- end -}}

{{/* The collector's Secret; empty where there is none. */}}
{{- define "podtune.tracingSecret" -}}
{{- if and .Values.tracing.secret (not .Values.tracing.endpoint) -}}
{{- fail "tracing.secret needs tracing.endpoint: without one there are no traces" -}}
{{- end -}}
{{- .Values.tracing.secret -}}
{{- end -}}

{{/* The collector as the operator reads it: its Secret is a directory there. */}}
{{- define "podtune.tracing" -}}
{{- $collector := dict "endpoint" .Values.tracing.endpoint "attributes" .Values.tracing.attributes -}}
{{- if include "podtune.tracingSecret" . -}}
{{- $collector = set $collector "secrets" "/etc/podtune/tracing" -}}
{{- end -}}
{{- toJson $collector -}}
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

{{/* Labels of what `helm test` makes: another name than the operator's, as the dashboard has. */}}
{{- define "podtune.test.labels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{ include "podtune.standardLabels" . }}
{{- with include "podtune.givenLabels" (list . (dict)) }}{{ nindent 0 . }}{{ end }}
{{- end -}}
