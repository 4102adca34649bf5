{{/* Names and labels are those of https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/ */}}

{{/* The prefix of all names: the release, and the chart where the release is called otherwise. */}}
{{- define "gateway-proxy.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The name of a part. Takes (dict "root" $ "part" "controller"). */}}
{{- define "gateway-proxy.name" -}}
{{- printf "%s-%s" (include "gateway-proxy.fullname" .root) .part -}}
{{- end }}

{{/* Labels that select the pods of a part and never change. Takes (dict "root" $ "part" "controller"). */}}
{{- define "gateway-proxy.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "gateway-proxy.labels" -}}
{{ include "gateway-proxy.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gateway-proxy
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Chart }}
helm.sh/chart: {{ printf "%s-%s" .Name .Version | replace "+" "_" }}
{{- end }}
{{- end }}

{{/* The reference of an image. Takes (dict "root" $ "image" .Values.controller.image). */}}
{{- define "gateway-proxy.image" -}}
{{- $tag := .image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion -}}
{{- printf "%s/%s:%s" (.root.Values.image.registry | trimSuffix "/") .image.name $tag -}}
{{- end }}

{{/* What the Pod Security Standard "restricted" asks of a pod, and of a container on top. */}}
{{- define "gateway-proxy.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}
{{- define "gateway-proxy.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Where pods run. Takes (dict "root" $ "part" "controller" "values" .Values.controller). */}}
{{- define "gateway-proxy.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
affinity:
{{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "gateway-proxy.selector" (dict "root" .root "part" .part) | nindent 14 }}
{{- end }}
{{- end }}

{{- define "gateway-proxy.imagePullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The ConfigMap of limits. */}}
{{- define "gateway-proxy.limitsConfigMap" -}}
{{- .Values.rateLimitService.existingConfigMap | default (printf "%s-limits" (include "gateway-proxy.fullname" .)) -}}
{{- end }}

{{/* The Redis that replicas of the service share, or nothing. */}}
{{- define "gateway-proxy.redisUrl" -}}
{{- if .Values.rateLimitService.redis.url -}}
{{- .Values.rateLimitService.redis.url -}}
{{- else if .Values.redis.enabled -}}
{{- printf "%s:6379" (include "gateway-proxy.name" (dict "root" . "part" "redis")) -}}
{{- end -}}
{{- end }}

{{/*
The PodDisruptionBudget of a part with several replicas.
Takes (dict "root" $ "part" "controller" "values" .Values.controller "path" "controller").
*/}}
{{- define "gateway-proxy.podDisruptionBudget" -}}
{{- $path := .path }}
{{- $min := .values.podDisruptionBudget.minAvailable }}
{{- if and .values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
{{- if or (eq (toString $min) "100%") (and (not (kindIs "string" $min)) (ge (int $min) (int .values.replicas))) }}
{{- fail (printf "%s.podDisruptionBudget.minAvailable is %v and must be less than %s.replicas, %v: else no pod may ever be evicted, and no node be drained" $path $min $path .values.replicas) }}
{{- end -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "gateway-proxy.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "gateway-proxy.labels" . | nindent 4 }}
spec:
  minAvailable: {{ $min }}
  # A pod that is not ready serves nobody and may always go.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "gateway-proxy.selector" . | nindent 6 }}
{{- end }}
{{- end }}
