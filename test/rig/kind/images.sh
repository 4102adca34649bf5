# shellcheck shell=bash
# Images in place of those of a registry: the base of our images, Redis, Envoy, the reference rate limit service, and
# Jaeger. Sourced.

# Debian with Node and npm, and with this machine's certificate authorities, so that `npm ci` in a build reaches the same
# registries as here.
make_base_image() {
  need debootstrap apt-get chroot tar npm
  step "Debian tree of the base image" debian_tree "$rig_home/base" ca-certificates,libatomic1,libstdc++6
  step "base image" import_base
}

import_base() {
  local base=$rig_home/base node npm
  node=$(node_binary)
  # The folder of the npm that runs here. `npm root --global` names another one where node itself was installed by npm.
  npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")
  install -m 755 "$node" "$base/usr/local/bin/node"
  mkdir -p "$base/usr/local/lib/node_modules"
  cp -r "$npm" "$base/usr/local/lib/node_modules/npm"
  ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$base/usr/local/bin/npm"
  cp "${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt}" "$base/etc/ssl/certs/ca-certificates.crt"
  chroot "$base" /usr/local/bin/npm --version
  import_tree "$base" "$base_image" 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt'
  rm -rf "$base"
}

# Node as package-lock.json pins it.
node_binary() {
  local candidate
  for candidate in "$repository"/node_modules/node-linux-*/bin/node; do
    if [ -x "$candidate" ]; then
      echo "$candidate"
      return
    fi
  done
  die "no Node in $repository/node_modules; run npm ci"
}

# program_image IMAGE BINARY [USER]: a program of this machine with only its libraries.
program_image() {
  local image=$1 binary=$2 folder=$rig_home/program library
  rm -rf "$folder"
  mkdir -p "$folder"/{etc,tmp,usr/local/bin}
  chmod 1777 "$folder/tmp"
  echo 'nonroot:x:65532:65532::/:/none' >"$folder/etc/passwd"
  cp -L "$binary" "$folder/usr/local/bin/${binary##*/}"
  # The path in manifests of the reference.
  ln -s usr/local/bin "$folder/bin"
  # For a static program, which has no libraries, ldd fails.
  for library in $( (ldd "$binary" || true) | grep -o '/[^ ]*'); do cp -L --parents "$library" "$folder"; done
  import_tree "$folder" "$image" "ENTRYPOINT [\"/usr/local/bin/${binary##*/}\"]" 'USER 65532:65532'
  rm -rf "$folder"
}

# test_program NAME: the path at which scripts/install-test-programs.sh installed it, or nothing.
test_program() {
  local folder
  for folder in ${PATH//:/ } "${XDG_CACHE_HOME:-$HOME/.cache}/gatewayproxy/bin"; do
    if [ -x "$folder/$1" ]; then
      # Not resolved: Debian's redis-server is a link, and the program chooses its mode by its name.
      echo "$folder/$1"
      return
    fi
  done
}

# ensure_program_image IMAGE PROGRAM
ensure_program_image() {
  local binary
  if has_image "$1"; then return; fi
  binary=$(test_program "$2")
  [ -n "$binary" ] || die "$2 is not installed; run scripts/install-test-programs.sh"
  step "image of $2" program_image "$1" "$binary"
}
