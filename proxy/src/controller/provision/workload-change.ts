/**
 * Changes of a workload that need more than one apply: a Deployment and a StatefulSet replace each other without a gap,
 * and some fields of a StatefulSet never change. Pure.
 */
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { type FieldPath, renderPath } from "../../api/issue.ts";
import { fieldsOf, isObject, type KubeObject, textOf } from "../../kube/object.ts";
import { mergeObject } from "./merge.ts";
import type { OwnedObject } from "./owned-object.ts";

/** Whether an object creates the pods of a Gateway. */
export function isWorkload({ kind }: Pick<OwnedObject, "kind">): boolean {
  return kind === "Deployment" || kind === "StatefulSet";
}

/** Returns the name of the ServiceAccount of a workload's pods. */
export function accountNameIn({ body }: OwnedObject): string {
  return textOf(fieldsOf(fieldsOf(fieldsOf(body["spec"])["template"])["spec"])["serviceAccountName"]);
}

/** Returns the number of pods of a current workload that serve; 0 if it does not exist. */
export function availablePods(workload: KubeObject | undefined): number {
  return Number(fieldsOf(workload?.["status"])["availableReplicas"] ?? 0);
}

/**
 * Whether a current workload serves with all of its pods, so that the workload that it replaces is not needed any more.
 */
export function isComplete(workload: KubeObject | undefined): boolean {
  const { generation = 0 } = fieldsOf(workload?.["metadata"]);
  const { observedGeneration = 0 } = fieldsOf(workload?.["status"]);
  const { replicas = 1 } = fieldsOf(workload?.["spec"]);
  // A status of an earlier version of the workload may have other pods.
  return workload !== undefined && observedGeneration === generation && availablePods(workload) >= Number(replicas);
}

/**
 * Returns a workload whose number an autoscaler sets with the number of the workload that it replaces, for its
 * creation. It would start with one pod otherwise.
 */
export function withReplicasOf(workload: OwnedObject, replaced: KubeObject | undefined): OwnedObject {
  const { replicas } = fieldsOf(replaced?.["spec"]);
  if (replicas === undefined || fieldsOf(workload.body["spec"])["replicas"] !== undefined) return workload;
  return { ...workload, body: mergeObject(workload.body, { spec: { replicas } }) };
}

/** The fields of a StatefulSet's spec that can be changed (Kubernetes 1.31 to 1.36). */
const changeableFields: ReadonlySet<string> = new Set([
  ...["replicas", "ordinals", "template", "updateStrategy", "minReadySeconds", "revisionHistoryLimit"],
  "persistentVolumeClaimRetentionPolicy",
]);

/**
 * Returns a StatefulSet that can be applied over the current one: with the current values of fields that cannot be
 * changed.
 */
export function withUnchangeable(desired: OwnedObject, current: KubeObject | undefined): OwnedObject {
  const kept = Object.fromEntries(unchangeable(desired, current).map(({ name, found }) => [name, found]));
  if (Object.keys(kept).length === 0) return desired;
  return { ...desired, body: { ...desired.body, spec: { ...fieldsOf(desired.body["spec"]), ...kept } } };
}

/** Describes the fields of a StatefulSet that stay as they are, and what to do; undefined if there are none. */
export function unchangeableMessage(desired: OwnedObject, current: KubeObject | undefined): string | undefined {
  const differences = unchangeable(desired, current).flatMap((field) => field.differences);
  if (differences.length === 0) return undefined;
  const { namespace = "", name } = desired;
  const fields = differences.map(
    ({ path, found, requested }) => `${renderPath(path)} stays ${textOfValue(found)} and not ${textOfValue(requested)}`,
  );
  return (
    `${joinSome(fields)}, since this field of StatefulSet ${objectKey({ namespace, name })} cannot be changed; after ` +
    `kubectl delete statefulset ${name} --namespace ${namespace} --cascade=orphan, the controller creates it with the new ` +
    "value, and its pods and their volumes stay"
  );
}

interface Difference {
  readonly path: FieldPath;
  readonly found: unknown;
  readonly requested: unknown;
}

function unchangeable(
  desired: OwnedObject,
  current: KubeObject | undefined,
): readonly { readonly name: string; readonly found: unknown; readonly differences: readonly Difference[] }[] {
  if (current === undefined || desired.kind !== "StatefulSet") return [];
  const spec = fieldsOf(current["spec"]);
  return Object.entries(fieldsOf(desired.body["spec"])).flatMap(([name, requested]) => {
    if (changeableFields.has(name)) return [];
    const found = spec[name];
    const differences = differencesOf({ path: ["spec", name], found, requested });
    return differences.length === 0 ? [] : [{ name, found, differences }];
  });
}

/**
 * Compares what is requested with what exists. Fields that only exist are defaults, except for the class of a volume.
 */
function differencesOf(compared: Difference): readonly Difference[] {
  const { path, found, requested } = compared;
  if (Array.isArray(requested) && Array.isArray(found) && requested.length === found.length) {
    return requested.flatMap((item, at) => differencesOf({ path: [...path, at], found: found[at], requested: item }));
  }
  if (isObject(requested)) {
    const fields = fieldsOf(found);
    const names = new Set([...Object.keys(requested), ...("storageClassName" in fields ? ["storageClassName"] : [])]);
    return Array.from(names, (name) =>
      differencesOf({ path: [...path, name], found: fields[name], requested: requested[name] }),
    ).flat();
  }
  const isSame = found === requested || (path.includes("resources") && isSameQuantity(found, requested));
  return isSame ? [] : [compared];
}

function textOfValue(value: unknown): string {
  return value === undefined ? "unset" : JSON.stringify(value);
}

/** The factors of the suffixes of quantities. */
const factors: ReadonlyMap<string, number> = new Map([
  ...["", "k", "M", "G", "T", "P", "E"].map((suffix, power) => [suffix, 1_000 ** power] as const),
  ...["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].map((suffix, power) => [suffix, 1_024 ** (power + 1)] as const),
]);

/** Whether two quantities such as `1Gi` and `1024Mi` are the same number, which the API server writes in one way. */
function isSameQuantity(a: unknown, b: unknown): boolean {
  const [first, second] = [quantityOf(a), quantityOf(b)];
  return first !== undefined && first === second;
}

function quantityOf(value: unknown): number | undefined {
  const [, number, suffix = ""] = /^(\d+(?:\.\d*)?)([A-Za-z]{0,2})$/.exec(textOf(value)) ?? [];
  const factor = factors.get(suffix);
  return number === undefined || factor === undefined ? undefined : Number(number) * factor;
}
