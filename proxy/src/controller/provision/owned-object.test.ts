import { describe, expect, test } from "vitest";
import { appliedFields, contains, ownedKey, ownedObject, ownedPath } from "./owned-object.ts";

describe("a current object", () => {
  test.each([
    ["has fields by default", { spec: { replicas: 1, paused: false } }, { spec: { replicas: 1 } }],
    ["has items that it completed", { ports: [{ port: 80, nodePort: 3 }] }, { ports: [{ port: 80 }] }],
    ["leaves out what is empty", { spec: {} }, { spec: { rules: [], annotations: {} } }],
  ])("contains the desired fields where it %s", (_, current, desired) => {
    expect(contains(current, desired)).toBe(true);
  });

  test.each([
    ["a value", { replicas: 2 }, { replicas: 1 }],
    ["a field", {}, { replicas: 1 }],
    ["the length of a list", { ports: [{ port: 80 }, { port: 81 }] }, { ports: [{ port: 80 }] }],
    ["the order of a list", { args: ["b", "a"] }, { args: ["a", "b"] }],
    ["its form", { spec: [] }, { spec: { replicas: 1 } }],
    ["items where there should be none", { rules: [{ verbs: ["get"] }] }, { rules: [] }],
  ])("does not where it differs in %s", (_, current, desired) => {
    expect(contains(current, desired)).toBe(false);
  });
});

describe("the applied fields", () => {
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
  ])("are %s", (_, desired, response, seen) => {
    expect(appliedFields(response, desired)).toEqual(seen);
    expect(contains(response, appliedFields(response, desired))).toBe(true);
  });

  test("do not contain a field that the API server dropped", () => {
    expect(contains({}, appliedFields({}, { replcas: 1 }))).toBe(true);
  });
});

test("the key of an object is its kind, its namespace and its name", () => {
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
