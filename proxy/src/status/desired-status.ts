/**
 * Computes a status to write from the status in the API. The part of this controller is replaced, everything else is
 * kept, and transition times are kept if nothing changed. Pure. There are two forms of statuses: fields that only this
 * controller writes (Gateways, GatewayClasses, ListenerSets, Backends), and lists with entries of several controllers
 * (`parents` of a route, `ancestors` of a policy).
 */
import { isDeepStrictEqual } from "node:util";
import { controllerName } from "../api/names.ts";
import type { Condition } from "../api/status.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../kube/object.ts";
import { mergeConditions, type TimedCondition } from "./conditions.ts";

/**
 * The maximum length of a message, in UTF-16 code units: at most 32,768 bytes in any language, which is the maximum of
 * `metav1.Condition`.
 */
const maxMessageLength = 8_192;

/** A status that only this controller writes: its conditions and, for Gateways, those of its listeners. */
export interface OwnStatus {
  readonly conditions: readonly Condition[];
  readonly listeners?: readonly (KubeObject & { readonly name: string; readonly conditions: readonly Condition[] })[];
  /** The other fields that this controller writes, with their desired values. */
  readonly fields: KubeObject;
}

/** Returns the fields to apply; undefined if the API has them already. */
export function desiredOwnStatus(
  status: OwnStatus,
  current: unknown,
  ownedTypes: readonly string[],
  now: string,
): KubeObject | undefined {
  const before = fieldsOf(current);
  const conditions = timedConditions(status.conditions, before["conditions"], ownedTypes, now);
  const listeners = status.listeners?.map((listener) => {
    const currentListener = objectsOf(before["listeners"]).find(({ name }) => name === listener.name);
    // Only this controller writes listeners, so it owns each of their conditions.
    const currentTypes = conditionsOf(currentListener?.["conditions"]).map(({ type }) => type);
    return {
      ...listener,
      conditions: timedConditions(listener.conditions, currentListener?.["conditions"], currentTypes, now),
    };
  });
  const desired = { ...status.fields, conditions, ...(listeners !== undefined && { listeners }) };
  return isCurrent(desired, before, ownedTypes) ? undefined : desired;
}

function isCurrent(desired: KubeObject, before: KubeObject, ownedTypes: readonly string[]): boolean {
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

/** An entry of this controller in a list with entries of several controllers. */
export interface SharedEntry {
  /** `parentRef` of a route, `ancestorRef` of a policy. */
  readonly ref: KubeObject;
  readonly conditions: readonly Condition[];
}

/** A list with entries of several controllers. */
export interface SharedList {
  readonly list: "parents" | "ancestors";
  readonly ref: "parentRef" | "ancestorRef";
  /** The maximum number of entries that the API accepts. */
  readonly max: number;
}

/** The entries of a route's status, one for each parent and controller (Gateway API `RouteStatus.parents`). */
export const routeParents: SharedList = { list: "parents", ref: "parentRef", max: 32 };
/** The entries of a policy's status, one for each target (Gateway API `PolicyStatus.ancestors`). */
export const policyAncestors: SharedList = { list: "ancestors", ref: "ancestorRef", max: 16 };

/**
 * Returns the whole desired list: the entries of other controllers unchanged, then those of this controller. Undefined
 * if the API has the entries of this controller already, whatever the order of their conditions.
 */
export function desiredSharedList(
  entries: readonly SharedEntry[],
  current: unknown,
  { list, ref, max }: SharedList,
  now: string,
): readonly KubeObject[] | undefined {
  const before = objectsOf(fieldsOf(current)[list]);
  const foreign = before.filter((entry) => entry["controllerName"] !== controllerName);
  const own = before.filter((entry) => entry["controllerName"] === controllerName);
  const ours = entries.slice(0, Math.max(0, max - foreign.length)).map((entry) => {
    const last = own.find((other) => isDeepStrictEqual(other[ref], entry.ref));
    // An entry belongs to one controller, which owns each of its conditions.
    const currentTypes = conditionsOf(last?.["conditions"]).map(({ type }) => type);
    return {
      [ref]: entry.ref,
      controllerName,
      conditions: timedConditions(entry.conditions, last?.["conditions"], currentTypes, now),
    };
  });
  const isUnchanged = isDeepStrictEqual(ours.map(withSortedConditions), own.map(withSortedConditions));
  return isUnchanged ? undefined : [...foreign, ...ours];
}

/** Returns the entry with sorted conditions, because their order has no meaning. */
function withSortedConditions(entry: KubeObject): KubeObject {
  return { ...entry, conditions: byName(entry["conditions"], "type") };
}

function timedConditions(
  conditions: readonly Condition[],
  current: unknown,
  ownedTypes: readonly string[],
  now: string,
): readonly TimedCondition[] {
  const merged = mergeConditions(conditions.map(withBoundedMessage), conditionsOf(current), ownedTypes, now);
  return merged.slice(0, conditions.length);
}

/** Shortens the message. It may list hundreds of errors, and the API rejects a condition whose message is too long. */
function withBoundedMessage(condition: Condition): Condition {
  if (condition.message.length <= maxMessageLength) return condition;
  return { ...condition, message: `${condition.message.slice(0, maxMessageLength - 1).toWellFormed()}…` };
}

function conditionsOf(value: unknown): readonly TimedCondition[] {
  // The schemas of the CRDs guarantee these fields in a condition of a status.
  return objectsOf(value) as unknown as readonly TimedCondition[];
}

function byName(value: unknown, field: string): readonly KubeObject[] {
  return [...objectsOf(value)].sort((a, b) => (textOf(a[field]) < textOf(b[field]) ? -1 : 1));
}

/** Returns the value with which the API server stores an empty field. */
function emptyOf(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return value === 0 ? 0 : undefined;
}
