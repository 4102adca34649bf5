import { expect, test } from "vitest";
import { foreignImages, imagesIn, parsePinned } from "../../scripts/pin-images.ts";

test("every third-party image has a tag and a digest, and is defined in one place", () => {
  const pinned = foreignImages().map(({ file, reference }) => ({ file, ...parsePinned(reference) }));
  expect(pinned.map(({ file, repository }) => ({ file, repository }))).toEqual([
    { file: "Dockerfile", repository: "library/node" },
    { file: "deploy/helm/gateway-proxy/values.yaml", repository: "valkey/valkey" },
  ]);
});

test("the tag of Node's image is the version of the tools and tests", () => {
  const node = foreignImages().find(({ file }) => file === "Dockerfile");
  expect(parsePinned(node?.reference ?? "").tag).toMatch(new RegExp(`^${process.versions.node}-`));
});

test("third-party images are found in Dockerfiles and manifests, and stages and our own images are not", () => {
  const dockerfile = [
    "ARG NODE_IMAGE=docker.io/library/node:26",
    "FROM ${NODE_IMAGE} AS base",
    "FROM --platform=linux/amd64 docker.io/library/debian:12 AS tools",
    "FROM base AS proxy",
    "FROM scratch",
  ].join("\n");
  expect(imagesIn(dockerfile)).toEqual(["docker.io/library/node:26", "docker.io/library/debian:12"]);
  const manifest = [
    "containers:",
    "  - image: redis:8",
    '    image: "quay.io/some/thing@sha256:00"',
    "  - image: {{ .Values.redis.image }}",
    "  - image: localhost/gateway-proxy/mock-llm:dev",
    "  image:",
    "    registry: ghcr.io/gatewayproxy",
  ].join("\n");
  expect(imagesIn(manifest)).toEqual(["redis:8", "quay.io/some/thing@sha256:00"]);
});

const digest = `sha256:${"0123456789abcdef".repeat(4)}`;

test.each([
  { why: "no registry", reference: `valkey/valkey:8@${digest}` },
  { why: "no tag", reference: `docker.io/valkey/valkey@${digest}` },
  { why: "no digest", reference: "docker.io/valkey/valkey:8" },
  { why: "a short digest", reference: `docker.io/valkey/valkey:8@${digest.slice(0, -1)}` },
  { why: "a digest in capitals", reference: `docker.io/valkey/valkey:8@sha256:${"A".repeat(64)}` },
])("a reference with $why is rejected", ({ reference }) => {
  expect(() => parsePinned(reference)).toThrow("is not of the form registry/repository:tag@sha256:");
});
