import { describe, expect, test } from "vitest";
import { rejectedPolicyStatus } from "../../status/rejected-policy.ts";
import { holdResource } from "./held-resource.ts";

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

describe("an object that is held", () => {
  test("keeps its last sound version in force while the new one is refused", () => {
    const before = holdResource(policy(sound), undefined, options);
    const after = holdResource(policy(broken, 2), before, options);
    expect(after.resource).toBe(before.resource);
    expect(after.rejected?.faults).toHaveLength(1);
  });

  test("is what remains of it where no version was sound", () => {
    expect(holdResource(policy(broken), undefined, options).resource).toMatchObject({ isRefused: true });
  });

  test.each([
    ["GatewayClass", { controllerName: "example.com/c", description: 7 }, { controllerName: "example.com/c" }],
    ["Gateway", { gatewayClassName: "c", listeners: "all" }, { gatewayClassName: "c", listeners: [] }],
    ["ListenerSet", { parentRef: { name: "web" }, listeners: 0 }, { parentRef: { name: "web" }, listeners: [] }],
  ])("of kind %s remains, as what it belongs to", (kind, spec, remains) => {
    const { resource, rejected } = holdResource({ ...route({ spec }), kind }, undefined, options);
    expect(rejected?.inForce).toBe("remains");
    expect(resource).toMatchObject({ kind, metadata: { name: "chat" }, spec: remains });
  });

  test.each([
    ["GatewayClass", { controllerName: 7 }],
    ["Gateway", { listeners: "all" }],
    ["ListenerSet", { listeners: 0 }],
  ])("of kind %s is nothing where it cannot be told what it belongs to", (kind, spec) => {
    const { resource, rejected } = holdResource({ ...route({ spec }), kind }, undefined, options);
    expect([resource, rejected?.inForce]).toEqual([undefined, "nothing"]);
  });

  test("of a BackendTLSPolicy keeps its targets, which are not called in the clear", () => {
    const first = holdResource(tlsPolicy("Bad.example"), undefined, options);
    expect(first.resource).toMatchObject({
      metadata: { generation: 3 },
      spec: { targetRefs: [{ name: "api" }], validation: undefined },
    });
    expect(first.rejected?.inForce).toBe("remains");
    // What remains of a version is no sound version.
    const second = holdResource(tlsPolicy("Worse.example"), first, options);
    expect(second.rejected?.inForce).toBe("remains");
  });

  test("of a BackendTLSPolicy keeps the last sound version where there was one", () => {
    const before = holdResource(tlsPolicy("good.example"), undefined, options);
    const after = holdResource(tlsPolicy("Bad.example"), before, options);
    expect(after.resource).toBe(before.resource);
    expect(after.rejected?.inForce).toBe("lastSoundVersion");
  });

  test("takes nothing over from another object that had its name before", () => {
    const named = (object: ReturnType<typeof policy>, uid: string) => ({
      ...object,
      metadata: { ...object.metadata, uid },
    });
    const before = holdResource(named(policy(sound), "one"), undefined, options);
    const after = holdResource(named(policy(broken), "two"), before, options);
    expect(after).toMatchObject({ resource: { isRefused: true }, rejected: { inForce: "remains" } });
  });

  test("is the same object where only its status is another", () => {
    const before = holdResource(route({}), undefined, options);
    expect(holdResource(route({ status: { parents: [] } }), before, options)).toBe(before);
    expect(holdResource(route({ status: { parents: [] } }), before, { keepsStatus: true })).not.toBe(before);
  });

  test("of the Gateway API may have fields that we do not know, and says so", () => {
    const held = holdResource(route({ spec: { rules: [{ novelty: 1, name: "a" }] } }), undefined, options);
    expect(held.resource).toMatchObject({ spec: { rules: [{ name: "a" }] } });
    expect(held.unknownFields.map(({ path }) => path)).toEqual([["spec", "rules", 0, "novelty"]]);
  });

  test("of our own must not: a limit is not to be half understood", () => {
    const { resource, rejected } = holdResource(policy({ ...sound, novelty: 1 }), undefined, options);
    expect(resource).toMatchObject({ isRefused: true, spec: { traffic: { rateLimit: { local: [] } } } });
    expect(rejected?.inForce).toBe("remains");
  });
});

test("the status of a refused policy says at each target why, of the version that was judged", () => {
  const { rejected } = holdResource(policy(broken, 7), undefined, options);
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
