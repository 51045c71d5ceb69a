{{- define "gvDetails" }}
{{- $gv := . }}
| Kind | Meaning |
| --- | --- |
{{- range $gv.SortedKinds }}{{ if not (hasSuffix "List" .) }}
{{- $type := $gv.TypeForKind . }}
| {{ markdownRenderTypeLink $type }} | {{ template "doc" $type.Doc }} |
{{- end }}{{ end }}
{{- range $gv.SortedKinds }}{{ if not (hasSuffix "List" .) }}{{ template "type" ($gv.TypeForKind .) }}{{ end }}{{ end }}
{{- range $gv.SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end }}

{{- define "doc" }}{{ . | replace "<" "&lt;" | markdownRenderFieldDoc | replace "<br />" " " | replace ": \\{\\}" "" | trim }}{{ end }}

{{- /* A field is optional unless the table says Required. CEL rules are left out: their messages are for errors. */ -}}
{{- define "rules" }}{{ $first := true }}{{ range . }}{{ if and (not (hasPrefix "Optional" .)) (not (contains "XValidation" .)) }}{{ if not $first }}<br />{{ end }}{{ $first = false }}{{ template "doc" . }}{{ end }}{{ end }}{{ end -}}
