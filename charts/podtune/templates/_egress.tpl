{{/* Where the operator, the dashboard and the test may go at least: rules of a NetworkPolicy. */}}
{{- define "podtune.egress.rules" -}}
{{- $egress := .Values.networkPolicy.egress -}}
# DNS, wherever the cluster has it.
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
# The API server: network plugins see its own address and port, not those of its Service.
- ports:
    {{- range $egress.apiServerPorts }}
    - {protocol: TCP, port: {{ int . }}}
    {{- end }}
  {{- with $egress.apiServerAddresses }}
  to:
    {{- range . }}
    - {ipBlock: {cidr: {{ . | quote }}}}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* A rule for the ports of URLs; a network plugin knows addresses, not names of hosts. Nothing where there is no URL. */}}
{{- define "podtune.egress.toURLs" -}}
{{- $ports := list -}}
{{- range . -}}
{{- $url := urlParse . -}}
{{- $named := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $ports = append $ports (default (eq $url.scheme "http" | ternary "80" "443") $named) -}}
{{- end -}}
{{- with $ports }}
- ports:
    {{- range sortAlpha . | uniq }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end -}}

{{/* What the values add to it. */}}
{{- define "podtune.egress.added" -}}
{{- with .Values.networkPolicy.egress.rules }}
# Of networkPolicy.egress.rules.
{{ toYaml . }}
{{- end }}
{{- end -}}
