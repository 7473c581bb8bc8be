{{/* A regular expression for the entries of a list, in each of which * stands for any characters; none matches nothing. */}}
{{- define "podtune.cel.pattern" -}}
{{- $entries := list -}}
{{- range . -}}
{{- $entries = append $entries (regexQuoteMeta . | replace "\\*" ".*") -}}
{{- end -}}
{{- if $entries -}}
r'(?s)^(?:{{ join "|" $entries }})$'
{{- else -}}
r'[^\x00-\x{10FFFF}]'
{{- end -}}
{{- end -}}

{{/* All pod templates of an Experiment. */}}
{{- define "podtune.cel.templates" -}}
object.spec.?trialTemplate.hasValue() ?
  [object.spec.trialTemplate] +
  object.spec.trialTemplate.?roles.orValue([]).map(r, r.template) +
  (object.spec.?evaluation.hasValue() ? [object.spec.evaluation.template] : [])
: []
{{- end -}}

{{/* Where each of them stands. */}}
{{- define "podtune.cel.places" -}}
object.spec.?trialTemplate.hasValue() ?
  ['spec.trialTemplate'] +
  object.spec.trialTemplate.?roles.orValue([]).map(r,
    'spec.trialTemplate.roles[' + string(object.spec.trialTemplate.roles.indexOf(r)) + '].template') +
  (object.spec.?evaluation.hasValue() ? ['spec.evaluation.template'] : [])
: []
{{- end -}}

{{/* A list of words as one, of what an expression gives for each template p: (list "variables.templates" "…"). */}}
{{- define "podtune.cel.words" -}}
{{ index . 0 }}.map(p, ({{ include "podtune.cel.nulls" (index . 1) }}).join(' ')).join(' ').split(' ').filter(n, n != '')
{{- end -}}

{{/* An expression in which lists may be null: that is what `env:` with nothing below it is. */}}
{{- define "podtune.cel.nulls" -}}
{{ regexReplaceAll "([a-z](?:\\.\\?[A-Za-z]+)+)\\.orValue\\(\\[\\]\\)" . "(${1}.orValue(null) == null ? [] : ${1}.orValue([]))" }}
{{- end -}}

{{/* What a template p has, by the field of its pods' spec. */}}
{{- define "podtune.cel.containers" -}}
(p.?spec.?initContainers.orValue([]) + p.?spec.?containers.orValue([]))
{{- end -}}

{{/* Names of the Secrets that containers see: the words of them, for a list of templates. */}}
{{- define "podtune.cel.secrets" -}}
{{- $of := printf `%s.map(c, (
    c.?env.orValue([]).map(e, e.?valueFrom.?secretKeyRef.?name.orValue('')) +
    c.?envFrom.orValue([]).map(e, e.?secretRef.?name.orValue(''))).join(' ')) +
  p.?spec.?volumes.orValue([]).map(v, v.?secret.?secretName.orValue('')) +
  p.?spec.?volumes.orValue([]).map(v,
    v.?projected.?sources.orValue([]).map(s, s.?secret.?name.orValue('')).join(' '))` (include "podtune.cel.containers" .) -}}
{{- include "podtune.cel.words" (list . $of) -}}
{{- end -}}

{{/* Names of the Secrets that images are pulled with. */}}
{{- define "podtune.cel.pullSecrets" -}}
{{- include "podtune.cel.words" (list . "p.?spec.?imagePullSecrets.orValue([]).map(s, s.?name.orValue(''))") -}}
{{- end -}}

{{/* Names of all Secrets that an Experiment names, those that only the kubelet or the agent reads, too. */}}
{{- define "podtune.cel.allSecrets" -}}
{{ include "podtune.cel.secrets" . }} +
{{ include "podtune.cel.pullSecrets" . }} +
[object.spec.?checkpoints.?store.?credentialsSecret.orValue(''),
  object.spec.?trackers.?mlflow.?credentialsSecret.orValue('')].filter(n, n != '') +
{{ include "podtune.cel.bundles" "Secret" }}
{{- end -}}

{{/* Names of the objects of a kind that hold a CA which agents believe. */}}
{{- define "podtune.cel.bundles" -}}
[object.spec.?checkpoints.?store.?caBundle, object.spec.?trackers.?mlflow.?caBundle].filter(b,
  b.?kind.orValue('ConfigMap') == '{{ . }}').map(b, b.?name.orValue('')).filter(n, n != '')
{{- end -}}

{{/* Names of the ConfigMaps that an Experiment names. */}}
{{- define "podtune.cel.allConfigMaps" -}}
{{- $of := printf `%s.map(c, (
    c.?env.orValue([]).map(e, e.?valueFrom.?configMapKeyRef.?name.orValue('')) +
    c.?envFrom.orValue([]).map(e, e.?configMapRef.?name.orValue(''))).join(' ')) +
  p.?spec.?volumes.orValue([]).map(v, v.?configMap.?name.orValue('')) +
  p.?spec.?volumes.orValue([]).map(v,
    v.?projected.?sources.orValue([]).map(s, s.?configMap.?name.orValue('')).join(' '))` (include "podtune.cel.containers" .) -}}
{{ include "podtune.cel.words" (list . $of) }} +
{{ include "podtune.cel.bundles" "ConfigMap" }}
{{- end -}}

{{/* Names of the claims that containers mount, or that what they mount is a copy of. */}}
{{- define "podtune.cel.claims" -}}
{{- $template := "v.?ephemeral.?volumeClaimTemplate.?spec" -}}
{{- $of := printf `p.?spec.?volumes.orValue([]).map(v, (
    [v.?persistentVolumeClaim.?claimName.orValue('')] +
    [%s.?dataSource, %s.?dataSourceRef].filter(s, s.?kind.orValue('') == 'PersistentVolumeClaim').map(s,
      s.?name.orValue(''))).join(' '))` $template $template -}}
{{- include "podtune.cel.words" (list . $of) -}}
{{- end -}}
