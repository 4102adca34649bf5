#!/usr/bin/env bash
# kind on a machine that can pull no images: all images are built here from Go modules, Debian packages and npm, once, into
# a cache. `scripts/kind-up.sh --offline` calls it.
#
# usage: rig.sh COMMAND
#   check    prints the missing requirements that prepare cannot build, with status 1 if there are any
#   prepare  docker, the programs, the node image, the base image and the image of Redis; existing ones are kept
#   tests    the images of other programs that the end-to-end tests run: Envoy, the reference rate limit service, and Jaeger
#   env      variables for kind-up.sh and for a shell: eval "$(rig.sh env)"
#   down     stops the docker that was started here and restores the machine's settings
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=docker.sh
source "$rig/docker.sh"
# shellcheck source=node-image.sh
source "$rig/node-image.sh"
# shellcheck source=images.sh
source "$rig/images.sh"
# Of Debian's docker.io, which has no buildx.
export DOCKER_BUILDKIT=0

# The reasons why a cluster cannot be created here: one line for each, and status 1 if there are any.
check() {
  local name status=0
  tell() {
    echo "$*"
    status=1
  }
  for name in docker debootstrap redis-server go gcc npm iptables ip; do
    command -v "$name" >/dev/null || tell "$name is not installed"
  done
  can_have_docker || tell "docker does not run and cannot be started"
  return "$status"
}

prepare() {
  "$rig/../build.sh" control-plane
  "$rig/build.sh"
  docker_up
  if ! has_image "$node_image"; then
    check_privileged >"$logs/privileged.log" 2>&1 || die "$(tail -n 3 "$logs/privileged.log")"
    need_root
    make_node_image
  fi
  if ! has_image "$base_image"; then
    need_root
    make_base_image
  fi
  ensure_program_image "$redis_image" redis-server
}

print_env() {
  if is_running dockerd; then echo "export DOCKER_HOST=unix://$socket"; fi
  printf 'export %s=%q\n' \
    PATH "$bin:$PATH" \
    DOCKER_BUILDKIT 0 \
    KUBECONFIG "$rig_home/kind.kubeconfig" \
    KIND_NODE_IMAGE "$node_image" \
    NODE_IMAGE "$base_image" \
    REDIS_IMAGE "$redis_image" \
    ENVOY_IMAGE "$envoy_image" \
    REFERENCE_RATELIMIT_IMAGE "$reference_image" \
    JAEGER_IMAGE "$jaeger_image" \
    GATEWAY_API_CRDS "$rig_home/gateway-api-crds" \
    KIND_POD_NETWORK "$pod_network.0.0/16"
}

case ${1-} in
  check) check ;;
  prepare) prepare ;;
  tests)
    docker_up
    ensure_program_image "$envoy_image" envoy
    ensure_program_image "$reference_image" ratelimit
    ensure_program_image "$jaeger_image" jaeger
    ;;
  env) print_env ;;
  down) docker_down ;;
  *) die "usage: rig.sh check | prepare | tests | env | down" ;;
esac
