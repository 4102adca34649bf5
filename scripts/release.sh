#!/usr/bin/env bash
# Publishes a version: images for two platforms with signature, provenance and bill of materials, the Helm chart, and the
# files of the GitHub release. The workflow `release` runs it on a tag; RELEASING.md describes the steps before it.
#
# usage: scripts/release.sh [--dry-run | --verify] VERSION
#   --dry-run  prints the commands and runs none
#   --verify   checks what has been published: signatures, provenance, bills of materials
#
# Needs docker with buildx and QEMU, cosign 2 or later, helm, gh, and a login at the registry. cosign signs with the
# identity of the workflow, so there is no key to keep.
#
# Environment:
#   REGISTRY  where images and chart go (ghcr.io/gatewayproxy)
#   IDENTITY  the workflow whose signatures --verify accepts, as a regular expression
set -euo pipefail
cd "$(dirname "$0")/.."

readonly registry=${REGISTRY:-ghcr.io/gatewayproxy}
readonly platforms=linux/amd64,linux/arm64
readonly identity=${IDENTITY:-^https://github.com/gatewayproxy/gateway-proxy/\.github/workflows/release\.yml@refs/tags/v}
readonly issuer=https://token.actions.githubusercontent.com
# Targets of the Dockerfile, and the name of each image.
readonly images=(proxy=gateway-proxy ratelimit-service=ratelimit-service mock-llm=mock-llm)

usage() {
  echo "usage: scripts/release.sh [--dry-run | --verify] VERSION" >&2
  exit 2
}

fail() {
  echo "release.sh: $*" >&2
  exit 1
}

mode=publish
case "${1-}" in
  --dry-run) mode=dry-run && shift ;;
  --verify) mode=verify && shift ;;
esac
[ $# = 1 ] || usage
readonly version=$1 mode
[[ "$version" =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] ||
  fail "'$version' is not a version such as 1.2.3 or 1.2.3-rc.1"

run() {
  if [ "$mode" = dry-run ]; then
    printf '%s\n' "$*"
  else
    "$@"
  fi
}

# The digest that the registry has for a tag: what is signed is what was pushed.
digest_of() { # REFERENCE
  if [ "$mode" = dry-run ]; then
    echo "sha256:DIGEST"
  else
    docker buildx imagetools inspect "$1" --format '{{json .Manifest}}' | sed -n 's/.*"digest":"\(sha256:[0-9a-f]*\)".*/\1/p'
  fi
}

publish_image() { # TARGET NAME
  local target=$1 reference=$registry/$2 digest
  run docker buildx build --target "$target" --platform "$platforms" --provenance mode=max \
    --label "org.opencontainers.image.version=$version" \
    --label "org.opencontainers.image.source=https://github.com/gatewayproxy/gateway-proxy" \
    --label "org.opencontainers.image.licenses=Apache-2.0" \
    --tag "$reference:$version" --push .
  digest=$(digest_of "$reference:$version")
  run cosign sign --yes "$reference@$digest"
  run cosign attest --yes --type cyclonedx --predicate "sbom/$target.cdx.json" "$reference@$digest"
}

publish_chart() {
  local archive=$work/gateway-proxy-$version.tgz
  run helm package deploy/helm/gateway-proxy --destination "$work"
  run helm push "$archive" "oci://$registry/charts"
  run cosign sign --yes "$registry/charts/gateway-proxy:$version"
}

publish_files() {
  local flags=()
  [[ "$version" != *-* ]] || flags=(--prerelease)
  run npm run --silent pack:proxyctl -- --out "$work"
  run cp deploy/install/gateway-proxy.yaml "$work/install.yaml"
  run cp -r deploy/crds/. "$work"
  run cp -r sbom/. "$work"
  run gh release create "v$version" --verify-tag --notes-from-tag "${flags[@]}" "$work"/*
}

verify_image() { # NAME
  local reference=$registry/$1:$version who=(--certificate-identity-regexp "$identity" --certificate-oidc-issuer "$issuer")
  cosign verify "${who[@]}" "$reference" >/dev/null
  cosign verify-attestation --type cyclonedx "${who[@]}" "$reference" >/dev/null
  docker buildx imagetools inspect "$reference" --format '{{json .Provenance}}' | grep -q SLSA ||
    fail "$reference has no provenance"
  echo "$reference: signature, bill of materials and provenance are valid"
}

if [ "$mode" = verify ]; then
  for image in "${images[@]}"; do verify_image "${image#*=}"; done
  cosign verify --certificate-identity-regexp "$identity" --certificate-oidc-issuer "$issuer" \
    "$registry/charts/gateway-proxy:$version" >/dev/null
  exit
fi

declared=$(npm pkg get version | tr -d '"')
[ "$declared" = "$version" ] || fail "package.json has version $declared, not $version"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run npm run --silent sbom
for image in "${images[@]}"; do publish_image "${image%%=*}" "${image#*=}"; done
publish_chart
publish_files
