#!/usr/bin/env bash
# A whole cluster from one command: kind, the Gateway API, our images, the chart with Redis and two replicas of the rate
# limit service, the mock LLM and the examples. Safe to repeat: what is there is kept, what has changed is rolled out.
#
# usage: scripts/kind-up.sh [--offline] [--replace] [--limit-service NAME]
#   --offline             pulls no image: node image and base images are made from package registries (Debian, Go and npm;
#                         see test/rig/kind). Needs root on Debian 12.
#   --replace             deletes the cluster that is there and creates a new one
#   --limit-service NAME  which service counts the limits that all replicas share (ours):
#                           ours           ratelimit-service/, by the chart
#                           envoyproxy     envoyproxy/ratelimit with Redis
#                           envoy-gateway  the rate limit service as Envoy Gateway makes it, with mutual TLS and limits by
#                                          xDS. A test program sends them; Envoy Gateway is not installed
#                           limitador      Limitador
#                         Another one takes the place of what an earlier run has installed; scripts/kind-limit-service.sh
#                         does that alone, in seconds.
#   --help                prints this
#
# Environment:
#   KIND_OFFLINE        true is --offline
#   KIND_CLUSTER        name of the cluster (gateway-proxy)
#   KIND_NODE_IMAGE     node image (the one that kind chooses)
#   IMAGE_REGISTRY      prefix of our images (localhost/gateway-proxy)
#   NODE_IMAGE          base that they are built from (see Dockerfile)
#   REDIS_IMAGE         image of Redis or Valkey (that of the chart)
#   LIMIT_SERVICE_IMAGE image of the service of others (its own); ours is the image that is built here,
#                       with which the manifests of envoyproxy and envoy-gateway work unchanged
#   GATEWAY_API_CRDS    file, folder or URL of the Gateway API's CRDs
set -euo pipefail
# shellcheck source=kind-lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/kind-lib.sh"
# shellcheck source=kind-limit-services.sh
source "$repository/scripts/kind-limit-services.sh"

limit_service=ours
replace_cluster=false
while [ $# -gt 0 ]; do
  case $1 in
    --offline) offline=true ;;
    --replace) replace_cluster=true ;;
    --limit-service)
      limit_service=${2-}
      shift
      ;;
    --limit-service=*) limit_service=${1#*=} ;;
    -h | --help)
      usage
      exit
      ;;
    *) die "$1 is not known; accepted are --offline, --replace, --limit-service NAME and --help" ;;
  esac
  [ $# = 0 ] || shift
done
choose_limit_service "$limit_service"

create_cluster() {
  local config=$repository/kind-config.yaml arguments=()
  if [ "$replace_cluster" = true ]; then delete_cluster; fi
  if cluster_exists; then
    progress "cluster $cluster is there"
    run_quietly kind export kubeconfig --name "$cluster"
    kube get --raw /readyz >/dev/null 2>&1 ||
      die "the API server of cluster $cluster does not respond; scripts/kind-up.sh --replace deletes the cluster and creates a new one"
    return
  fi
  progress "create cluster $cluster"
  if [ "$offline" = true ]; then
    config=$(mktemp)
    (cd "$repository" && npm exec -- node test/rig/kind/cluster-config.ts kind-config.yaml "$KIND_POD_NETWORK") >"$config"
  fi
  if [ -n "$node_image" ]; then arguments+=(--image "$node_image"); fi
  # kind removes what it made where that fails, but not where it is interrupted; it would then seem to be a cluster.
  trap 'kind delete cluster --name "$cluster"' EXIT
  NO_COLOR=1 TERM=dumb run_quietly kind create cluster --name "$cluster" --config "$config" --wait 180s "${arguments[@]}"
  trap - EXIT
}

install_gateway_api() {
  progress "install the Gateway API"
  run_quietly kube apply --server-side --force-conflicts -f "$gateway_api_crds"
  # `kubectl wait --for=condition` fails for a CRD that has no conditions yet.
  local name last=$((SECONDS + 60))
  for name in gateways httproutes gatewayclasses; do
    until kube get "crd/$name.gateway.networking.k8s.io" --output jsonpath='{.status.conditions[*].type}' |
      grep --quiet Established; do
      ((SECONDS < last)) || die "the API server does not serve $name after 60 s; see: kubectl get crd"
      sleep 0.2
    done
  done
}

install_images() {
  local image
  for image in $images; do
    progress "build and load $image"
    build_image "$image"
    load_image "$image_registry/$image:$(image_tag "$image")"
  done
  load_limit_service
}

install_chart() {
  local redis=() service=()
  if [ "$limit_service" != ours ]; then service=(--set rateLimitService.enabled=false --set redis.enabled=false); fi
  if [ -n "${REDIS_IMAGE:-}" ]; then
    # Of an image of the rig the entry point is the program.
    redis=(--set "redis.image=$REDIS_IMAGE" --set-json 'redis.command=[]')
  fi
  progress "install the chart"
  kube create namespace "$namespace" --dry-run=client -o yaml | run_quietly kube apply -f -
  run_quietly kube label --overwrite namespace "$namespace" pod-security.kubernetes.io/enforce=restricted
  run_quietly helm_here upgrade --install "$release" "$repository/deploy/helm/gateway-proxy" --namespace "$namespace" \
    --values "$repository/examples/kind/values.yaml" --wait --timeout 180s "${redis[@]}" "${service[@]}" \
    --set "image.registry=$image_registry" \
    --set "controller.image.tag=$(image_tag gateway-proxy)" \
    --set "rateLimitService.image.tag=$(image_tag ratelimit-service)"
}

if [ "$offline" = true ]; then go_offline; fi
need_programs
check_limit_service
create_cluster
install_gateway_api
install_images
install_chart
install_examples
progress "ready"
cat "$repository/examples/kind/next-steps.txt"
if [ "$offline" = true ]; then
  # shellcheck disable=SC2016 # to be typed as it is
  printf '\nIn this shell kubectl finds the cluster after: eval "$(test/rig/kind/rig.sh env)"\n'
fi
