{{- $pages := slice -}}
{{- range where site.Pages "Kind" "!=" "home" -}}
{{- $pages = $pages | append (dict "url" (strings.TrimPrefix "/" .RelPermalink) "title" .Title "text" (printf "%s %s" .Description .Plain | htmlUnescape)) -}}
{{- end -}}
window.searchIndex = {{ $pages | jsonify }};
