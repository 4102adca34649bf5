# shellcheck shell=bash
# shellcheck disable=SC2154 # parameters of kind-lib.sh
# The examples, and the rate limit service behind them: ours, or one of others. Sourced after kind-lib.sh.

# choose_limit_service NAME: sets limit_service, and examples to the manifests that go with it.
choose_limit_service() {
  limit_service=$1
  case $limit_service in
    ours) examples=$repository/examples/kind ;;
    envoyproxy | envoy-gateway | limitador) examples=$repository/examples/limit-services/$limit_service ;;
    *) die "the rate limit service is '$limit_service'; accepted are ours, envoyproxy, envoy-gateway and limitador" ;;
  esac
}

# limit_service_image: that of the service that was chosen; nothing for ours, which the chart names.
limit_service_image() {
  case $limit_service:${LIMIT_SERVICE_IMAGE:-} in
    ours:*) ;;
    *:ours) echo "$image_registry/ratelimit-service:$(image_tag ratelimit-service)" ;;
    limitador:) echo quay.io/kuadrant/limitador:v2.2.0 ;;
    # The version of scripts/install-test-programs.sh.
    *:) echo "${REFERENCE_RATELIMIT_IMAGE:-docker.io/envoyproxy/ratelimit:3fb70258}" ;;
    *) echo "$LIMIT_SERVICE_IMAGE" ;;
  esac
}

# redis_image: the one that is set, or that of the chart.
redis_image() {
  local of_chart
  of_chart=$(sed -n '/^redis:/,$s/^  image: //p' "$repository/deploy/helm/gateway-proxy/values.yaml")
  echo "${REDIS_IMAGE:-$of_chart}"
}

# Offline nothing can be pulled, so a service of others needs an image that docker has.
check_limit_service() {
  local image
  if [ "$limit_service" = envoy-gateway ]; then need openssl "it makes the certificates of envoy-gateway"; fi
  if [ "$offline" != true ] || [ "$limit_service" = ours ] || [ "${LIMIT_SERVICE_IMAGE:-}" = ours ]; then return; fi
  if [ "$limit_service" != limitador ]; then run_quietly "$repository/test/rig/kind/rig.sh" tests; fi
  image=$(limit_service_image)
  if docker image inspect "$image" >/dev/null 2>&1; then return; fi
  die "--limit-service $limit_service needs the image $image, which is not here and cannot be pulled offline; put it into docker, or name another by LIMIT_SERVICE_IMAGE"
}

# load_limit_service: what the service runs, into the node. What is not here is pulled by the node.
load_limit_service() {
  local image
  for image in "${REDIS_IMAGE:-}" "$(limit_service_image)"; do
    if [ -n "$image" ] && docker image inspect "$image" >/dev/null 2>&1; then load_image "$image"; fi
  done
}

# with_images: manifests on standard input, with images in place of the variables and of the tag dev.
with_images() {
  local image replace=(-e "s|image: \$LIMIT_SERVICE_IMAGE|image: $(limit_service_image)|")
  for image in mock-llm ratelimit-service; do
    replace+=(-e "s|image: .*/$image:dev|image: $image_registry/$image:$(image_tag "$image")|")
  done
  sed "${replace[@]}" -e "s|image: \$REDIS_IMAGE|image: $(redis_image)|"
}

# wait_for_deployments NAMESPACE: until no pod of a previous template remains in it.
wait_for_deployments() {
  local deployment
  for deployment in $(kube --namespace "$1" get deployments --output name); do
    run_quietly kube --namespace "$1" rollout status "$deployment" --timeout=180s
  done
}

install_examples() {
  local label=gatewayproxy.dev/limit-service where manifests
  local chosen=$label=$limit_service others=$label,$label!=$limit_service
  progress "install the examples"
  # Those of a service that an earlier run installed.
  run_quietly kube delete namespaces --selector "$others" --wait=false
  for where in $(kube get namespaces --selector "$chosen" --field-selector status.phase=Terminating --output name); do
    run_quietly kube wait --for=delete "$where" --timeout=120s
  done
  if [ "$limit_service" = envoy-gateway ]; then run_quietly "$examples/certificates.sh" --context "kind-$cluster"; fi
  manifests=$(kubectl kustomize "$examples" | with_images)
  if [ "$limit_service" = envoyproxy ] || [ "$limit_service" = envoy-gateway ]; then
    # envoyproxy/ratelimit ends where it finds no Redis at its start.
    run_quietly kube apply --selector gatewayproxy.dev/apply=first -f - <<<"$manifests"
  fi
  where=$(kube get namespaces --selector "$chosen" --output name)
  where=${where#namespace/}
  if [ -n "$where" ]; then wait_for_deployments "$where"; fi
  run_quietly kube apply -f - <<<"$manifests"
  run_quietly kube rollout status deployment/mock-llm --timeout=120s
  if [ -n "$where" ]; then
    progress "wait for $limit_service"
    wait_for_deployments "$where"
  fi
  run_quietly kube wait gateway/quickstart --for=condition=Programmed --timeout=120s
}
