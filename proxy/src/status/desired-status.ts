/**
 * What a status is to become, given how it stands in the API: our part as we judge it, everything else untouched, times
 * kept where nothing changed. Pure. Two forms: fields that are ours alone (Gateways and their kin), and lists in which
 * each controller has entries (`parents` of a route, `ancestors` of a policy).
 */
import { isDeepStrictEqual } from "node:util";
import { controllerName } from "../api/names.ts";
import type { Condition } from "../api/status.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../kube/object.ts";
import { mergeConditions, type TimedCondition } from "./conditions.ts";

/** In UTF-16 units: at most the 32,768 bytes that the API takes (`metav1.Condition`), whatever the language. */
const longestMessage = 8_192;

/** A status with conditions of its own and, as Gateways have, of its listeners. */
export interface OwnStatus {
  readonly conditions: readonly Condition[];
  readonly listeners?: readonly (KubeObject & { readonly name: string; readonly conditions: readonly Condition[] })[];
  /** Everything else that is ours, as it is to stand. */
  readonly fields: KubeObject;
}

/** The fields to apply, or undefined where they stand so already. */
export function desiredOwnStatus(
  status: OwnStatus,
  standing: unknown,
  ownedTypes: readonly string[],
  now: string,
): KubeObject | undefined {
  const before = fieldsOf(standing);
  const conditions = timed(status.conditions, before["conditions"], ownedTypes, now);
  const listeners = status.listeners?.map((listener) => {
    const standingListener = objectsOf(before["listeners"]).find(({ name }) => name === listener.name);
    // Nobody but us writes to listeners, so every condition there is ours.
    const all = conditionsOf(standingListener?.["conditions"]).map(({ type }) => type);
    return { ...listener, conditions: timed(listener.conditions, standingListener?.["conditions"], all, now) };
  });
  const desired = { ...status.fields, conditions, ...(listeners !== undefined && { listeners }) };
  return isStanding(desired, before, ownedTypes) ? undefined : desired;
}

function isStanding(desired: KubeObject, before: KubeObject, ownedTypes: readonly string[]): boolean {
  return Object.entries(desired).every(([name, value]) => {
    if (name === "conditions") {
      const owned = conditionsOf(before["conditions"]).filter(({ type }) => ownedTypes.includes(type));
      return isDeepStrictEqual(byName(value, "type"), byName(owned, "type"));
    }
    if (name !== "listeners") return isDeepStrictEqual(value, before[name] ?? emptyOf(value));
    const sorted = (list: unknown) =>
      byName(list, "name").map((listener) => ({ ...listener, conditions: byName(listener["conditions"], "type") }));
    return isDeepStrictEqual(sorted(value), sorted(before["listeners"]));
  });
}

/** One entry of ours in a list that controllers share. */
export interface SharedEntry {
  /** `parentRef` of a route, `ancestorRef` of a policy. */
  readonly ref: KubeObject;
  readonly conditions: readonly Condition[];
}

/** Which list, and how much the API takes of it. */
export interface SharedList {
  readonly list: "parents" | "ancestors";
  readonly ref: "parentRef" | "ancestorRef";
  readonly max: number;
}

export const routeParents: SharedList = { list: "parents", ref: "parentRef", max: 32 };
export const policyAncestors: SharedList = { list: "ancestors", ref: "ancestorRef", max: 16 };

/**
 * The whole list as it is to stand: entries of others first, as they are, then ours. Undefined where it stands so
 * already, in whatever order.
 */
export function desiredSharedList(
  entries: readonly SharedEntry[],
  standing: unknown,
  { list, ref, max }: SharedList,
  now: string,
): readonly KubeObject[] | undefined {
  const before = objectsOf(fieldsOf(standing)[list]);
  const foreign = before.filter((entry) => entry["controllerName"] !== controllerName);
  const own = before.filter((entry) => entry["controllerName"] === controllerName);
  const ours = entries.slice(0, Math.max(0, max - foreign.length)).map((entry) => {
    const last = own.find((other) => isDeepStrictEqual(other[ref], entry.ref));
    // An entry is its controller's alone, so every condition in ours is ours.
    const all = conditionsOf(last?.["conditions"]).map(({ type }) => type);
    return { [ref]: entry.ref, controllerName, conditions: timed(entry.conditions, last?.["conditions"], all, now) };
  });
  const isUnchanged = isDeepStrictEqual(ours.map(comparable), own.map(comparable));
  return isUnchanged ? undefined : [...foreign, ...ours];
}

/** The times of conditions that are kept depend on the order of nothing. */
function comparable(entry: KubeObject): KubeObject {
  return { ...entry, conditions: byName(entry["conditions"], "type") };
}

function timed(
  conditions: readonly Condition[],
  standing: unknown,
  ownedTypes: readonly string[],
  now: string,
): readonly TimedCondition[] {
  const merged = mergeConditions(conditions.map(bounded), conditionsOf(standing), ownedTypes, now);
  return merged.slice(0, conditions.length);
}

/** A message may be made of hundreds of faults; one that the API refuses would tell none of them. */
function bounded(condition: Condition): Condition {
  if (condition.message.length <= longestMessage) return condition;
  return { ...condition, message: `${condition.message.slice(0, longestMessage - 1).toWellFormed()}…` };
}

function conditionsOf(value: unknown): readonly TimedCondition[] {
  // The CRDs' schemas see to it that a condition of a status has these fields.
  return objectsOf(value) as unknown as readonly TimedCondition[];
}

function byName(value: unknown, field: string): readonly KubeObject[] {
  return [...objectsOf(value)].sort((a, b) => (textOf(a[field]) < textOf(b[field]) ? -1 : 1));
}

/** What the API server makes of an absent field that we set to nothing. */
function emptyOf(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return value === 0 ? 0 : undefined;
}
