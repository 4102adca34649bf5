# shellcheck shell=bash
# Docker for the rig: a running one, or else one on a socket in the rig's home, whose settings are restored afterwards.
# Sourced.

socket=$run/docker.sock
# Written by dockerd, kubelet and kube-proxy.
sysctls='vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys
kernel.keys.root_maxbytes net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables'

# True if not even root has every capability. Privileged containers request all of them and would not start.
lacks_capabilities() {
  local bound last
  bound=$(awk '/^CapBnd/ {print $2}' /proc/self/status)
  last=$(cat /proc/sys/kernel/cap_last_cap)
  ((16#$bound != (1 << (last + 1)) - 1))
}

# True if a docker runs or can be started.
can_have_docker() {
  command -v docker >/dev/null || return
  if is_running dockerd || docker info >/dev/null 2>&1; then return; fi
  [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null
}

docker_up() {
  need docker
  if is_running dockerd; then
    export DOCKER_HOST=unix://$socket
    return
  fi
  if docker info >/dev/null 2>&1; then return; fi
  need_root
  need dockerd containerd runc iptables-save ip
  [ "${#socket}" -lt 100 ] || die "the path of the rig's home is too long for a socket: $socket"
  export DOCKER_HOST=unix://$socket
  save_machine
  step "start docker" start_docker
}

start_docker() {
  local waited arguments=(--data-root "$rig_home/docker" --exec-root "$run/dockerd" --pidfile "$run/dockerd.own.pid"
    -H "unix://$socket" --storage-driver overlay2)
  rm -f "$run/dockerd.own.pid"
  if lacks_capabilities; then
    arguments+=(--add-runtime "limited=$rig/runc-wrapper.py" --default-runtime limited)
  fi
  start_daemon dockerd dockerd "${arguments[@]}"
  for ((waited = 0; waited < 300; waited++)); do
    if docker info >/dev/null 2>&1; then return; fi
    is_running dockerd || break
    sleep 0.1
  done
  tail -n 5 "$logs/dockerd.log"
  return 1
}

# Stops the docker that docker_up started; one that was running before is not stopped.
docker_down() {
  is_running dockerd || return 0
  DOCKER_HOST=unix://$socket docker network rm kind >/dev/null 2>&1 || true
  stop_daemon dockerd 20
  ip link del docker0 2>/dev/null || true
  restore_machine
}

save_machine() {
  local name value
  for name in $sysctls; do
    if value=$(sysctl -n "$name" 2>/dev/null); then echo "$name=$value"; fi
  done >"$run/sysctls"
  iptables -S FORWARD | head -n 1 >"$run/forward"
  ip6tables -S FORWARD 2>/dev/null | head -n 1 >"$run/forward6" || true
}

restore_machine() {
  local tables policy
  # The settings of net.bridge do not exist without a bridge.
  if [ -s "$run/sysctls" ]; then xargs -r sysctl -q -w <"$run/sysctls" 2>/dev/null || true; fi
  for tables in iptables ip6tables; do
    policy=$run/forward${tables//[!6]/}
    command -v "$tables-save" >/dev/null || continue
    if "$tables-save" 2>/dev/null | grep -q DOCKER; then
      "$tables-save" | grep -vE 'DOCKER|docker0|br-[0-9a-f]{12}' | "$tables-restore" || true
    fi
    # One line such as "-P FORWARD ACCEPT".
    if [ -s "$policy" ]; then xargs "$tables" <"$policy"; fi
  done
  rm -f "$run/sysctls" "$run/forward" "$run/forward6"
}

# A first privileged container shows the error better than kind would.
check_privileged() {
  if ! has_image local/rig-pause; then tar -C "$bin" -c pause | docker import - local/rig-pause; fi
  docker run --rm --privileged --network none local/rig-pause /pause -v ||
    die "this docker cannot start privileged containers; stop it, and the rig starts one that can"
}
