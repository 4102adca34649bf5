#!/usr/bin/env bash
# Installs a copy of the tracked files for production, with no development dependency and no script of a dependency, and
# tries the demo there: the mock LLM, the proxy on examples/quickstart, requests up to the first 429.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d "${TMPDIR:-/tmp}/gateway-proxy-production.XXXXXX")
readonly copy
trap 'rm -rf "$copy"' EXIT

# As they are now, so that it can be run before a commit.
git ls-files -z | while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
  tar --create --null --files-from=- | tar --extract --directory "$copy"
cd "$copy"
npm ci --omit=dev --ignore-scripts --prefer-offline
for package in typescript vitest vite; do
  if [ -e "node_modules/$package" ]; then
    echo "a production install has the development dependency $package" >&2
    exit 1
  fi
done
npm exec -- node scripts/try-demo.ts npm exec -- node scripts/demo.ts
