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

Validation: {{ template "rules" $type.Validation }}
{{- end }}
{{- if $type.Members }}

| Field | Type | Description | Default | Validation |
| --- | --- | --- | --- | --- |
{{- range $type.Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ if eq .Name "metadata" }}Standard metadata of a Kubernetes object.{{ else }}{{ template "doc" .Doc }}{{ end }} | {{ markdownRenderDefault .Default }} | {{ template "rules" .Validation }} |
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
