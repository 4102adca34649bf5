/**
 * Fields that an object had and the API server does not show any more, since the definition of its kind does not
 * declare them: an operator has replaced it by an older one, or by that of another channel. The object looks as if its
 * owner had never set them. Its managed fields still name them, also after further writes and once the definition is
 * back.
 */
import type { FieldError, FieldPath } from "../../api/issue.ts";
import { gatewayGroup } from "../../api/names.ts";
import { fieldsOf, isObject, type KubeObject, objectsOf, textOf } from "../../kube/object.ts";

/**
 * The parts of each kind that restrict what it permits, as paths below `spec`. The API server does not record the
 * fields in the rules of routes, which are one value to it.
 */
const restrictingParts: Readonly<Record<string, readonly (readonly string[])[]>> = {
  Gateway: [["tls", "frontend"], ["listeners"]],
  ListenerSet: [["listeners"]],
  BackendTLSPolicy: [[]],
  ProxyPolicy: [[]],
  Backend: [[]],
};

/** Anyone may write thousands of managed fields, for thousands of managers. */
const maxErrors = 8;
/** Items of lists that are looked up for an object. A Gateway has 64 listeners and few managers. */
const maxItems = 4_096;
/** The manager of a field may have any name. */
const maxNameLength = 64;
/** By which items of lists are named in managed fields. */
const itemKeys = ["name", "port"];

/** Returns an error for each field that was dropped and may restrict what the object permits. */
export function droppedFields({ apiVersion, kind, metadata, spec }: KubeObject): readonly FieldError[] {
  const parts = restrictingParts[textOf(kind)];
  const errors = new Map<string, FieldError>();
  const budget = { items: maxItems };
  if (parts === undefined) return [];
  for (const entry of objectsOf(fieldsOf(metadata)["managedFields"])) {
    const isOfSpec =
      textOf(entry["subresource"]) === "" && hasSameFields(textOf(entry["apiVersion"]), textOf(apiVersion));
    if (!isOfSpec) continue;
    const fields = fieldsOf(entry["fieldsV1"])["f:spec"];
    const manager = textOf(entry["manager"]).slice(0, maxNameLength).toWellFormed();
    for (const part of parts) {
      for (const path of droppedOf(part, fields, spec, budget)) {
        const key = path.join(" ");
        const message = messageFor(manager);
        if (!errors.has(key)) errors.set(key, { path: ["spec", ...path], message, isUnknownField: false });
        if (errors.size === maxErrors) return [...errors.values()];
      }
    }
  }
  return [...errors.values()];
}

function messageFor(manager: string): string {
  return (
    `"${manager}" has set this field, and the API server has dropped it, since the definition of the kind did not declare it; ` +
    "apply the object again where the definition declares the field, or create it without the field"
  );
}

/** Alpha versions of a kind have other fields than later ones. */
function hasSameFields(managed: string, version: string): boolean {
  const isStable = (each: string) => each.startsWith(`${gatewayGroup}/`) && !each.includes("alpha");
  return managed === version || (isStable(managed) && isStable(version));
}

/** The remaining part of `maxItems`. */
interface Budget {
  items: number;
}

/** Returns the paths below `value` of dropped fields in a part of it, or of the part itself. */
function droppedOf(
  [name, ...rest]: readonly string[],
  managed: unknown,
  value: unknown,
  budget: Budget,
): Iterable<FieldPath> {
  if (name === undefined) return droppedIn(managed, value, [], budget);
  const ofName = fieldsOf(managed)[`f:${name}`];
  if (ofName === undefined) return [];
  const own = fieldsOf(value)[name];
  // The API server drops the map of a dropped field, too, if the definition declares neither.
  if (own === undefined) return leadsTo(rest, ofName) ? [[name, ...rest]] : [];
  return Iterator.from(droppedOf(rest, ofName, own, budget)).map((path) => [name, ...path]);
}

function leadsTo(path: readonly string[], managed: unknown): boolean {
  return path.reduce<unknown>((fields, name) => fieldsOf(fields)[`f:${name}`], managed) !== undefined;
}

/** Yields the paths of managed fields that a value does not have. Goes no deeper than the value. */
function* droppedIn(managed: unknown, value: unknown, path: FieldPath, budget: Budget): Generator<FieldPath> {
  if (!isObject(managed)) return;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      if (budget.items-- <= 0) return;
      for (const key of itemKeys) {
        const fields = managed[`k:${JSON.stringify({ [key]: fieldsOf(item)[key] })}`];
        if (fields !== undefined) yield* droppedIn(fields, item, [...path, index], budget);
      }
    }
    return;
  }
  if (!isObject(value)) return;
  for (const field in managed) {
    if (!field.startsWith("f:")) continue;
    const name = field.slice(2);
    if (Object.hasOwn(value, name)) yield* droppedIn(managed[field], value[name], [...path, name], budget);
    else yield [...path, name];
  }
}
