#!/usr/bin/env bash
# Runs a command of the project, .ci/run unless another is given, in a Debian root file system where nothing was installed
# by hand: a minimal bookworm with git, Node 20 and npm 10, and a clone of the last commit. It shows whether README's
# prerequisites are all that it takes.
#
# usage: scripts/check-clean-root.sh [--keep] [COMMAND...]
#   --keep  uses the root of the run before, with what that installed and built, and a new clone
#
# The root has its own mounts, processes and network: loopback, and a link behind which this machine translates addresses,
# for package registries. Of this machine it gets what it takes to reach them: apt's sources, certificate authorities, the
# addresses of registries. Needs root, debootstrap, iptables, iproute2 (install-test-programs.sh) and 20 GiB for a whole run.
#
# Environment:
#   CLEAN_ROOT  where the root is made (/var/tmp/gateway-proxy-clean-root)
set -euo pipefail
# Here for debian_tree, which takes the release and the mirror of this machine.
# shellcheck source=../test/rig/kind/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../test/rig/kind/lib.sh"

readonly root=${CLEAN_ROOT:-/var/tmp/gateway-proxy-clean-root}
readonly link=gp-clean
readonly network=10.213.27
readonly node_version=20.20.2 npm_version=10.9.9

keep=no
if [ "${1-}" = --keep ]; then
  keep=yes
  shift
fi
[ "$#" != 0 ] || set -- .ci/run

make_root() {
  echo "== Debian in $root"
  debian_tree "$root" ca-certificates,git
  # Where and how packages come from is this machine's.
  rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d
  cp -a /etc/apt/sources.list.d "$root/etc/apt/"
  if [ -e /etc/apt/sources.list ]; then cp /etc/apt/sources.list "$root/etc/apt/"; fi
  apt-config dump Acquire >"$root/etc/apt/apt.conf.d/99-acquire"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  # Node as npm's registry has it: the packages hold nodejs.org's binaries, and need no script.
  echo "== Node $node_version, npm $npm_version"
  npm install --global --ignore-scripts --prefix "$root/usr/local" \
    "node-linux-$(dpkg --print-architecture | sed s/amd64/x64/)@$node_version" "npm@$npm_version"
}

# Links the namespace of a process to this machine's network, and translates its addresses.
connect() { # PID
  ip link add "$link" type veth peer name eth0 netns "$1"
  ip address add "$network.1/30" dev "$link"
  ip link set "$link" up
  nsenter --target "$1" --net ip link set lo up
  nsenter --target "$1" --net ip address add "$network.2/30" dev eth0
  nsenter --target "$1" --net ip link set eth0 up
  nsenter --target "$1" --net ip route add default via "$network.1"
  forwarding=$(sysctl -n net.ipv4.ip_forward)
  sysctl -q -w net.ipv4.ip_forward=1
  iptables -w -t nat -A POSTROUTING -s "$network.0/30" ! -o "$link" -j MASQUERADE
  iptables -w -I FORWARD -i "$link" -j ACCEPT
  iptables -w -I FORWARD -o "$link" -j ACCEPT
}

# shellcheck disable=SC2317 # called by the trap
disconnect() {
  iptables -w -t nat -D POSTROUTING -s "$network.0/30" ! -o "$link" -j MASQUERADE 2>/dev/null || true
  iptables -w -D FORWARD -i "$link" -j ACCEPT 2>/dev/null || true
  iptables -w -D FORWARD -o "$link" -j ACCEPT 2>/dev/null || true
  ip link delete "$link" 2>/dev/null || true
  # A docker that was started meanwhile needs it.
  if [ "${forwarding-1}" = 0 ] && ! ip link show docker0 >/dev/null 2>&1; then sysctl -q -w net.ipv4.ip_forward=0; fi
}

# In the new namespaces: makes the tree the root, and runs the command when the network is there.
inside() {
  cat <<'BASH'
set -euo pipefail
root=$1 marker=$2
shift 2
while [ ! -e "$marker" ]; do sleep 0.1; done
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
hostname clean
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
cd /root/project
exec "$@"
BASH
}

# What a command in the root has in its environment: where registries are, and nothing else of this machine.
environment() {
  local name
  echo "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
  printf '%s\n' HOME=/root LANG=C.UTF-8 TERM=dumb NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
  echo "npm_config_registry=$(npm config get registry)"
  for name in GOPROXY GOSUMDB GONOSUMDB; do
    if command -v go >/dev/null; then echo "$name=$(go env $name)"; fi
  done
  name=$(python3 -m pip config get global.index-url 2>/dev/null || true)
  if [ -n "$name" ]; then echo "PIP_INDEX_URL=$name"; fi
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_CERT; do
    if [ -n "${!name-}" ]; then echo "$name=${!name}"; fi
  done
}

need_root
need debootstrap iptables ip npm git unshare nsenter
if [ "$keep" = no ] || [ ! -e "$root/usr/local/bin/npm" ]; then make_root; fi
rm -rf "$root/root/project"
git clone --quiet --no-local "$repository" "$root/root/project"
echo "== $* in $root, at $(git -C "$root/root/project" log -1 --format=%h)"

scratch=$(mktemp -d)
child=
# shellcheck disable=SC2317 # called by the trap
finish() {
  disconnect
  if [ -n "$child" ]; then kill -9 "$child" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM

mapfile -t variables < <(environment)
# The first process of a namespace takes all others with it when it ends.
unshare --mount --uts --ipc --net --pid --fork --kill-child \
  bash -c "$(inside)" inside "$root" "$scratch/connected" /usr/bin/env -i "${variables[@]}" "$@" &
child=$!
# The process in the namespaces is the child of unshare.
for ((waited = 0; waited < 100; waited++)); do
  process=$(pgrep --parent "$child" | head -n 1) && [ -n "$process" ] && break
  sleep 0.1
done
connect "$process"
touch "$scratch/connected"
status=0
wait "$child" || status=$?
child=
exit "$status"
