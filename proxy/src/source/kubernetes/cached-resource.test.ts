import { describe, expect, test } from "vitest";
import { rejectedPolicyStatus } from "../../status/rejected-policy.ts";
import { cacheResource } from "./cached-resource.ts";

const options = { keepsStatus: false };

function policy(entry: object, generation = 1) {
  return {
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "ProxyPolicy",
    metadata: { name: "limits", namespace: "default", generation },
    spec: {
      targetRefs: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "chat" }],
      traffic: { rateLimit: { local: [entry] } },
    },
  };
}

function route(parts: object) {
  const metadata = { name: "chat", namespace: "default", resourceVersion: "1" };
  return { apiVersion: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", metadata, spec: {}, ...parts };
}

function tlsPolicy(hostname: string) {
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "BackendTLSPolicy",
    metadata: { name: "tls", namespace: "default", generation: 3 },
    spec: {
      targetRefs: [{ group: "", kind: "Service", name: "api" }],
      validation: { hostname, wellKnownCACertificates: "System" },
    },
  };
}

const sound = { requests: 1, unit: "Hours" };
const broken = { ...sound, key: "request.heders.x" };

describe("a cached object", () => {
  test("keeps its last valid version in force while the new one is rejected", () => {
    const before = cacheResource(policy(sound), undefined, options);
    const after = cacheResource(policy(broken, 2), before, options);
    expect(after.resource).toBe(before.resource);
    expect(after.rejected?.errors).toHaveLength(1);
  });

  test("has its remains where no version was valid", () => {
    expect(cacheResource(policy(broken), undefined, options).resource).toMatchObject({ isRejected: true });
  });

  test.each([
    ["GatewayClass", { controllerName: "example.com/c", description: 7 }, { controllerName: "example.com/c" }],
    ["Gateway", { gatewayClassName: "c", listeners: "all" }, { gatewayClassName: "c", listeners: [] }],
    ["ListenerSet", { parentRef: { name: "web" }, listeners: 0 }, { parentRef: { name: "web" }, listeners: [] }],
  ])("of kind %s keeps its parent", (kind, spec, remains) => {
    const { resource, rejected } = cacheResource({ ...route({ spec }), kind }, undefined, options);
    expect(rejected?.inForce).toBe("remains");
    expect(resource).toMatchObject({ kind, metadata: { name: "chat" }, spec: remains });
  });

  test.each([
    ["GatewayClass", { controllerName: 7 }],
    ["Gateway", { listeners: "all" }],
    ["ListenerSet", { listeners: 0 }],
  ])("of kind %s has no remains without its parent", (kind, spec) => {
    const { resource, rejected } = cacheResource({ ...route({ spec }), kind }, undefined, options);
    expect([resource, rejected?.inForce]).toEqual([undefined, "nothing"]);
  });

  test("of a BackendTLSPolicy keeps its targets, which are not called in plain text", () => {
    const first = cacheResource(tlsPolicy("Bad.example"), undefined, options);
    expect(first.resource).toMatchObject({
      metadata: { generation: 3 },
      spec: { targetRefs: [{ name: "api" }], validation: undefined },
    });
    expect(first.rejected?.inForce).toBe("remains");
    // Remains are not a valid version.
    const second = cacheResource(tlsPolicy("Worse.example"), first, options);
    expect(second.rejected?.inForce).toBe("remains");
  });

  test("of a BackendTLSPolicy keeps the last valid version where there was one", () => {
    const before = cacheResource(tlsPolicy("good.example"), undefined, options);
    const after = cacheResource(tlsPolicy("Bad.example"), before, options);
    expect(after.resource).toBe(before.resource);
    expect(after.rejected?.inForce).toBe("lastValidVersion");
  });

  test("takes nothing from an earlier object of the same name", () => {
    const named = (object: ReturnType<typeof policy>, uid: string) => ({
      ...object,
      metadata: { ...object.metadata, uid },
    });
    const before = cacheResource(named(policy(sound), "one"), undefined, options);
    const after = cacheResource(named(policy(broken), "two"), before, options);
    expect(after).toMatchObject({ resource: { isRejected: true }, rejected: { inForce: "remains" } });
  });

  test("is the same value where only its status changed", () => {
    const before = cacheResource(route({}), undefined, options);
    expect(cacheResource(route({ status: { parents: [] } }), before, options)).toBe(before);
    expect(cacheResource(route({ status: { parents: [] } }), before, { keepsStatus: true })).not.toBe(before);
  });

  test("of the Gateway API may have unknown fields, which are reported", () => {
    const held = cacheResource(route({ spec: { rules: [{ novelty: 1, name: "a" }] } }), undefined, options);
    expect(held.resource).toMatchObject({ spec: { rules: [{ name: "a" }] } });
    expect(held.unknownFields.map(({ path }) => path)).toEqual([["spec", "rules", 0, "novelty"]]);
  });

  const gatewayApi = (kind: string, spec: object) => ({
    ...{ apiVersion: "gateway.networking.k8s.io/v1", kind },
    ...{ metadata: { namespace: "default", name: "a", uid: "a" }, spec },
  });
  const listener = { name: "http", port: 80, protocol: "HTTP" };
  const tls = { certificateRefs: [{ name: "c" }], frontendValidation: { caCertificateRefs: [] } };
  const ca = { hostname: "a.test", wellKnownCACertificates: "System" };
  const target = { group: "", kind: "Service", name: "a" };
  const grant = { from: [{ group: "", kind: "Service", namespace: "b" }], to: [{ group: "", kind: "Secret" }] };

  test.each([
    ["Gateway", { gatewayClassName: "c", listeners: [{ ...listener, filters: { requests: [] } }] }],
    ["Gateway", { gatewayClassName: "c", listeners: [{ ...listener, protocol: "HTTPS", tls }] }],
    ["Gateway", { gatewayClassName: "c", listeners: [listener], tls: { novelty: 1 } }],
    ["Gateway", { gatewayClassName: "c", listeners: [listener], allowedListeners: { novelty: 1 } }],
    ["ListenerSet", { parentRef: { name: "a" }, listeners: [{ ...listener, filters: { requests: [] } }] }],
    ["HTTPRoute", { rules: [{ matches: [{ novelty: 1 }] }] }],
    ["HTTPRoute", { rules: [{ filters: [{ type: "CORS", cors: { novelty: 1 } }] }] }],
    ["GRPCRoute", { rules: [{ backendRefs: [{ name: "a", port: 1, filters: [{ type: "CORS", cors: { x: 1 } }] }] }] }],
    ["BackendTLSPolicy", { targetRefs: [target], validation: { ...ca, novelty: 1 } }],
    ["ReferenceGrant", { ...grant, from: [{ ...grant.from[0], novelty: 1 }] }],
  ])("of the Gateway API must not have unknown fields that may restrict what it permits: %s %j", (kind, spec) => {
    expect(cacheResource(gatewayApi(kind, spec), undefined, options).rejected).toBeDefined();
  });

  test("of this gateway's API must not have unknown fields: a limit must not be applied in part", () => {
    const { resource, rejected } = cacheResource(policy({ ...sound, novelty: 1 }), undefined, options);
    expect(resource).toMatchObject({ isRejected: true, spec: { traffic: { rateLimit: { local: [] } } } });
    expect(rejected?.inForce).toBe("remains");
  });
});

test("the status of a rejected policy has the reason at each target, with the generation that was validated", () => {
  const { rejected } = cacheResource(policy(broken, 7), undefined, options);
  if (rejected === undefined) return expect.unreachable();
  const status = rejectedPolicyStatus(rejected, undefined);
  expect(status).toMatchObject({
    namespace: "default",
    name: "limits",
    ancestors: [{ ancestorRef: { name: "chat" } }],
  });
  expect(status?.ancestors[0]?.conditions).toMatchObject([
    { type: "Accepted", status: "False", reason: "Invalid", observedGeneration: 7 },
    { type: "Attached", status: "False", reason: "Pending" },
  ]);
});
