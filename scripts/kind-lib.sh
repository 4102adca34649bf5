# shellcheck shell=bash
# shellcheck disable=SC2034 # read by the scripts that source this file
# What the kind scripts share: their parameters, and how they speak. Sourced.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cluster=${KIND_CLUSTER:-gateway-proxy}
namespace=gateway-proxy-system
release=gateway-proxy
image_registry=${IMAGE_REGISTRY:-localhost/gateway-proxy}
node_image=${KIND_NODE_IMAGE:-}
offline=${KIND_OFFLINE:-false}
gateway_api_version=v1.7.0
gateway_api_crds=${GATEWAY_API_CRDS:-https://github.com/kubernetes-sigs/gateway-api/releases/download/$gateway_api_version/standard-install.yaml}
images='gateway-proxy ratelimit-service mock-llm'

die() {
  echo "error: $*" >&2
  exit 1
}

# usage: what the head of the running script says from that word on.
usage() { sed -n '/^# usage:/,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0"; }

# progress TEXT: what is done now, and since when.
progress() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }

# need PROGRAM HOW: ends with what to install unless the program is there.
need() {
  command -v "$1" >/dev/null || die "$1 is not on the PATH; $2"
}

need_programs() {
  need docker "install it from https://docs.docker.com/get-docker/"
  need kind "install it from https://kind.sigs.k8s.io/docs/user/quick-start/#installation"
  need kubectl "install it from https://kubernetes.io/docs/tasks/tools/"
  need helm "install it from https://helm.sh/docs/intro/install/"
  docker info >/dev/null 2>&1 || die "docker does not respond; start it, or check whether your user may use it: docker info"
}

# Where nothing can be pulled: puts the test rig's own images and programs in place of the public ones.
go_offline() {
  local rig=$repository/test/rig/kind/rig.sh
  progress "prepare images and programs without a registry (some minutes the first time)"
  "$rig" prepare
  eval "$("$rig" env)"
  node_image=$KIND_NODE_IMAGE
  gateway_api_crds=$GATEWAY_API_CRDS
}

delete_cluster() {
  cluster_exists || return 0
  progress "delete cluster $cluster"
  run_quietly kind delete cluster --name "$cluster"
}

cluster_exists() { kind get clusters 2>/dev/null | grep -qx "$cluster"; }
kube() { kubectl --context "kind-$cluster" "$@"; }
helm_here() { helm --kube-context "kind-$cluster" "$@"; }

# run_quietly COMMAND...: shows its output only where it fails.
run_quietly() {
  local output
  output=$("$@" 2>&1) || {
    printf '%s\n' "$output" >&2
    die "failed: $*"
  }
}

# image_tag NAME: the tag under which an image was built last: its content, so that a rebuilt image is rolled out and an
# unchanged one is not.
image_tag() { docker image inspect --format '{{.Id}}' "$image_registry/$1:latest" | sed 's/^sha256:\(.\{12\}\).*/\1/'; }

# build_image NAME: as NAME:latest and NAME:<content>.
build_image() {
  local target=$1 build_args=()
  if [ "$target" = gateway-proxy ]; then target=proxy; fi
  if [ -n "${NODE_IMAGE:-}" ]; then build_args+=(--build-arg "NODE_IMAGE=$NODE_IMAGE"); fi
  # Of the host's network, because a registry mirror may be reachable from nowhere else.
  run_quietly docker build --network host --target "$target" "${build_args[@]}" --tag "$image_registry/$1:latest" "$repository"
  docker tag "$image_registry/$1:latest" "$image_registry/$1:$(image_tag "$1")"
}

# load_image REFERENCE: into the node, unless it has it.
load_image() {
  if docker exec "$cluster-control-plane" ctr --namespace k8s.io images ls -q 2>/dev/null | grep -qE "(^|/)$1\$"; then return; fi
  run_quietly kind load docker-image "$1" --name "$cluster"
}
