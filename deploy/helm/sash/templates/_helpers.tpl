{{/* The release's name, with the chart's unless that is in it already. */}}
{{- define "sash.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What never changes for a release: a Deployment's selector may not. */}}
{{- define "sash.selector" -}}
app.kubernetes.io/name: sash
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sash.labels" -}}
{{ include "sash.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "sash.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "sash.secret" -}}
{{ default (include "sash.fullname" .) .Values.existingSecret }}
{{- end -}}

{{/* The store's URL, its user and password put in. */}}
{{- define "sash.storeUrl" -}}
{{- $url := required "store.url: name a Redis or Valkey, or an existingSecret" .Values.store.url -}}
{{- if .Values.store.password -}}
{{- $url | replace "://" (printf "://%s:%s@" .Values.store.user .Values.store.password) -}}
{{- else -}}
{{- $url -}}
{{- end -}}
{{- end -}}

{{/* Sash's user of deploy/redis/sash.acl, with this release's name and password, and the default one, which is off; a store
     takes no remarks there. Replicas' user is the store's affair: this password must not open it. */}}
{{- define "sash.storeUsers" -}}
{{- range splitList "\n" (.Files.Get "files/sash.acl") -}}
{{- if or (hasPrefix "user default " .) (hasPrefix "user sash " .) -}}
{{- . | replace "user sash " (printf "user %s " $.Values.store.user) | replace (printf "#%s" (repeat 64 "0")) (printf "#%s" (sha256sum $.Values.store.password)) }}
{{ end -}}
{{- end -}}
{{- end -}}
