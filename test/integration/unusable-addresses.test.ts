/** Endpoints with an address that no URL can contain: such an attempt fails, and other requests are served. */
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";

const serviceAt = (address: string): string => `
apiVersion: v1
kind: Service
metadata: { name: s, namespace: default }
spec: { ports: [{ name: main, port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: s-0, namespace: default, labels: { kubernetes.io/service-name: s } }
addressType: IPv4
ports: [{ name: main, port: 80 }]
endpoints: [{ addresses: ["${address}"] }]
`;

test.each(["foo.1", "1.2.3.999", "a b", "["])(
  "a request to an endpoint at %j fails, and others are served",
  async (address) => {
    const { port } = await startBackend();
    const rules = [
      "matches: [{ path: { value: /bad } }]\n      backendRefs: [{ name: s, port: 80 }]",
      `matches: [{ path: { value: /mirrored } }]
      filters: [{ type: RequestMirror, requestMirror: { backendRef: { name: s, port: 80 } } }]
      backendRefs: [${backendRef("b")}]`,
      `backendRefs: [${backendRef("b")}]`,
    ];
    const gateway = await startGateway(
      manifests(gatewayManifest(), backendManifest("b", port), serviceAt(address), routeManifest("r", rules)),
    );
    for (const request of [{}, { method: "POST", body: "small" }, { method: "POST", body: "x".repeat(100_000) }]) {
      const failed = await fetch(`${gateway.url()}/bad`, request);
      expect(failed.status).toBe(503);
      expect((await fetch(`${gateway.url()}/mirrored`, request)).status).toBe(200);
    }
    expect((await fetch(gateway.url())).status).toBe(200);
  },
);
