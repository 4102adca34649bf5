#!/usr/bin/env bash
# Builds images again and rolls them out in the cluster of scripts/kind-up.sh. An image whose content has not changed
# keeps its tag, and its pods.
#
# usage: scripts/kind-load.sh [--offline] [gateway-proxy | ratelimit-service | mock-llm]...
#   Without names: all. The environment is that of kind-up.sh.
set -euo pipefail
# shellcheck source=kind-lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/kind-lib.sh"

if [ "${1-}" = --offline ]; then
  offline=true
  shift
fi
if [ "$offline" = true ]; then eval "$("$repository/test/rig/kind/rig.sh" env)"; fi
need_programs
cluster_exists || die "there is no cluster $cluster; run scripts/kind-up.sh"

if [ $# = 0 ]; then
  # shellcheck disable=SC2086 # a list
  set -- $images
fi
for image; do
  case " $images " in
    *" $image "*) ;;
    *) die "there is no image $image, but these: $images" ;;
  esac
  progress "build and load $image"
  build_image "$image"
  reference=$image_registry/$image:$(image_tag "$image")
  load_image "$reference"
  progress "roll out $reference"
  case $image in
    gateway-proxy) value=controller.image.tag ;;
    ratelimit-service) value=rateLimitService.image.tag ;;
    mock-llm)
      run_quietly kube set image deployment/mock-llm "mock-llm=$reference"
      run_quietly kube rollout status deployment/mock-llm --timeout=120s
      continue
      ;;
  esac
  run_quietly helm_here upgrade "$release" "$repository/deploy/helm/gateway-proxy" --namespace "$namespace" \
    --reuse-values --set "$value=$(image_tag "$image")" --wait --timeout 180s
done
progress "done"
