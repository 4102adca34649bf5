/**
 * A tenant's policy names a rate limit service of another tenant. Requests of the tenant do not reach it without a
 * ReferenceGrant, even while the other tenant's objects call the same service through the same Gateway.
 */
import { expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, startGateway } from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";
import { type Script, startScriptedService } from "../support/rate-limit-service.ts";

const allow: Script = () => ({ overallCode: "OK", statuses: [{ code: "OK" }] });

/** In another namespace than `default`. */
function moved(namespace: string, manifest: string): string {
  return manifest.replaceAll("namespace: default", `namespace: ${namespace}`);
}

const sharedGateway = gatewayManifest().replace(
  "protocol: HTTP,",
  "protocol: HTTP, allowedRoutes: { namespaces: { from: All } },",
);

/** A route of a tenant at a host name of its own. */
function routeOf(tenant: string): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: chat, namespace: ${tenant} }
spec:
  parentRefs: [{ name: web, namespace: default }]
  hostnames: [${tenant}.test]
  rules: [{ backendRefs: [${backendRef("llm")}] }]
`;
}

function policyOf(tenant: string, limiter: string): string {
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: chat, namespace: ${tenant} }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat }]
  traffic:
    rateLimit:
      global:
        domain: ${tenant}
        backendRef: ${limiter}
        failureMode: Closed
        descriptors: [{ entries: [{ name: path, expression: request.path }] }]
`;
}

function grantOf(to: string): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: { name: limiter, namespace: owner }
spec:
  from: [{ group: gatewayproxy.dev, kind: ProxyPolicy, namespace: guest }]
  to: [${to}]
`;
}

/** A Service on port 80 with an endpoint at a port of this machine. */
function limiterService(port: number): string {
  return `
apiVersion: v1
kind: Service
metadata: { name: limiter, namespace: owner }
spec: { ports: [{ name: main, port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: limiter, namespace: owner, labels: { kubernetes.io/service-name: limiter } }
addressType: IPv4
ports: [{ name: main, port: ${port} }]
endpoints: [{ addresses: [127.0.0.1] }]
`;
}

const services = [
  {
    kind: "Service",
    manifest: limiterService,
    ref: "{ name: limiter, namespace: owner, port: 80 }",
    to: '{ group: "", kind: Service }',
  },
  {
    kind: "Backend",
    manifest: (port: number) => moved("owner", backendManifest("limiter", port)),
    ref: "{ group: gatewayproxy.dev, kind: Backend, name: limiter, namespace: owner }",
    to: "{ group: gatewayproxy.dev, kind: Backend }",
  },
];

test.each(services)("a $kind is called for policies that a grant permits only", async ({ manifest, ref, to }) => {
  const service = await startScriptedService(allow);
  const backend = await startBackend(respondWith(200, "ok"));
  const backends = ["owner", "guest"].map((tenant) => moved(tenant, backendManifest("llm", backend.port)));
  const everything = manifests(
    ...[sharedGateway, manifest(service.port), ...backends],
    ...["owner", "guest"].flatMap((tenant) => [routeOf(tenant), policyOf(tenant, ref)]),
  );
  const gateway = await startGateway(manifests(everything, grantOf(to)));
  const statusOf = async (tenant: string): Promise<number> =>
    (await rawHttp(gateway.url(), `GET / HTTP/1.1\r\nHost: ${tenant}.test\r\nConnection: close\r\n\r\n`)).status;
  expect(await statusOf("guest")).toBe(200);
  expect(service.calls.map(({ request }) => request.domain)).toEqual(["guest"]);
  await gateway.apply(everything);
  expect(await statusOf("guest")).toBe(503);
  expect(await statusOf("owner")).toBe(200);
  expect(service.calls.map(({ request }) => request.domain)).toEqual(["guest", "owner"]);
});
