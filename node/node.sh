#!/bin/sh
# The Node that everything here runs on: npm links this as node_modules/.bin/node, which npm puts first on the PATH of
# scripts and of what they start. It is the one of package-lock.json for this platform; where that is not installed
# (npm ci --omit=optional), the next one on the PATH.
#
# npm could link those packages' own `node`. But npm 10, which comes with Node 20 and 22, then removes the link with the
# packages of other platforms, that it does not install.
here=$(dirname "$(readlink -f "$0")")
for node in "$here"/../node_modules/node-*/bin/node "$here"/../node_modules/node-*/bin/node.exe; do
  if [ -x "$node" ]; then exec "$node" "$@"; fi
done
IFS=:
for folder in $PATH; do
  if [ -x "$folder/node" ] && [ "$(readlink -f "$folder/node")" != "$here/node.sh" ]; then exec "$folder/node" "$@"; fi
done
echo "no Node in node_modules or on PATH; run npm ci" >&2
exit 127
