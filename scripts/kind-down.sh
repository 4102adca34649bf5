#!/usr/bin/env bash
# Removes the cluster of scripts/kind-up.sh, and ends the docker that --offline may have started. Images stay.
#
# usage: scripts/kind-down.sh [--offline]
set -euo pipefail
# shellcheck source=kind-lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/kind-lib.sh"

case ${1-} in
  '') ;;
  --offline) offline=true ;;
  *) die "usage: scripts/kind-down.sh [--offline]" ;;
esac
if [ "$offline" = true ]; then eval "$("$repository/test/rig/kind/rig.sh" env)"; fi

need kind "without it there is nothing that could remove a cluster"
# Without docker there is no cluster either.
if docker info >/dev/null 2>&1; then
  if cluster_exists; then delete_cluster; else progress "there is no cluster $cluster"; fi
fi
if [ "$offline" = true ]; then "$repository/test/rig/kind/rig.sh" down; fi
progress "done"
