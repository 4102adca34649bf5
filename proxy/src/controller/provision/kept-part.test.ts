/** What the provisioner keeps of an object with the controller's label. */
import { describe, expect, test } from "vitest";
import { keptPart } from "./kept-part.ts";
import { gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";

const labels = { [managedByLabel]: managedBy, [gatewayNamespaceLabel]: "infra" };
const long = "x".repeat(200_000);

describe("keptPart()", () => {
  test("keeps an object of the size of the controller's own", () => {
    const object = {
      ...{ apiVersion: "v1", kind: "Service" },
      metadata: {
        namespace: "a",
        name: "b",
        uid: "c",
        labels,
        annotations: { note: "d" },
        ownerReferences: [{ uid: "e" }],
      },
      spec: { ports: [{ port: 80 }] },
      status: { loadBalancer: {} },
    };
    expect(keptPart(object)).toEqual(object);
  });

  test("keeps what identifies an object with long texts", () => {
    const metadata = { namespace: "a", name: "b", labels: { ...labels, other: "f" }, annotations: { note: long } };
    const object = { apiVersion: "v1", kind: "Service", metadata, spec: { long }, status: { long } };
    expect(keptPart(object)).toEqual({
      ...{ apiVersion: "v1", kind: "Service" },
      metadata: { namespace: "a", name: "b", labels },
    });
  });

  test("keeps a digest of any other field that is longer than those of the controller", () => {
    const identity = { apiVersion: "v1", kind: "RoleBinding", metadata: { namespace: "a", name: "b", labels } };
    const rest = { roleRef: { name: "r" }, rules: [{ resourceNames: ["n".repeat(200_000)] }] };
    const kept = (subject: object) => keptPart({ ...identity, ...rest, subjects: [subject] });
    const name = "n".repeat(300_000);
    const { subjects, ...others } = kept({ kind: "ServiceAccount", name });
    expect(others).toEqual({ ...identity, ...rest });
    expect(subjects).toHaveLength(43);
    // The API server has its own order of fields.
    expect(kept({ name, kind: "ServiceAccount" })["subjects"]).toBe(subjects);
    expect(kept({ kind: "Group", name })["subjects"]).not.toBe(subjects);
  });

  test.each([
    ["with replicas", { "f:replicas": {} }],
    ["without replicas", {}],
  ])("keeps of managed fields that the controller has applied the object %s", (_, spec) => {
    const entry = { manager: "gatewayproxy.dev/controller", operation: "Apply" };
    const managedFields = [
      { manager: "other", operation: "Apply", fieldsV1: { long } },
      { ...entry, time: "2026-01-01T00:00:00Z", fieldsV1: { "f:spec": { ...spec, "f:template": { long } } } },
    ];
    expect(keptPart({ metadata: { managedFields } })).toEqual({
      metadata: { managedFields: [{ ...entry, fieldsV1: { "f:spec": spec } }] },
    });
  });
});
