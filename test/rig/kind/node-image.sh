# shellcheck shell=bash
# The node image for kind, put together from a Debian tree, the base files of kind's own image, and the built programs.
# The component images that kubeadm requires are built from scratch and stored in the node's containerd. Sourced.

tree=$rig_home/rootfs
components=$rig_home/images
node_packages=systemd,systemd-sysv,dbus,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod,libseccomp2,pigz
node_packages+=,e2fsprogs,bash,ca-certificates,curl,jq,procps,containernetworking-plugins,runc,socat,hostname

make_node_image() {
  need debootstrap apt-get chroot tar go
  local program
  for program in kubelet kubeadm kubectl kube-proxy kube-apiserver kube-controller-manager kube-scheduler etcd containerd \
    containerd-shim-runc-v2 ctr coredns pause; do
    [ -x "$bin/$program" ] || die "$bin/$program is not built; run test/rig/build.sh and test/rig/kind/build.sh"
  done
  [ -d "$tree.base" ] || step "Debian tree of the node" debian_tree "$tree.base" "$node_packages"
  step "base files of the node" node_tree
  step "component images" make_components
  step "store of the node" preload
  step "node image" import_node
}

node_tree() {
  local files module
  module=$(cd "$run" && GOFLAGS='' GOWORK=off GOTOOLCHAIN=auto go mod download -json "sigs.k8s.io/kind@$kind_version" |
    sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  files=$module/images/base/files
  [ -d "$files" ] || die "the module of kind has no base files in $files"
  rm -rf "$tree"
  cp -a "$tree.base" "$tree"
  cp -r --no-preserve=mode,ownership "$files/." "$tree/"
  chmod 755 "$tree"/usr/local/bin/* "$tree/kind" "$tree/kind/bin" "$tree"/kind/bin/*
  find "$tree/etc" "$tree/kind" -type d -exec chmod 755 {} +
  cp "$bin"/{containerd,containerd-shim-runc-v2,ctr} "$tree/usr/local/bin/"
  cp "$bin"/{kubelet,kubeadm,kubectl} "$tree/usr/bin/"
  mkdir -p "$tree"/{usr/local/sbin,opt/cni/bin,etc/kubernetes/manifests,etc/cni/net.d,kind/manifests}
  ln -sf /usr/sbin/runc "$tree/usr/local/sbin/runc"
  cp "$tree"/usr/lib/cni/{host-local,loopback,ptp,bridge,portmap} "$tree/opt/cni/bin/"
  pod_network_config >"$tree/etc/cni/net.d/10-ptp.conflist"
  # Without CAP_SYS_RESOURCE runc cannot lower OOM scores, and no pod would start.
  if lacks_capabilities; then
    sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$tree/etc/containerd/config.toml"
  fi
  echo -n "$kubernetes_version" >"$tree/kind/version"
  chroot "$tree" /bin/bash -euc "$(node_clean_up)"
}

# In place of kindnetd: with one node, pods reach each other through its routes.
pod_network_config() {
  cat <<JSON
{"cniVersion":"0.4.0","name":"ptp","plugins":[
 {"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","ranges":[[{"subnet":"$pod_network.0.0/24"}]],
  "dataDir":"/run/cni-ipam-state","routes":[{"dst":"0.0.0.0/0"}]},"mtu":1500},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
JSON
}

# The changes of kind's own base image to Debian's units.
node_clean_up() {
  cat <<'BASH'
find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete
rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
  /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* \
  /lib/systemd/system/sockets.target.wants/*initctl* /lib/systemd/system/basic.target.wants/*
echo ReadKMsg=no >>/etc/systemd/journald.conf
ln -sf /usr/lib/systemd/systemd /sbin/init
systemctl enable kubelet.service containerd.service undo-mount-hacks.service
systemctl mask systemd-binfmt.service
hook='{"path": "/kind/bin/mount-product-files.sh"}'
ctr oci spec | jq ".hooks.createContainer[.hooks.createContainer| length] |= . + $hook | del(.process.rlimits)" \
  >/etc/containerd/cri-base.json
BASH
}

make_components() {
  local image name all=() sandbox
  rm -rf "$components"
  mkdir -p "$components"
  cd "$components"
  for image in $("$bin/kubeadm" config images list --kubernetes-version "$kubernetes_version"); do
    name=${image##*/}
    make_component "${name%%:*}" "$image"
    all+=("$image")
  done
  # containerd may refer to another tag of pause than kubeadm.
  sandbox=$(sed -n 's/^ *sandbox_image = "\(.*\)"/\1/p' "$tree/etc/containerd/config.toml")
  if [ -n "$sandbox" ] && ! has_image "$sandbox"; then import_tree "$components/pause" "$sandbox" 'ENTRYPOINT ["/pause"]'; fi
  if [ -n "$sandbox" ]; then all+=("$sandbox"); fi
  docker save -o all.tar "${all[@]}"
}

make_component() { # NAME IMAGE
  local folder=$components/$1
  mkdir -p "$folder"/{usr/local/bin,tmp,etc/ssl/certs}
  case $1 in
    pause | coredns)
      cp "$bin/$1" "$folder/$1"
      import_tree "$folder" "$2" "ENTRYPOINT [\"/$1\"]"
      ;;
    etcd)
      cp "$bin/etcd" "$folder/usr/local/bin/"
      import_tree "$folder" "$2"
      ;;
    kube-proxy)
      kube_proxy_tree "$folder"
      import_tree "$folder" "$2" 'ENTRYPOINT ["/usr/local/bin/kube-proxy"]'
      ;;
    *)
      cp "$bin/$1" "$folder/usr/local/bin/"
      import_tree "$folder" "$2" "ENTRYPOINT [\"/usr/local/bin/$1\"]"
      ;;
  esac
}

# kube-proxy runs iptables, nft, conntrack, kmod and ip; they come out of the node's Debian tree with their libraries.
kube_proxy_tree() { # DIRECTORY
  local link name file folder
  for link in sbin bin lib lib64; do
    mkdir -p "$1/usr/$link"
    ln -s "usr/$link" "$1/$link"
  done
  mkdir -p "$1/run"
  cp "$bin/kube-proxy" "$1/usr/local/bin/"
  for name in xtables-nft-multi nft conntrack kmod ip; do
    file=$(chroot "$tree" sh -c "readlink -f \"\$(command -v $name)\"")
    cp -L "$tree$file" "$1/usr/sbin/$name"
    copy_libraries "$1" "$file"
  done
  for folder in "$tree"/usr/lib/*/xtables; do
    file=${folder#"$tree"}
    mkdir -p "$1${file%/*}"
    cp -r "$folder" "$1${file%/*}/"
    # shellcheck disable=SC2046 # file names without spaces
    copy_libraries "$1" $(cd "$tree" && ls -d ".$file"/*.so)
  done
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -sf xtables-nft-multi "$1/usr/sbin/$name"
  done
  cp "$tree"/etc/{protocols,services} "$1/etc/"
  chroot "$1" /usr/sbin/iptables --version
}

copy_libraries() { # DIRECTORY FILE...: files as the Debian tree names them
  local folder=$1 library
  shift
  chroot "$tree" ldd "$@" 2>/dev/null | grep -oE '/[^ :]*\.so[^ :()]*' | sort -u |
    while read -r library; do
      mkdir -p "$folder${library%/*}"
      cp -nL "$tree$library" "$folder$library"
    done
}

# Puts the component images into the store of the containerd that will run in the node.
preload() {
  local socket=$run/preload.sock waited
  rm -rf "$tree/var/lib/containerd" "$run/preload"
  mkdir -p "$tree/var/lib/containerd" "$run/preload"
  start_daemon preload "$bin/containerd" --root "$tree/var/lib/containerd" --state "$run/preload" --address "$socket" -l warn
  for ((waited = 0; waited < 100; waited++)); do
    if "$bin/ctr" -a "$socket" version >/dev/null 2>&1; then break; fi
    sleep 0.1
  done
  "$bin/ctr" -a "$socket" -n k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack \
    --digests "$components/all.tar"
  stop_daemon preload 5
  rm -rf "$components" "$run/preload"
}

import_node() {
  tar -C "$tree" --numeric-owner --exclude='./proc/*' --exclude='./sys/*' -c . | docker import - local/kind-node:tree
  # `docker import` cannot set the stop signal of a container.
  docker build -q -t "$node_image" - <<'DOCKERFILE'
FROM local/kind-node:tree
ENV container=docker
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
DOCKERFILE
  docker rmi local/kind-node:tree
  rm -rf "$tree"
}
