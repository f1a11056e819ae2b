{{- define "jetpost.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "jetpost.image" -}}
{{ required "image.repository must be set" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "jetpost.labels" -}}
app.kubernetes.io/name: jetpost
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "jetpost.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
volumes:
  # Everything is in NATS and PostgreSQL.
  - { name: data, emptyDir: { sizeLimit: 256Mi } }
  - { name: tmp, emptyDir: { sizeLimit: 256Mi } }
  {{- with .Values.nats.credsSecret.name }}
  - { name: nats-creds, secret: { secretName: {{ . }}, defaultMode: 0440 } }
  {{- end }}
  {{- with .Values.ca.configMap }}
  - { name: ca, configMap: { name: {{ . }} } }
  {{- end }}
{{- end -}}

{{/* What every container of Jetpost has. */}}
{{- define "jetpost.container" -}}
image: {{ include "jetpost.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
envFrom:
  - secretRef: { name: {{ required "existingSecret must be set" .Values.existingSecret }} }
volumeMounts:
  - { name: data, mountPath: /data }
  - { name: tmp, mountPath: /tmp }
  {{- if .Values.nats.credsSecret.name }}
  - { name: nats-creds, mountPath: /etc/jetpost/nats, readOnly: true }
  {{- end }}
  {{- if .Values.ca.configMap }}
  - { name: ca, mountPath: /etc/jetpost/ca, readOnly: true }
  {{- end }}
{{- end -}}

{{/* Its settings, without roles. */}}
{{- define "jetpost.env" -}}
- { name: HOST, value: 0.0.0.0 }
- { name: PORT, value: "8080" }
- { name: JETPOST_PROCESSES, value: "1" }
- { name: JETPOST_PUBLIC_URL, value: {{ required "publicUrl must be set" .Values.publicUrl | quote }} }
- { name: JETPOST_TRUST_PROXY, value: {{ .Values.trustProxy | quote }} }
- { name: JETPOST_NATS_REPLICAS, value: {{ .Values.nats.replicas | quote }} }
{{- if .Values.inbound.enabled }}
- { name: JETPOST_INBOUND_PORT, value: "2525" }
{{- end }}
{{- if .Values.submission.enabled }}
- { name: JETPOST_SUBMISSION_PORT, value: "2587" }
{{- end }}
{{- if .Values.nats.credsSecret.name }}
- { name: NATS_CREDS, value: {{ printf "/etc/jetpost/nats/%s" .Values.nats.credsSecret.key | quote }} }
{{- end }}
{{- if .Values.ca.configMap }}
- { name: NODE_EXTRA_CA_CERTS, value: {{ printf "/etc/jetpost/ca/%s" .Values.ca.key | quote }} }
{{- end }}
{{- range $name, $value := .Values.env }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- end -}}
