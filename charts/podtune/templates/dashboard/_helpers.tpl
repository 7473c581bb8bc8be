{{/* Name of everything of the dashboard's in the release. */}}
{{- define "podtune.dashboard.fullname" -}}
{{- include "podtune.fullname" . }}-dashboard
{{- end -}}

{{/* Name of what belongs to no namespace. */}}
{{- define "podtune.dashboard.clusterName" -}}
{{- include "podtune.clusterName" . }}-dashboard
{{- end -}}

{{/* Another name than the operator's: what selects the operator's pods by that must not find the dashboard's. */}}
{{- define "podtune.dashboard.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}-dashboard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: dashboard
{{- end -}}

{{- define "podtune.dashboard.labels" -}}
{{ include "podtune.dashboard.selectorLabels" . }}
{{ include "podtune.standardLabels" . }}
{{- with include "podtune.givenLabels" (list . (dict)) }}{{ nindent 0 . }}{{ end }}
{{- end -}}

{{- define "podtune.dashboard.serviceAccountName" -}}
{{- $account := .Values.dashboard.serviceAccount -}}
{{- if not (or $account.create $account.name) -}}
{{- fail "dashboard.serviceAccount.create=false needs dashboard.serviceAccount.name: the namespace's default account would get the dashboard's rights, and with it each pod there; name an account of the dashboard's own" -}}
{{- end -}}
{{- default (include "podtune.dashboard.fullname" .) $account.name -}}
{{- end -}}

{{/* The namespaces that it shows, as JSON; none: all. */}}
{{- define "podtune.dashboard.namespaces" -}}
{{- .Values.dashboard.namespaces | default .Values.watchNamespaces | toJson -}}
{{- end -}}

{{/* Where the Secret of a store is mounted, of its number and entry: the last part is the Secret's name, for messages. */}}
{{- define "podtune.dashboard.storeDirectory" -}}
/etc/podtune/stores/{{ index . 0 }}/{{ (index . 1).secret }}
{{- end -}}

{{/* The stores that it may read, as JSON. */}}
{{- define "podtune.dashboard.stores" -}}
{{- $stores := list -}}
{{- range $number, $store := .Values.dashboard.stores -}}
{{- $directory := include "podtune.dashboard.storeDirectory" (list $number $store) -}}
{{- $stores = append $stores (dict "namespace" $store.namespace "directory" $directory "store" $store.store) -}}
{{- end -}}
{{- toJson $stores -}}
{{- end -}}

{{/* What the dashboard may do where it shows Experiments. */}}
{{- define "podtune.dashboard.rules" -}}
# To show them, and to hear of changes. Logs are read with the viewer's token.
- apiGroups: [podtune.dev]
  resources: [experiments, trials]
  verbs: [list, watch]
{{- end -}}

{{/* What it may do in the whole cluster, whatever it shows. */}}
{{- define "podtune.dashboard.clusterRules" -}}
# To learn whose a viewer's token is.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# To learn what a viewer may see and do.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* Fails where what was chosen would show or do more than who chose it may expect. */}}
{{- define "podtune.dashboard.refuseUnsafe" -}}
{{- $dashboard := .Values.dashboard -}}
{{- if $dashboard.open -}}
{{- if $dashboard.actions -}}
{{- fail "dashboard.actions=true acts with the viewer's own token, and dashboard.open=true asks nobody for one: set one of them to false" -}}
{{- end -}}
{{- if $dashboard.ingress.enabled -}}
{{- fail "dashboard.open=true shows all experiments to whoever reaches it, and dashboard.ingress.enabled=true lets others in: set one of them to false; kubectl port-forward needs no Ingress" -}}
{{- end -}}
{{- if ne $dashboard.service.type "ClusterIP" -}}
{{- fail (printf "dashboard.open=true shows all experiments to whoever reaches it, and dashboard.service.type=%s lets others in: set dashboard.open=false, or the type ClusterIP" $dashboard.service.type) -}}
{{- end -}}
{{- if $dashboard.stores -}}
{{- fail "dashboard.stores are read for viewers with a token, and dashboard.open=true asks nobody for one: leave out one of them" -}}
{{- end -}}
{{- if $dashboard.proxy.userHeader -}}
{{- fail "dashboard.proxy.userHeader says who the viewer is, and dashboard.open=true asks nobody: leave out one of them" -}}
{{- end -}}
{{- end -}}
{{- if and $dashboard.proxy.userHeader (not (and $dashboard.tls.secret $dashboard.proxy.authoritySecret)) -}}
{{- fail "dashboard.proxy.userHeader is believed over mutual TLS alone: set dashboard.tls.secret (tls.crt and tls.key) and dashboard.proxy.authoritySecret (ca.crt, which signed the proxy's certificate)" -}}
{{- end -}}
{{- if and (or $dashboard.proxy.groupsHeader $dashboard.proxy.authoritySecret) (not $dashboard.proxy.userHeader) -}}
{{- fail "dashboard.proxy.groupsHeader and .authoritySecret do nothing without dashboard.proxy.userHeader: set it, or leave them out" -}}
{{- end -}}
{{- if and $dashboard.ingress.enabled (not $dashboard.ingress.host) -}}
{{- fail "dashboard.ingress.host is empty: name the host under which people open the dashboard" -}}
{{- end -}}
{{- end -}}
