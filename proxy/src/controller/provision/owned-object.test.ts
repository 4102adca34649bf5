import { describe, expect, test } from "vitest";
import { asAnswered, contains, ownedKey, ownedObject, ownedPath } from "./owned-object.ts";

describe("an object as the API server has it", () => {
  test.each([
    ["has fields by default", { spec: { replicas: 1, paused: false } }, { spec: { replicas: 1 } }],
    ["has items that it completed", { ports: [{ port: 80, nodePort: 3 }] }, { ports: [{ port: 80 }] }],
    ["leaves out what is empty", { spec: {} }, { spec: { rules: [], annotations: {} } }],
  ])("is as it should be where it %s", (_, standing, wanted) => {
    expect(contains(standing, wanted)).toBe(true);
  });

  test.each([
    ["a value", { replicas: 2 }, { replicas: 1 }],
    ["a field", {}, { replicas: 1 }],
    ["the length of a list", { ports: [{ port: 80 }, { port: 81 }] }, { ports: [{ port: 80 }] }],
    ["the order of a list", { args: ["b", "a"] }, { args: ["a", "b"] }],
    ["its form", { spec: [] }, { spec: { replicas: 1 } }],
    ["items where there should be none", { rules: [{ verbs: ["get"] }] }, { rules: [] }],
  ])("is not where it differs in %s", (_, standing, wanted) => {
    expect(contains(standing, wanted)).toBe(false);
  });
});

describe("what is to be seen of an object", () => {
  test.each([
    ["values as the API server writes them", { cpu: "1000m" }, { cpu: "1" }, { cpu: "1" }],
    ["values that admission put in their place", { image: "a" }, { image: "mirror/a" }, { image: "mirror/a" }],
    ["none of what we did not ask for", { port: 80 }, { port: 80, nodePort: 3 }, { port: 80 }],
    ["items of lists", [{ cpu: "1000m" }], [{ cpu: "1", memory: "1Gi" }], [{ cpu: "1" }]],
    [
      "a list that others share as it is",
      [{ name: "a" }],
      [{ name: "a" }, { name: "b" }],
      [{ name: "a" }, { name: "b" }],
    ],
  ])("is %s", (_, wanted, answer, seen) => {
    expect(asAnswered(answer, wanted)).toEqual(seen);
    expect(contains(answer, asAnswered(answer, wanted))).toBe(true);
  });

  test("is nothing of a field that the API server dropped", () => {
    expect(contains({}, asAnswered({}, { replcas: 1 }))).toBe(true);
  });
});

test("an object is known by its kind, its namespace and its name", () => {
  const role = ownedObject({ kind: "Role", namespace: "infra", name: "web", metadata: { labels: {} }, fields: {} });
  expect(role.body).toEqual({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name: "web", namespace: "infra", labels: {} },
  });
  expect(ownedKey(role)).toBe("Role infra/web");
  expect(ownedPath(role)).toBe("/apis/rbac.authorization.k8s.io/v1/namespaces/infra/roles/web");
});

test("an object of the whole cluster has no namespace", () => {
  const binding = ownedObject({ kind: "ClusterRoleBinding", name: "web", metadata: {}, fields: {} });
  expect(ownedKey(binding)).toBe("ClusterRoleBinding web");
  expect(ownedPath(binding)).toBe("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/web");
});
