#!/usr/bin/env bash
# Builds the programs of the test rig from Go modules: a Kubernetes control plane, the Gateway API conformance suite, and
# the programs of its pods. Needs Go 1.21 or later and the module proxy; the first build takes some minutes, 2 GiB of
# memory and 4 GiB of disk for Go's caches. Existing programs are kept.
#
# usage: build.sh [--check] [control-plane|conformance|all]
#   --check builds nothing and prints what it would build.
#
# The binaries go to ${KUBE_RIG_HOME:-${XDG_CACHE_HOME:-~/.cache}/kube-rig}/bin, where the tests find them. The module
# files in modules/ pin every version.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly home="${KUBE_RIG_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-rig}"
readonly bin="$home/bin"
readonly kubernetes_version=v1.36.3
readonly crds="$home/gateway-api-crds"
readonly experimental_crds="$home/gateway-api-crds-experimental"
readonly bundles="$home/gateway-api-bundles"
# The newest patch of each minor version that the controller supports.
readonly bundle_versions='v1.1.0 v1.2.1 v1.3.0 v1.4.1 v1.5.1 v1.6.3 v1.7.0'
# Go may be the one of scripts/install-test-programs.sh, if the machine has none or one that is too old.
PATH="${XDG_CACHE_HOME:-${HOME-}/.cache}/gatewayproxy/bin:$PATH:/usr/local/go/bin"

# group, binary, module, package
readonly targets='
control-plane etcd kubernetes go.etcd.io/etcd/server/v3
control-plane kube-apiserver kubernetes k8s.io/kubernetes/cmd/kube-apiserver
control-plane kube-controller-manager kubernetes k8s.io/kubernetes/cmd/kube-controller-manager
control-plane kube-scheduler kubernetes k8s.io/kubernetes/cmd/kube-scheduler
control-plane kubectl kubernetes k8s.io/kubernetes/cmd/kubectl
conformance fakekubelet conformance ./cmd/fakekubelet
conformance echo-basic conformance sigs.k8s.io/gateway-api-conformance-images/echo-basic
conformance conformance.test conformance .
'

usage() {
  echo "usage: build.sh [--check] [control-plane|conformance|all]" >&2
  exit 2
}

# The version that `kubectl version` and the API server report, which a build from modules does not set.
version_flags() {
  local package flags="-s -w"
  for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
    flags+=" -X $package.gitVersion=$kubernetes_version -X $package.gitMajor=1 -X $package.gitMinor=36"
    flags+=" -X $package.gitCommit=unknown -X $package.gitTreeState=archive -X $package.buildDate=1970-01-01T00:00:00Z"
  done
  echo "$flags"
}

# A digest of what decides about a program of the suite: the versions of its modules, and our own sources. The suite and
# the CRDs have to be of one version.
source_digest() { # NAME
  local sources=("$here"/modules/conformance/*_test.go)
  if [ "$1" = fakekubelet ]; then sources=("$here"/modules/conformance/cmd/fakekubelet/*.go); fi
  cat "$here"/modules/conformance/go.{mod,sum} "${sources[@]}" | sha256sum | cut -d' ' -f1
}

is_present() { # NAME MODULE
  [ -x "$bin/$1" ] || return 1
  [ "$2" = conformance ] || return 0
  [ "$(cat "$bin/.$1.source" 2>/dev/null)" = "$(source_digest "$1")" ]
}

build() { # NAME MODULE PACKAGE
  local name=$1 module=$2 package=$3 flags="-s -w"
  if [ "$module" = kubernetes ]; then flags=$(version_flags); fi
  # Built in a temporary file and moved, so that an interrupted build leaves nothing that looks finished.
  if [ "$name" = conformance.test ]; then
    (cd "$here/modules/$module" && nice -n 19 go test -c -trimpath -o "$bin/.new.$name" "$package")
  else
    (cd "$here/modules/$module" && nice -n 19 go build -trimpath -ldflags "$flags" -o "$bin/.new.$name" "$package")
  fi
  mv "$bin/.new.$name" "$bin/$name"
  if [ "$module" = conformance ]; then source_digest "$name" >"$bin/.$name.source"; fi
}

# The CRDs of the Gateway API, the standard channel's and the experimental one's, in the version of the conformance suite.
copy_crds() {
  local module version channel to
  module=$(cd "$here/modules/conformance" && go mod download -json sigs.k8s.io/gateway-api)
  version=$(sed -n 's/^\t"Version": "\(.*\)",$/\1/p' <<<"$module")
  module=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$module")
  for channel in standard experimental; do
    to=$crds
    if [ "$channel" = experimental ]; then to=$experimental_crds; fi
    rm -rf "$to.new"
    mkdir -p "$to.new"
    cp "$module/config/crd/$channel"/gateway.networking*.yaml "$to.new"
    chmod -R u+w "$to.new"
    rm -rf "$to"
    mv "$to.new" "$to"
    echo "$version" >"$to/VERSION"
  done
}

has_crds() {
  local version folder
  version="v$(sed -n 's/.*sigs.k8s.io\/gateway-api v\([^ ]*\).*/\1/p' "$here/modules/conformance/go.mod")"
  for folder in "$crds" "$experimental_crds"; do
    [ "$version" = "$(cat "$folder/VERSION" 2>/dev/null)" ] || return 1
  done
}

# The CRDs of other versions of the Gateway API, which clusters may have: standard channel, one folder for each version.
copy_bundles() {
  local version module empty
  empty=$(mktemp -d)
  for version in $bundle_versions; do
    if [ -d "$bundles/$version" ]; then continue; fi
    # Outside of any module, so that the version does not become a requirement of one.
    module=$(cd "$empty" && go mod download -json "sigs.k8s.io/gateway-api@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf "$bundles/.new"
    mkdir -p "$bundles/.new"
    cp "$module/config/crd/standard"/gateway.networking*.yaml "$bundles/.new"
    chmod -R u+w "$bundles/.new"
    mv "$bundles/.new" "$bundles/$version"
  done
  rmdir "$empty"
}

has_bundles() {
  local version
  for version in $bundle_versions; do
    [ -d "$bundles/$version" ] || return 1
  done
}

need_go() { # WHAT
  if ! command -v go >/dev/null; then
    echo "$1 needs Go 1.21 or later; run scripts/install-test-programs.sh" >&2
    exit 1
  fi
}

check_only=no
group=all
for argument in "$@"; do
  case "$argument" in
    --check) check_only=yes ;;
    control-plane | conformance | all) group=$argument ;;
    *) usage ;;
  esac
done

mkdir -p "$bin"
# An older Go downloads the toolchain that a go.mod requires, as a module with a checksum.
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off GOTOOLCHAIN=auto
missing=0
if ! has_crds; then
  missing=1
  echo "the CRDs of the Gateway API are not in $crds"
  if [ "$check_only" = no ]; then
    need_go "fetching them"
    copy_crds
  fi
fi
if ! has_bundles; then
  missing=$((missing + 1))
  echo "the CRDs of other versions of the Gateway API are not in $bundles"
  if [ "$check_only" = no ]; then
    need_go "fetching them"
    copy_bundles
  fi
fi
while read -r of name module package; do
  if [ -z "$of" ] || { [ "$group" != all ] && [ "$group" != "$of" ]; } || is_present "$name" "$module"; then continue; fi
  missing=$((missing + 1))
  if [ "$check_only" = yes ]; then
    echo "$name would be built"
    continue
  fi
  need_go "$name"
  started=$SECONDS
  echo "$name is being built"
  build "$name" "$module" "$package"
  echo "$name took $((SECONDS - started)) s"
done <<<"$targets"
if [ "$missing" = 0 ]; then echo "nothing to build ($group): all of it is in $bin"; fi
