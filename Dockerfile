# The images of this repository, each a target: `docker build --target proxy .`
#
#   proxy              the proxy and, with another command, its controller
#   ratelimit-service  the rate limit service
#   mock-llm           the mock LLM of the examples
#
# Each holds Node, the C libraries that Node is linked with, and the programs; no shell, no package manager, nothing that can
# be written. They run as a user without a name or a home, with a read-only root. The programs of the proxy's image and of
# the service's are bundles (scripts/bundle.ts), which start faster and take less memory than the sources.
#
# Each also holds its software bill of materials, /usr/share/sbom/*.cdx.json, and dpkg's records of the C libraries, which
# image scanners read.
#
# NODE_IMAGE is only what the parts are taken from: any Debian with Node 26 and npm. `npm run pin-images` updates the
# digest.
ARG NODE_IMAGE=docker.io/library/node:26.10.0-bookworm-slim@sha256:662933cf47f013bc8e4beb31a6116448427a82057ba7c42c97e4c5ba766504c2

# --- Node and its libraries alone -------------------------------------------------------------------------------------
FROM ${NODE_IMAGE} AS node
USER root
RUN set -eu; \
    node --version | grep -q '^v26\.' || { echo "NODE_IMAGE has Node $(node --version), not 26" >&2; exit 1; }; \
    # Authorities of one's own are mounted at /etc/ssl/certs; Node complains of a folder that is not there.
    mkdir -p /image/etc/ssl/certs /image/usr/local/bin /image/var/lib/dpkg/status.d; \
    mkdir -m 1777 /image/tmp; \
    node="$(readlink -f "$(command -v node)")"; \
    cp "$node" /image/usr/local/bin/node; \
    # What ldd prints is "name => path (address)" or, for the loader, "path (address)".
    for library in $(ldd "$node" | grep -o '/[^ ]*'); do \
      cp -L --parents "$library" /image; \
      # By name alone: the loader may know it by another folder than dpkg, since /lib is a link to /usr/lib.
      package="$(dpkg-query --search "*/${library##*/}" | head -n 1 | cut -d: -f1)"; \
      dpkg-query --status "$package" >"/image/var/lib/dpkg/status.d/$package"; \
    done; \
    cp -L /etc/os-release /image/etc/; \
    echo 'nonroot:x:65532:65532::/:/none' >/image/etc/passwd; \
    echo 'nonroot:x:65532:' >/image/etc/group; \
    echo 'hosts: files dns' >/image/etc/nsswitch.conf

FROM scratch AS base
COPY --from=node /image/ /
# By default, the C library keeps larger and larger freed blocks for later use, such as those of V8's compilers.
ENV PATH=/usr/local/bin NODE_ENV=production MALLOC_MMAP_THRESHOLD_=131072
USER 65532:65532
WORKDIR /app

# --- Where packages are installed, exactly as in package-lock.json ------------------------------------------------------
FROM ${NODE_IMAGE} AS dependencies
USER root
WORKDIR /app
COPY package.json package-lock.json ./
COPY node/package.json node/
COPY runtime/package.json runtime/
COPY http/package.json http/
COPY grpc/package.json grpc/
COPY protos/package.json protos/
COPY admin-api/package.json admin-api/
COPY admin-ui/package.json admin-ui/
COPY proxyctl/package.json proxyctl/
COPY proxy/package.json proxy/
COPY ratelimit-service/package.json ratelimit-service/
COPY examples/mock-llm/package.json examples/mock-llm/

# --- The page of the admin server -------------------------------------------------------------------------------------
FROM dependencies AS admin-ui
RUN npm ci --ignore-scripts --no-audit --no-fund --workspace admin-ui
COPY tsconfig.json ./
COPY admin-api/ admin-api/
COPY admin-ui/ admin-ui/
RUN npm run --silent build --workspace admin-ui

# --- The programs, with the packages that they need and the licences of those -----------------------------------------
FROM dependencies AS bundles
RUN npm ci --ignore-scripts --no-audit --no-fund \
    --workspace runtime --workspace http --workspace grpc --workspace protos --workspace admin-api --workspace proxy --workspace ratelimit-service
COPY runtime/ runtime/
COPY http/ http/
COPY grpc/ grpc/
COPY protos/ protos/
COPY admin-api/ admin-api/
COPY proxy/ proxy/
COPY ratelimit-service/ ratelimit-service/
COPY --from=admin-ui /app/admin-ui/dist/ admin-ui/dist/
COPY scripts/bundle.ts scripts/bundle-builtins.ts scripts/bundle-redis-client.ts scripts/bundled-programs.ts scripts/third-party-licenses.ts scripts/
RUN node scripts/bundle.ts --out /images

# --- The bills of materials -------------------------------------------------------------------------------------------
FROM dependencies AS sbom
COPY --from=node /image/var/lib/dpkg/status.d/ /status.d/
COPY scripts/sbom.ts scripts/
RUN node scripts/sbom.ts --dpkg /status.d /sbom

# --- The images -------------------------------------------------------------------------------------------------------
FROM base AS mock-llm
COPY --from=sbom /sbom/mock-llm.cdx.json /usr/share/sbom/
COPY package.json ./
COPY examples/mock-llm/ examples/mock-llm/
ENV HOST=0.0.0.0
EXPOSE 8089
ENTRYPOINT ["node"]
CMD ["examples/mock-llm/src/main.ts"]

# The commands of the reference's image, which manifests name. The kernel reads the first line of each file, so no shell is
# needed.
FROM node AS ratelimit-commands
RUN set -eu; mkdir -p /commands/bin; cd /commands/bin; \
    ln -s /app/ratelimit.js ratelimit; \
    ln -s /app/ratelimit-config-check.js ratelimit_config_check; \
    ln -s /app/ratelimit-client.js ratelimit_client

FROM base AS ratelimit-service
COPY --from=ratelimit-commands /commands/ /
COPY --from=sbom /sbom/ratelimit-service.cdx.json /usr/share/sbom/
COPY --from=bundles /images/ratelimit-service/ ./
EXPOSE 8080 8081
# Small young generations keep the memory of a service that is mostly waiting small.
ENTRYPOINT ["node", "--max-semi-space-size=4", "--no-maglev"]
CMD ["ratelimit-service.js"]

FROM base AS proxy
COPY --from=sbom /sbom/proxy.cdx.json /usr/share/sbom/
COPY --from=bundles /images/proxy/ ./
EXPOSE 15020 15021
ENTRYPOINT ["node"]
CMD ["proxy.js"]
