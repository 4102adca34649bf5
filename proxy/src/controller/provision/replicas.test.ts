import { describe, expect, test } from "vitest";
import { retainedReplicas } from "./replicas.ts";

const identity = { apiVersion: "apps/v1", kind: "Deployment", metadata: { namespace: "infra", name: "web" } };

function deployment(replicas: number, manager: string, operation = "Apply") {
  const managedFields = [{ manager, operation, fieldsV1: { "f:spec": { "f:replicas": {} } } }];
  return { ...identity, metadata: { ...identity.metadata, managedFields }, spec: { replicas } };
}

const ours = "gatewayproxy.dev/controller";

describe("the number of pods", () => {
  test("is retained where the controller applied it and drops it now", () => {
    expect(retainedReplicas(deployment(20, ours), { ...identity, spec: {} })).toEqual({
      ...identity,
      spec: { replicas: 20 },
    });
  });

  test.each([
    ["where we still name one", deployment(20, ours), { replicas: 3 }],
    ["where an autoscaler has set it", deployment(20, "kube-controller-manager", "Update"), {}],
    ["where it is held already", deployment(20, `${ours}-replicas`), {}],
    ["of an object without one", identity, {}],
  ])("is not retained %s", (_, current, spec) => {
    expect(retainedReplicas(current, { ...identity, spec })).toBeUndefined();
  });
});
