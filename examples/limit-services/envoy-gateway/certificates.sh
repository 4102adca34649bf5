#!/usr/bin/env bash
# Creates the Secrets that Envoy Gateway creates when it is installed: an authority, and a certificate each for Envoy
# Gateway and the rate limit service, for mutual TLS. Existing Secrets are kept.
#
# usage: certificates.sh KUBECTL-ARGUMENTS...
set -euo pipefail

namespace=envoy-gateway-system
if kubectl "$@" --namespace "$namespace" get secret envoy-rate-limit >/dev/null 2>&1; then exit 0; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

key=(-newkey rsa:2048 -nodes)
openssl req -x509 "${key[@]}" -keyout ca.key -out ca.crt -days 365 -subj /CN=envoy-gateway -addext keyUsage=critical,keyCertSign 2>/dev/null

# issue SECRET COMMON-NAME NAMES
issue() {
  openssl req -new "${key[@]}" -keyout tls.key -out tls.csr -subj "/CN=$2" 2>/dev/null
  openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out tls.crt \
    -extfile <(printf 'keyUsage=digitalSignature,keyEncipherment\nsubjectAltName=%s' "$3") 2>/dev/null
  kubectl create secret generic "$1" --dry-run=client -o yaml --type kubernetes.io/tls \
    --from-file ca.crt --from-file tls.crt --from-file tls.key >"$1.yaml"
}

issue envoy-gateway envoy-gateway "DNS:envoy-gateway,DNS:envoy-gateway.$namespace,DNS:envoy-gateway.$namespace.svc,DNS:envoy-gateway.$namespace.svc.cluster.local"
issue envoy-rate-limit envoy "DNS:*.$namespace"
kubectl "$@" create namespace "$namespace" --dry-run=client -o yaml | kubectl "$@" apply -f - >/dev/null
kubectl "$@" --namespace "$namespace" apply -f envoy-gateway.yaml -f envoy-rate-limit.yaml >/dev/null
