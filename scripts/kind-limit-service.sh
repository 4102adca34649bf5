#!/usr/bin/env bash
# Puts another rate limit service behind the examples in the cluster of scripts/kind-up.sh. Ours stays where it is.
#
# usage: scripts/kind-limit-service.sh [--offline] ours | envoyproxy | envoy-gateway | limitador
#   They, --offline and the environment are those of kind-up.sh.
set -euo pipefail
# shellcheck source=kind-lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/kind-lib.sh"
# shellcheck source=kind-limit-services.sh
source "$repository/scripts/kind-limit-services.sh"

if [ "${1-}" = --offline ]; then
  offline=true
  shift
fi
case ${1-} in
  -h | --help)
    usage
    exit
    ;;
esac
choose_limit_service "${1-}"
if [ "$offline" = true ]; then eval "$("$repository/test/rig/kind/rig.sh" env)"; fi
need_programs
cluster_exists || die "there is no cluster $cluster; run scripts/kind-up.sh"
if [ "$limit_service" = ours ]; then
  kube --namespace "$namespace" get "deployment/$release-ratelimit-service" >/dev/null 2>&1 ||
    die "the chart is installed without our service; run scripts/kind-up.sh"
fi
check_limit_service
load_limit_service
install_examples
progress "$limit_service counts"
