/**
 * The proxy never connects to the addresses of its own servers, nor, in a cluster, to loopback, link-local and metadata
 * addresses. This applies to every kind of reference, and to the addresses that a name resolves to at that time.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { AddressGuard, type AddressRules } from "@gatewayproxy/runtime/address-rules";
import { describe, expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { byAddress, globalPolicy, manifestsUnder, send } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";

/** The rules in a cluster. */
const cluster: AddressRules = { own: [], deniesSpecial: true, allowed: [] };

/** A server that must not be reached. */
async function startForbidden(
  host = "127.0.0.1",
): Promise<{ readonly port: number; readonly connections: () => number }> {
  let connections = 0;
  const server: Server = createServer((_request, response) => response.end("secret"));
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  // A listening TCP server has such an address.
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const backendAt = (host: string, port: number, name = "b", more = ""): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { static: { host: "${host}", port: ${port}${more} } }
`;

const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);

/** Applies the rules to connections only, so that every form reaches the connection attempt. */
function serve(rules: AddressRules, manifest: string, more: Parameters<typeof startGateway>[1] = {}) {
  return startGateway(manifests(gatewayManifest(), manifest, route), { addresses: new AddressGuard(rules), ...more });
}

async function outcome(gateway: TestGateway) {
  const ended = gateway.nextRecord();
  const response = await fetch(gateway.url());
  const { reason, attempts } = await ended;
  return { status: response.status, body: await response.text(), reason, attempts };
}

const denied = { status: 500, body: "no valid backend", reason: "ForbiddenAddress", attempts: 1 };

describe("at a connection attempt", () => {
  test.each(["127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "localhost", "::1", "0:0::0:1"])(
    "%s is denied",
    async (host) => {
      const { port, connections } = await startForbidden();
      const gateway = await serve(cluster, backendAt(host, port), { resolveName: () => new Promise(() => undefined) });
      expect(await outcome(gateway)).toEqual(denied);
      expect(connections()).toBe(0);
    },
  );

  test.each(["http", "h2", "tls"])("over %s", async (protocol) => {
    const { port, connections } = await startForbidden();
    const service = `
apiVersion: v1
kind: Service
metadata: { name: b, namespace: default }
spec: { ports: [{ name: main, port: 80${protocol === "h2" ? ", appProtocol: kubernetes.io/h2c" : ""} }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: b-0, namespace: default, labels: { kubernetes.io/service-name: b } }
addressType: IPv4
ports: [{ name: main, port: ${port} }]
endpoints: [{ addresses: [127.0.0.1] }]
`;
    const backend = protocol === "tls" ? backendAt("127.0.0.1", port, "b", ", tls: {}") : service;
    const ref = protocol === "tls" ? backendRef("b") : "{ name: b, port: 80 }";
    const gateway = await startGateway(
      manifests(gatewayManifest(), backend, routeManifest("r", [`backendRefs: [${ref}]`])),
      { addresses: new AddressGuard(cluster) },
    );
    expect(await outcome(gateway)).toEqual(denied);
    expect(connections()).toBe(0);
  });

  test("the addresses of a name are checked each time it is resolved", async () => {
    const { port } = await startBackend();
    let addresses = ["127.0.0.1"];
    const gateway = await serve(
      { own: [], deniesSpecial: true, allowed: [{ host: "127.0.0.1", port }] },
      backendAt("rebinding.example", port),
      { resolveName: () => Promise.resolve({ addresses, ttlMs: 1_000 }) },
    );
    expect(await outcome(gateway)).toMatchObject({ status: 200 });
    for (const found of [["127.0.0.2"], ["::ffff:127.0.0.2", "::1"], ["169.254.169.254"]]) {
      addresses = found;
      gateway.clock.advance(1_000);
      // The result of the resolution arrives in a later turn.
      await new Promise((resolve) => setImmediate(resolve));
      expect(await outcome(gateway)).toEqual(denied);
    }
  });

  test("of several addresses of a name only the allowed ones are endpoints", async () => {
    const { port } = await startBackend();
    const rules: AddressRules = { own: [], deniesSpecial: true, allowed: [{ host: "127.0.0.1", port }] };
    const gateway = await serve(rules, backendAt("mixed.example", port), {
      resolveName: () => Promise.resolve({ addresses: ["127.0.0.1", "127.0.0.2", "::1"], ttlMs: 60_000 }),
    });
    for (let i = 0; i < 5; i++) expect((await outcome(gateway)).status).toBe(200);
    expect(gateway.dataPlane.endpoints().map(({ address }) => address)).toEqual([`127.0.0.1:${port}`]);
  });

  test("mirrors and health checks do not connect to denied addresses", async () => {
    const backend = await startBackend();
    const hidden = await startForbidden();
    const rules: AddressRules = { own: [], deniesSpecial: true, allowed: [{ host: "127.0.0.1", port: backend.port }] };
    const healthChecks = { intervalMs: 1_000, timeoutMs: 500, path: "/" };
    const rule = `{ backendRefs: [${backendRef("b")}], filters: [{ type: RequestMirror, requestMirror: { backendRef: { group: gatewayproxy.dev, kind: Backend, name: hidden } } }] }`;
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        backendAt("127.0.0.1", backend.port),
        backendAt("127.0.0.1", hidden.port, "hidden"),
        routeManifest("r", [rule]),
      ),
      {
        addresses: new AddressGuard(rules),
        upstream: { maxConnections: 10, maxRequests: 100, maxWaiting: 10, maxWaitMs: 1_000, healthChecks },
      },
    );
    expect((await fetch(gateway.url())).status).toBe(200);
    gateway.clock.advance(1_000);
    gateway.clock.advance(1_000);
    expect((await fetch(gateway.url())).status).toBe(200);
    expect(hidden.connections()).toBe(0);
  });

  test("a rate limit service at a denied address gets no call, and one at an allowed address does", async () => {
    const backend = await startBackend();
    const service = await startScriptedService(() => ({ overallCode: "OK", statuses: [{ code: "OK" }] }));
    const closed = globalPolicy(`address: "localhost:${service.port}", failureMode: Closed, timeout: 5s, ${byAddress}`);
    const allowed = [
      { host: "127.0.0.1", port: backend.port },
      { host: "127.0.0.1", port: service.port },
    ];
    const forbidden = await startGateway(manifestsUnder(backend, closed), {
      addresses: new AddressGuard({ own: [], deniesSpecial: true, allowed: allowed.slice(0, 1) }),
    });
    expect((await send(forbidden)).status).toBe(503);
    expect(forbidden.dataPlane.rateLimitServices()[0]?.lastError?.message).toMatch(/is a loopback address/);
    expect(service.calls).toHaveLength(0);

    const sidecar = await startGateway(manifestsUnder(backend, closed), {
      addresses: new AddressGuard({ own: [], deniesSpecial: true, allowed }),
    });
    expect((await send(sidecar)).status).toBe(200);
    expect(service.calls).toHaveLength(1);
  });
});

describe("at the translation", () => {
  const guard = new AddressGuard(cluster);
  const addressDenial = (host: string, port: number) => guard.denialReasonOfHost(host, port);
  const translated = async (...documents: readonly string[]) => {
    const gateway = await startGateway(gatewayManifest(), { addressDenial });
    return gateway.apply(manifests(gatewayManifest(), ...documents));
  };

  test.each(["127.0.0.1", "localhost", "2130706433", "169.254.169.254", "::1", "fe80::1"])(
    "a Backend at %s is not accepted, and its condition says why",
    async (host) => {
      const { statuses, problems, backends } = await translated(backendAt(host, 80), route);
      const [condition] = statuses.backends[0]?.conditions ?? [];
      expect(condition).toMatchObject({ type: "Accepted", status: "False", reason: "ForbiddenAddress" });
      expect(condition?.message).toMatch(/address, which only the operator can allow/);
      expect(problems.map(({ path }) => path)).toContain("spec.static.host");
      expect(backends).toEqual([]);
    },
  );

  test("a route to it responds with 500", async () => {
    const gateway = await startGateway(manifests(gatewayManifest(), backendAt("127.0.0.1", 80), route), {
      addressDenial,
    });
    expect(await outcome(gateway)).toMatchObject({ status: 500, reason: "InvalidBackend", attempts: 0 });
  });

  test("endpoints of a slice at denied addresses are ignored", async () => {
    const service = (...addresses: readonly string[]): string => `
apiVersion: v1
kind: Service
metadata: { name: s, namespace: default }
spec: { ports: [{ port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: s-0, namespace: default, labels: { kubernetes.io/service-name: s } }
addressType: IPv4
ports: [{ port: 15000 }]
endpoints: [${addresses.map((address) => `{ addresses: ["${address}"] }`).join()}]
`;
    const toService = routeManifest("r", ["backendRefs: [{ name: s, port: 80 }]"]);
    const mixed = await translated(service("127.0.0.1", "10.0.0.1", "169.254.169.254"), toService);
    expect(mixed.backends.flatMap(({ endpoints }) => endpoints.map(({ host }) => host))).toEqual(["10.0.0.1"]);
    const none = await translated(service("127.0.0.1"), toService);
    const [parent] = none.statuses.httpRoutes[0]?.parents ?? [];
    expect(parent?.conditions.find(({ type }) => type === "ResolvedRefs")).toMatchObject({
      status: "False",
      reason: "ForbiddenAddress",
    });
  });

  test("a policy whose service is at a denied address reports it, and its failure mode decides", async () => {
    const policy = globalPolicy(`address: "127.0.0.1:8081", failureMode: Closed, ${byAddress}`);
    const chat = routeManifest("chat", [`backendRefs: [${backendRef("b")}]`]);
    const { statuses } = await translated(backendAt("10.0.0.1", 80), chat, policy);
    const conditions = statuses.proxyPolicies[0]?.ancestors[0]?.conditions ?? [];
    expect(conditions.find(({ type }) => type === "Accepted")?.message).toMatch(
      /127\.0\.0\.1:8081 is a loopback address.*failureMode Closed decides/,
    );
  });
});
