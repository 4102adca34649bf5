{{/* Names and labels are those of https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/ */}}

{{/* The prefix of all names: the release, followed by the chart unless the release's name contains it. */}}
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

{{/* Security contexts of a pod and a container under the Pod Security Standard "restricted". */}}
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

{{/* Scheduling of pods. Takes (dict "root" $ "part" "controller" "values" .Values.controller). */}}
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

{{/* Name of the ConfigMap with the limits. */}}
{{- define "gateway-proxy.limitsConfigMap" -}}
{{- .Values.rateLimitService.existingConfigMap | default (printf "%s-limits" (include "gateway-proxy.fullname" .)) -}}
{{- end }}

{{/* Not empty if the rate limit service runs in pods of its own; the next, if it is a sidecar of each proxy. */}}
{{- define "gateway-proxy.hasLimitDeployment" -}}
{{- if and .Values.rateLimitService.enabled (eq .Values.rateLimitService.mode "Deployment") -}}yes{{- end -}}
{{- end }}
{{- define "gateway-proxy.hasLimitSidecar" -}}
{{- if and .Values.rateLimitService.enabled (eq .Values.rateLimitService.mode "Sidecar") -}}yes{{- end -}}
{{- end }}

{{/* Address of a sidecar: the only loopback address to which proxies may then connect. */}}
{{- define "gateway-proxy.limitSidecarAddress" -}}127.0.0.1:15081{{- end }}

{{/* Environment of the rate limit service. */}}
{{- define "gateway-proxy.limitServiceEnv" -}}
- { name: LOG_LEVEL, value: {{ .Values.rateLimitService.logLevel | quote }} }
- { name: LOG_FORMAT, value: json }
- { name: USE_PROMETHEUS, value: "true" }
- { name: FAILURE_MODE, value: {{ .Values.rateLimitService.failureMode }} }
# A check before an LLM call must be denied when no token is left; see docs/global-limits.md.
- { name: STRICT_ZERO_HIT, value: "true" }
# A ConfigMap volume contains each file twice, once below a name with a dot.
- { name: RUNTIME_IGNOREDOTFILES, value: "true" }
{{- with include "gateway-proxy.redisUrl" . }}
- { name: REDIS_URL, value: {{ . | quote }} }
{{- end }}
{{- with .Values.rateLimitService.redis.authSecret }}{{ if .name }}
- name: REDIS_AUTH
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- end }}{{ end }}
{{- if .Values.telemetry.traces.endpoint }}
- { name: OTEL_TRACES_EXPORTER, value: otlp }
{{- end }}
{{- with include "gateway-proxy.telemetryEnv" . }}
{{ . }}
{{- end }}
{{- with .Values.telemetry.logs }}{{ if and .endpoint (ne .exported "access") }}
{{ include "gateway-proxy.logsEnv" $ }}
{{- end }}{{ end }}
{{- with .Values.rateLimitService.env }}{{ toYaml . | nindent 0 }}{{ end }}
{{- end }}

{{/* Variables of OpenTelemetry, for the proxies and the rate limit service; nothing if there are none. */}}
{{- define "gateway-proxy.telemetryEnv" -}}
{{- $variables := list }}
{{- with .Values.telemetry }}
{{- if .traces.endpoint }}{{ $variables = append $variables (include "gateway-proxy.tracingEnv" $) }}{{ end }}
{{- if .metrics.endpoint }}{{ $variables = append $variables (include "gateway-proxy.metricsEnv" $) }}{{ end }}
{{- $isExported := or .traces.endpoint .metrics.endpoint .logs.endpoint }}
{{- if and $isExported .traces.resourceAttributes }}
{{- $pairs := list }}
{{- range $name, $value := .traces.resourceAttributes }}{{ $pairs = append $pairs (printf "%s=%s" $name (urlquery $value | replace "+" "%20")) }}{{ end }}
{{- $variables = append $variables (printf "- { name: OTEL_RESOURCE_ATTRIBUTES, value: %s }" ($pairs | join "," | quote)) }}
{{- end }}
{{- if .semconvOptIn }}
{{- $variables = append $variables (printf "- { name: OTEL_SEMCONV_STABILITY_OPT_IN, value: %s }" (.semconvOptIn | join "," | quote)) }}
{{- end }}
{{- end }}
{{- $variables | join "\n" }}
{{- end }}

{{- define "gateway-proxy.tracingEnv" -}}
{{- with .Values.telemetry.traces -}}
- { name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }} }
- { name: OTEL_EXPORTER_OTLP_PROTOCOL, value: {{ .protocol }} }
- { name: OTEL_TRACES_SAMPLER, value: {{ .sampler }} }
- { name: OTEL_TRACES_SAMPLER_ARG, value: {{ .ratio | quote }} }
- { name: OTEL_PROPAGATORS, value: {{ .propagators | join "," | default "none" | quote }} }
{{- if .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: { secretKeyRef: { name: {{ .headersSecret.name }}, key: {{ .headersSecret.key }}, optional: true } }
{{- end }}
{{- end }}
{{- end }}

{{- define "gateway-proxy.metricsEnv" -}}
{{- with .Values.telemetry.metrics -}}
- { name: OTEL_METRICS_EXPORTER, value: otlp }
{{- /* For HTTP, the variable of one signal has the whole path. */}}
{{- $path := ternary "" "/v1/metrics" (eq .protocol "grpc") }}
- { name: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, value: {{ printf "%s%s" (trimSuffix "/" .endpoint) $path | quote }} }
- { name: OTEL_EXPORTER_OTLP_METRICS_PROTOCOL, value: {{ .protocol }} }
- { name: OTEL_METRIC_EXPORT_INTERVAL, value: {{ int64 .interval | quote }} }
- { name: OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE, value: {{ .temporality }} }
{{- if .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_METRICS_HEADERS
  valueFrom: { secretKeyRef: { name: {{ .headersSecret.name }}, key: {{ .headersSecret.key }}, optional: true } }
{{- end }}
{{- end }}
{{- end }}

{{- define "gateway-proxy.logsEnv" -}}
{{- with .Values.telemetry.logs -}}
- { name: OTEL_LOGS_EXPORTER, value: otlp }
{{- /* As for metrics. */}}
{{- $path := ternary "" "/v1/logs" (eq .protocol "grpc") }}
- { name: OTEL_EXPORTER_OTLP_LOGS_ENDPOINT, value: {{ printf "%s%s" (trimSuffix "/" .endpoint) $path | quote }} }
- { name: OTEL_EXPORTER_OTLP_LOGS_PROTOCOL, value: {{ .protocol }} }
{{- if .headersSecret.name }}
- name: OTEL_EXPORTER_OTLP_LOGS_HEADERS
  valueFrom: { secretKeyRef: { name: {{ .headersSecret.name }}, key: {{ .headersSecret.key }}, optional: true } }
{{- end }}
{{- end }}
{{- end }}

{{/* Variables of the access log that differ from their defaults. */}}
{{- define "gateway-proxy.accessLogEnv" -}}
{{- with .Values.telemetry.accessLog }}
{{- $fields := .fields | join "\n" }}
{{- if ne .mode "on" }}
- { name: ACCESS_LOG, value: {{ .mode | quote }} }
{{- end }}
{{- if lt (float64 .successRatio) 1.0 }}
- { name: ACCESS_LOG_SUCCESS_RATIO, value: {{ .successRatio | quote }} }
- { name: ACCESS_LOG_SLOW, value: {{ .slow }} }
{{- end }}
{{- with .filter }}
- { name: ACCESS_LOG_FILTER, value: {{ . | quote }} }
{{- end }}
{{- if ne $fields "*" }}
- { name: ACCESS_LOG_FIELDS, value: {{ $fields | quote }} }
{{- end }}
{{- with .template }}
- { name: ACCESS_LOG_TEMPLATE, value: {{ . | quote }} }
{{- end }}
{{- if not .stdout }}
- { name: ACCESS_LOG_STDOUT, value: "off" }
{{- end }}
{{- end }}
{{- end }}

{{/* Variables with which the proxies of the class export telemetry and log requests; nothing for the defaults. */}}
{{- define "gateway-proxy.proxyTelemetryEnv" -}}
{{- $variables := list (include "gateway-proxy.telemetryEnv" .) }}
{{- with .Values.telemetry.traces }}{{ if .endpoint }}
{{- $variables = append $variables (printf "- { name: TRACE_CLIENT_SAMPLING, value: %s }" .clientSampling) }}
{{- $variables = append $variables (printf "- { name: TRACE_ALWAYS, value: %s }" .always) }}
{{- end }}{{ end }}
{{- with .Values.telemetry.logs }}{{ if .endpoint }}
{{- $variables = append $variables (include "gateway-proxy.logsEnv" $) }}
{{- if ne .exported "all" }}{{ $variables = append $variables (printf "- { name: EXPORTED_LOGS, value: %s }" .exported) }}{{ end }}
{{- end }}{{ end }}
{{- $variables = append $variables (include "gateway-proxy.accessLogEnv" . | trim) }}
{{- $variables | compact | join "\n" }}
{{- end }}

{{/* The sidecar that proxy pods get from the rate limit service. It starts before the proxy and ends after it. */}}
{{- define "gateway-proxy.limitSidecar" -}}
{{- $values := .Values.rateLimitService }}
spec:
  template:
    metadata:
      annotations:
        {{- if not $values.existingConfigMap }}
        {{- range $name, $limits := $values.config }}
        limits.gatewayproxy.dev/{{ $name }}: | {{- toYaml $limits | nindent 10 }}
        {{- end }}
        {{- end }}
    spec:
      initContainers:
        - name: ratelimit-service
          image: {{ include "gateway-proxy.image" (dict "root" . "image" $values.image) }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          restartPolicy: Always
          args: [ratelimit-service.js, --config-dir, /etc/ratelimit]
          env:
            # Ports that Gateways are unlikely to use. Other pods need only the metrics.
            - { name: GRPC_HOST, value: 127.0.0.1 }
            - { name: GRPC_PORT, value: "15081" }
            - { name: HOST, value: 127.0.0.1 }
            - { name: PORT, value: "15082" }
            - { name: DEBUG_PORT, value: "15083" }
            - { name: PROMETHEUS_ADDR, value: ":15084" }
            {{- include "gateway-proxy.limitServiceEnv" . | nindent 12 }}
          ports:
            - { name: limit-metrics, containerPort: 15084 }
          resources: {{- toYaml $values.resources | nindent 12 }}
          securityContext: {{- include "gateway-proxy.securityContext" . | nindent 12 }}
          volumeMounts:
            - { name: limits, mountPath: /etc/ratelimit, readOnly: true }
      volumes:
        - name: limits
          {{- if $values.existingConfigMap }}
          configMap: { name: {{ $values.existingConfigMap }} }
          {{- else }}
          # The files are in annotations of the pod, because a ConfigMap would have to be in the namespace of each Gateway.
          downwardAPI:
            items:
              {{- range $name, $limits := $values.config }}
              - path: {{ $name }}
                fieldRef: { fieldPath: "metadata.annotations['limits.gatewayproxy.dev/{{ $name }}']" }
              {{- else }} []
              {{- end }}
          {{- end }}
{{- end }}

{{/* Parameters with which each proxy of the class has a volume for its counters. */}}
{{- define "gateway-proxy.persistenceParameters" -}}
{{- with .Values.counters.persistence -}}
persistentVolumeClaim:
  spec:
    {{- with .storageClassName }}
    storageClassName: {{ . }}
    {{- end }}
    resources: { requests: { storage: {{ .size | quote }} } }
statefulSet:
  spec:
    persistentVolumeClaimRetentionPolicy: { whenDeleted: {{ .whenDeleted }}, whenScaled: {{ .whenScaled }} }
{{- end }}
{{- end }}

{{/* Parameters of the class: those of the values, merged over those of the volumes and the sidecar. */}}
{{- define "gateway-proxy.classParameters" -}}
{{- $parameters := deepCopy .Values.gatewayClass.parameters }}
{{- if .Values.counters.persistence.enabled }}
{{- if not .Values.gatewayClass.create }}
{{- fail "counters.persistence.enabled needs gatewayClass.create: true, because the volumes are in the parameters of the class" }}
{{- end }}
{{- range $key, $fields := include "gateway-proxy.persistenceParameters" . | fromYaml }}
{{- $own := get $parameters $key | default dict }}
{{- if kindIs "string" $own }}{{ $own = fromYaml $own }}{{ end }}
{{- $_ := set $parameters $key (mergeOverwrite $fields (deepCopy $own)) }}
{{- end }}
{{- end }}
{{- if include "gateway-proxy.hasLimitSidecar" . }}
{{- if not .Values.gatewayClass.create }}
{{- fail "rateLimitService.mode Sidecar needs gatewayClass.create: true, because the sidecar is in the parameters of the class" }}
{{- end }}
{{- $own := $parameters.deployment | default dict }}
{{- if kindIs "string" $own }}{{ $own = fromYaml $own }}{{ end }}
{{- $pod := dig "spec" "template" "spec" dict $own }}
{{- $merged := include "gateway-proxy.limitSidecar" . | fromYaml }}
{{- $spec := $merged.spec.template.spec }}
{{- $init := concat $spec.initContainers (dig "initContainers" list $pod) }}
{{- $volumes := concat $spec.volumes (dig "volumes" list $pod) }}
{{- $merged = mergeOverwrite $merged (deepCopy $own) }}
{{- $_ := mergeOverwrite $merged.spec.template.spec (dict "initContainers" $init "volumes" $volumes) }}
{{- $_ := set $parameters "deployment" $merged }}
{{- end }}
{{- $env := include "gateway-proxy.proxyTelemetryEnv" . | fromYamlArray }}
{{- if $env }}
{{- $own := $parameters.deployment | default dict }}
{{- if kindIs "string" $own }}{{ $own = fromYaml $own }}{{ end }}
{{- $containers := list }}
{{- $proxy := dict "name" "proxy" }}
{{- range dig "spec" "template" "spec" "containers" list $own }}
{{- if eq .name "proxy" }}{{ $proxy = deepCopy . }}{{ else }}{{ $containers = append $containers . }}{{ end }}
{{- end }}
{{- $names := list }}
{{- range $proxy.env }}{{ $names = append $names .name }}{{ end }}
{{- $variables := list }}
{{- range $env }}{{ if not (has .name $names) }}{{ $variables = append $variables . }}{{ end }}{{ end }}
{{- $_ := set $proxy "env" (concat $variables ($proxy.env | default list)) }}
{{- $deployment := mergeOverwrite (dict "spec" (dict "template" (dict "spec" dict))) (deepCopy $own) }}
{{- $_ := set $deployment.spec.template.spec "containers" (prepend $containers $proxy) }}
{{- $_ := set $parameters "deployment" $deployment }}
{{- end }}
{{- toYaml $parameters }}
{{- end }}

{{/* URL of the Redis that replicas of the service share, or nothing. Sidecars are in other namespaces. */}}
{{- define "gateway-proxy.redisUrl" -}}
{{- if .Values.rateLimitService.redis.url -}}
{{- .Values.rateLimitService.redis.url -}}
{{- else if .Values.redis.enabled -}}
{{- $host := include "gateway-proxy.name" (dict "root" . "part" "redis") -}}
{{- if include "gateway-proxy.hasLimitSidecar" . }}{{ $host = printf "%s.%s.svc" $host .Release.Namespace }}{{ end -}}
{{- printf "%s:6379" $host -}}
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
{{- fail (printf "%s.podDisruptionBudget.minAvailable is %v and must be less than %s.replicas, %v; otherwise no pod could be evicted and no node drained" $path $min $path .values.replicas) }}
{{- end -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "gateway-proxy.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "gateway-proxy.labels" . | nindent 4 }}
spec:
  minAvailable: {{ $min }}
  # A pod that is not ready serves no traffic and may always be evicted.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "gateway-proxy.selector" . | nindent 6 }}
{{- end }}
{{- end }}
