#!/usr/bin/env bash
# Builds the programs of a kind node and of an installation, from Go modules and one C file: kubelet, kubeadm, kube-proxy,
# containerd, CoreDNS, pause, and the programs kind and helm. Existing programs are kept. ../build.sh builds the control
# plane.
#
# usage: build.sh [--check]
#   --check builds nothing, and prints what it would build, with status 1.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

check_only=no
case ${1-} in
  '') ;;
  --check) check_only=yes ;;
  *) die "usage: build.sh [--check]" ;;
esac

# binary, module folder, package
readonly targets='
kubelet kubernetes k8s.io/kubernetes/cmd/kubelet
kubeadm kubernetes k8s.io/kubernetes/cmd/kubeadm
kube-proxy kubernetes k8s.io/kubernetes/cmd/kube-proxy
containerd containerd github.com/containerd/containerd/v2/cmd/containerd
containerd-shim-runc-v2 containerd github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
ctr containerd github.com/containerd/containerd/v2/cmd/ctr
coredns coredns github.com/coredns/coredns
'

export CGO_ENABLED=0 GOWORK=off GOTOOLCHAIN=auto

build_from_module() { # NAME MODULE PACKAGE
  local folder=$rig/../modules/$2 flags="-s -w" package
  if [ "$2" = containerd ]; then folder=$rig/modules/containerd; fi
  if [ "$2" = kubernetes ]; then
    for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
      flags+=" -X $package.gitVersion=$kubernetes_version -X $package.gitMajor=1 -X $package.gitMinor=36"
      flags+=" -X $package.gitCommit=unknown -X $package.gitTreeState=archive -X $package.buildDate=1970-01-01T00:00:00Z"
    done
  fi
  (cd "$folder" && GOFLAGS=-mod=readonly nice go build -trimpath -ldflags "$flags" -o "$bin/.new.$1" "$3")
  mv "$bin/.new.$1" "$bin/$1"
}

build_tool() { # NAME PACKAGE@VERSION
  GOFLAGS=-mod=mod GOBIN=$bin/.new nice go install -trimpath -ldflags '-s -w' "$2"
  mv "$bin/.new/$1" "$bin/$1"
}

build_pause() {
  gcc -Os -static -s -DVERSION=3.10 -o "$bin/.new.pause" \
    "$(module_dir "$rig/../modules/kubernetes" k8s.io/kubernetes)/build/pause/linux/pause.c"
  mv "$bin/.new.pause" "$bin/pause"
}

missing=0
# build NAME COMMAND...: runs the command if the binary is missing.
build() {
  local name=$1
  shift
  if [ -x "$bin/$name" ]; then return; fi
  missing=$((missing + 1))
  if [ "$check_only" = yes ]; then
    echo "would build $name"
  else
    need go
    step "build $name" "$@"
  fi
}

while read -r name module package; do
  [ -n "$name" ] || continue
  build "$name" build_from_module "$name" "$module" "$package"
done <<<"$targets"
build kind build_tool kind "sigs.k8s.io/kind@$kind_version"
build helm build_tool helm "helm.sh/helm/v4/cmd/helm@$helm_version"
build pause build_pause
if [ "$check_only" = yes ] && [ "$missing" != 0 ]; then exit 1; fi
