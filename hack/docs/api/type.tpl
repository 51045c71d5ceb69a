{{- define "type" }}
{{- $type := . }}
{{- if markdownShouldRenderType $type }}

## {{ $type.Name }}

{{ $type.Doc | replace "<" "&lt;" | trim }}
{{- if $type.IsAlias }}

Type: {{ markdownRenderTypeLink $type.UnderlyingType }}
{{- end }}
{{- if not $type.GVK }}

Used in: {{ range $i, $reference := $type.SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $reference }}{{ end }}
{{- end }}
{{- if $type.Validation }}

Validation: {{ range $i, $rule := $type.Validation }}{{ if $i }}; {{ end }}{{ template "doc" $rule }}{{ end }}
{{- end }}
{{- if $type.Members }}

| Field | Type | Description | Default | Validation |
| --- | --- | --- | --- | --- |
{{- range $type.Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ if eq .Name "metadata" }}Standard metadata of a Kubernetes object.{{ else }}{{ template "doc" .Doc }}{{ end }} | {{ markdownRenderDefault .Default }} | {{ range $i, $rule := .Validation }}{{ if $i }}<br />{{ end }}{{ template "doc" $rule }}{{ end }} |
{{- end }}
{{- end }}
{{- if $type.EnumValues }}

| Value | Meaning |
| --- | --- |
{{- range $type.EnumValues }}
| `{{ .Name }}` | {{ template "doc" .Doc }} |
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
