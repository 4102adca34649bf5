# shellcheck shell=bash
# shellcheck disable=SC2034 # read by the scripts that source this file
# Shared by the scripts of this folder: versions, paths, and functions that run steps and daemons.

rig=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$rig/../../.." && pwd)
rig_home=${KUBE_RIG_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-rig}
bin=$rig_home/bin
run=$rig_home/run
logs=$rig_home/log
mkdir -p "$bin" "$run" "$logs"
# As in scripts/install-test-programs.sh: its programs take precedence.
PATH="${XDG_CACHE_HOME:-${HOME-}/.cache}/gatewayproxy/bin:$PATH:/usr/sbin:/sbin:/usr/local/go/bin"

# The modules of ../modules and modules/ pin the same ones.
kubernetes_version=v1.36.3
kind_version=v0.33.0
helm_version=v4.3.1
node_major=26

node_image=local/kind-node:$kubernetes_version
base_image=local/node-build:$node_major
redis_image=local/redis:7
envoy_image=local/envoy:test
jaeger_image=local/jaeger:test
reference_image=local/envoyproxy-ratelimit:3fb70258
# Fixed in the node image, see node-image.sh.
pod_network=10.246

die() {
  echo "error: $*" >&2
  exit 1
}

# step NAME COMMAND...: runs it with its output in a log, and prints one line.
step() {
  local name=$1 log started=$SECONDS status=0
  shift
  log=$logs/$(tr -c 'A-Za-z0-9.\n' '-' <<<"$name").log
  # A separate shell: tested directly, the command would run without errexit.
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1
  status=$?
  set -e
  if [ "$status" != 0 ]; then
    tail -n 15 "$log" >&2
    die "$name failed with status $status; the whole log is $log"
  fi
  printf '  %-40s %4d s\n' "$name" $((SECONDS - started))
}

need() { # COMMAND...
  local command absent=()
  for command in "$@"; do command -v "$command" >/dev/null || absent+=("$command"); done
  [ "${#absent[@]}" = 0 ] || die "not found on PATH: ${absent[*]}; run scripts/install-test-programs.sh"
}

need_root() { [ "$(id -u)" = 0 ] || die "$(basename "$0") starts docker and Debian trees, which needs root"; }

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# start_daemon NAME COMMAND...: in the background, its process id recorded.
start_daemon() {
  local name=$1 waited
  shift
  if is_running "$name"; then return; fi
  setsid "$@" >"$logs/$name.log" 2>&1 </dev/null &
  echo $! >"$run/$name.pid"
  # Until the program has replaced the shell, `is_running` does not recognize the process.
  for ((waited = 0; waited < 50; waited++)); do
    if is_running "$name"; then return; fi
    sleep 0.1
  done
}

# True if the recorded process was started from this home; process ids are reused.
is_running() { # NAME
  local pid
  [ -f "$run/$1.pid" ] || return 1
  pid=$(cat "$run/$1.pid")
  [ -r "/proc/$pid/cmdline" ] || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$rig_home/"
}

# stop_daemon NAME SECONDS: sends TERM, and KILL after this time.
stop_daemon() {
  local pid waited
  if is_running "$1"; then
    pid=$(cat "$run/$1.pid")
    kill "$pid" 2>/dev/null || true
    for ((waited = 0; waited < $2 * 10; waited++)); do
      is_running "$1" || break
      sleep 0.1
    done
    if is_running "$1"; then kill -9 "$pid" 2>/dev/null || true; fi
  fi
  rm -f "$run/$1.pid"
}

# module_dir FOLDER MODULE: its path in the module cache, in the version of FOLDER/go.mod.
module_dir() {
  (
    cd "$1"
    local_go() { GOFLAGS=-mod=readonly GOWORK=off GOTOOLCHAIN=auto go "$@"; }
    local_go mod download "$2"
    local_go list -m -f '{{.Dir}}' "$2"
  )
}

# debian_tree DIRECTORY PACKAGES: this machine's release, from the mirror of its apt sources.
debian_tree() {
  local release mirror proxy
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016 # fields of apt-get, not of the shell
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$release" '$2 == release && $3 == "main" {print $1; exit}')
  [ -n "$mirror" ] || die "no apt source for $release main"
  proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
  if [ -n "$proxy" ] && [ "$proxy" != DIRECT ]; then export http_proxy=$proxy; fi
  rm -rf "$1.new"
  debootstrap --variant=minbase --include="$2" "$release" "$1.new" "$mirror"
  rm -rf "$1.new"/var/cache/apt/archives/*.deb "$1.new"/var/lib/apt/lists/* "$1"
  mv "$1.new" "$1"
}

# import_tree DIRECTORY IMAGE [CHANGE...]: a folder as an image of one layer.
import_tree() {
  local directory=$1 image=$2 change changes=()
  shift 2
  for change in 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "$@"; do
    changes+=(--change "$change")
  done
  tar -C "$directory" --numeric-owner -c . | docker import "${changes[@]}" - "$image" >/dev/null
}
