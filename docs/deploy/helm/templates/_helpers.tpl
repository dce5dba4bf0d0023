{{/* The name of all objects: the release's, with "nniweb" in it. */}}
{{- define "nniweb.name" -}}
{{- if contains "nniweb" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-nniweb" (.Release.Name | trunc 33 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "nniweb.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "nniweb.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "nniweb.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* Labels by which objects are found; (list CONTEXT COMPONENT). They never change. */}}
{{- define "nniweb.selector" -}}
app.kubernetes.io/name: nniweb
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "nniweb.labels" -}}
{{ include "nniweb.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Values.image.tag | default (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end -}}

{{/* The host name of publicUrl. */}}
{{- define "nniweb.host" -}}
{{- (urlParse .Values.publicUrl).host | splitList ":" | first -}}
{{- end -}}

{{/* Pods run as the user of the image, and their group may write to the volume. */}}
{{- define "nniweb.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "nniweb.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What every container of ours gets: image, settings, folders. */}}
{{- define "nniweb.container" -}}
image: {{ include "nniweb.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "nniweb.containerSecurity" . | nindent 2 }}
envFrom:
  - configMapRef: {name: {{ include "nniweb.name" . }}-settings}
  {{- range .Values.settingsFrom }}
  - secretRef: {name: {{ . }}}
  {{- end }}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: secrets, mountPath: /run/secrets/nniweb, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "nniweb.volumes" -}}
- name: data
  persistentVolumeClaim: {claimName: {{ .Values.persistence.existingClaim | default (printf "%s-data" (include "nniweb.name" .)) }}}
- name: secrets
  secret:
    secretName: {{ .Values.secretName }}
- name: tmp
  emptyDir: {}
{{- end -}}

{{/* Fails, and is started again, until the Job has migrated the database. */}}
{{- define "nniweb.waitForMigration" -}}
- name: migrated
  command: [python, -m, nniweb, migrate, --check]
  resources:
    {{- toYaml .Values.migrate.resources | nindent 4 }}
  {{- include "nniweb.container" . | nindent 2 }}
{{- end -}}

{{/* Probes of a container; the name of its port. */}}
{{- define "nniweb.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  timeoutSeconds: 5
  periodSeconds: 5
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  timeoutSeconds: 5
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  timeoutSeconds: 5
  periodSeconds: 20
  failureThreshold: 6
{{- end -}}

{{/* Where pods of a component run; (list CONTEXT COMPONENT). Spread over nodes where that is possible. */}}
{{- define "nniweb.placement" -}}
{{- $of := index (index . 0).Values (index . 1) -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "nniweb.selector" . | nindent 8 }}
{{- with $of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
