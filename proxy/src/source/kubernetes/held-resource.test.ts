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

const sound = { requests: 1, unit: "Hours" };
const broken = { ...sound, key: "request.heders.x" };

describe("an object that is held", () => {
  test("keeps its last sound version in force while the new one is refused", () => {
    const before = holdResource(policy(sound), undefined, options);
    const after = holdResource(policy(broken, 2), before, options);
    expect(after.resource).toBe(before.resource);
    expect(after.rejected?.faults).toHaveLength(1);
  });

  test("is nothing where no version was sound", () => {
    expect(holdResource(policy(broken), undefined, options).resource).toBeUndefined();
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
    expect(holdResource(policy({ ...sound, novelty: 1 }), undefined, options).resource).toBeUndefined();
  });
});

test("the status of a refused policy says at each target why, of the version that was judged", () => {
  const { rejected } = holdResource(policy(broken, 7), undefined, options);
  if (rejected === undefined) return expect.unreachable();
  const status = rejectedPolicyStatus(rejected);
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
