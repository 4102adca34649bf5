import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ownedObject } from "./owned-object.ts";
import { unchangeableMessage, withUnchangeable } from "./workload-change.ts";

function setWith(storage: string | number, storageClassName?: string, more: object = {}) {
  const metadata = { name: "state" };
  const spec = {
    ...{ replicas: 2, podManagementPolicy: "Parallel", ...more },
    volumeClaimTemplates: [
      {
        metadata,
        spec: { resources: { requests: { storage } }, ...(storageClassName !== undefined && { storageClassName }) },
      },
    ],
  };
  return ownedObject({ kind: "StatefulSet", namespace: "infra", name: "web", metadata: {}, fields: { spec } });
}

/** As the API server returns it, with defaults. */
function current(...of: Parameters<typeof setWith>) {
  const { body } = setWith(...of);
  const { volumeClaimTemplates, ...spec } = body["spec"] as { volumeClaimTemplates: readonly { spec: object }[] };
  const templates = volumeClaimTemplates.map((template) => ({
    ...{ ...template, apiVersion: "v1", kind: "PersistentVolumeClaim", status: { phase: "Pending" } },
    spec: { ...template.spec, volumeMode: "Filesystem" },
  }));
  return { ...body, spec: { ...spec, volumeClaimTemplates: templates, ordinals: { start: 0 } } };
}

describe("fields of a StatefulSet that cannot be changed", () => {
  test.each<[string, Parameters<typeof setWith>, Parameters<typeof setWith>, string]>([
    [
      "the size of volumes",
      ["1Gi"],
      ["2Gi"],
      'spec.volumeClaimTemplates[0].spec.resources.requests.storage stays "1Gi" and not "2Gi"',
    ],
    [
      "the class of volumes",
      ["1Gi", "fast"],
      ["1Gi", "slow"],
      'spec.volumeClaimTemplates[0].spec.storageClassName stays "fast" and not "slow"',
    ],
    [
      "a class that is not set any more",
      ["1Gi", "fast"],
      ["1Gi"],
      'spec.volumeClaimTemplates[0].spec.storageClassName stays "fast" and not unset',
    ],
    [
      "a class that is set",
      ["1Gi"],
      ["1Gi", "fast"],
      'spec.volumeClaimTemplates[0].spec.storageClassName stays unset and not "fast"',
    ],
    [
      "the order in which pods start",
      ["1Gi"],
      ["1Gi", undefined, { podManagementPolicy: "OrderedReady" }],
      'spec.podManagementPolicy stays "Parallel" and not "OrderedReady"',
    ],
  ])("are reported with what to do, and keep their values: %s", (_, found, requested, message) => {
    const [desired, existing] = [setWith(...requested), current(...found)];
    expect(unchangeableMessage(desired, existing)).toBe(
      `${message}, since this field of StatefulSet infra/web cannot be changed; after kubectl delete statefulset web --namespace infra --cascade=orphan, the controller creates it with the new value, and its pods and their volumes stay`,
    );
    // The applied object changes no such field.
    expect(unchangeableMessage(withUnchangeable(desired, existing), existing)).toBeUndefined();
  });

  test("are no concern of a set that does not exist, or differs in other fields only", () => {
    expect(unchangeableMessage(setWith("1Gi"), undefined)).toBeUndefined();
    const desired = setWith("1Gi", undefined, { replicas: 5, ordinals: { start: 1 } });
    expect(unchangeableMessage(desired, current("1Gi"))).toBeUndefined();
    expect(withUnchangeable(desired, current("1Gi"))).toBe(desired);
  });

  test("are compared as quantities: those of the same number are the same", () => {
    const suffixes = { Ki: 1_024, Mi: 1_024 ** 2, Gi: 1_024 ** 3, Ti: 1_024 ** 4, k: 1e3, M: 1e6, G: 1e9, "": 1 };
    const suffix = fc.constantFrom(...Object.entries(suffixes));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4_096 }), suffix, suffix, (number, [from, fromFactor], [to, toFactor]) => {
        const bytes = number * fromFactor;
        const other = bytes / toFactor;
        fc.pre(Number.isInteger(other));
        expect(unchangeableMessage(setWith(`${other}${to}`), current(`${number}${from}`))).toBeUndefined();
        expect(unchangeableMessage(setWith(`${other + 1}${to}`), current(`${number}${from}`))).toContain("stays");
      }),
      { examples: [[1, ["Gi", 1_024 ** 3], ["Mi", 1_024 ** 2]]] },
    );
  });
});
