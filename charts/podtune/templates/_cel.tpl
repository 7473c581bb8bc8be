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

{{/* A list of words as one, of what an expression gives for each template p: (list "variables.templates" "…"). */}}
{{- define "podtune.cel.words" -}}
{{ index . 0 }}.map(p, ({{ index . 1 }}).join(' ')).join(' ').split(' ').filter(n, n != '')
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

{{/* Names of all Secrets that an Experiment names, those that only the kubelet or the agent reads, too. */}}
{{- define "podtune.cel.allSecrets" -}}
{{ include "podtune.cel.secrets" . }} +
{{ include "podtune.cel.words" (list . "p.?spec.?imagePullSecrets.orValue([]).map(s, s.?name.orValue(''))") }} +
[object.spec.?checkpoints.?store.?credentialsSecret.orValue(''),
  object.spec.?checkpoints.?store.?caBundle.?kind.orValue('') == 'Secret' ?
  object.spec.checkpoints.store.caBundle.name : ''].filter(n, n != '')
{{- end -}}
