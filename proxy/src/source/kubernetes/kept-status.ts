/**
 * The part of a status that the controller keeps, to compare it with what it would write. Others may write anything
 * into a status, up to the size of an object.
 */
import { detachedText } from "@gatewayproxy/runtime/detached-text";
import { hashOfText } from "@gatewayproxy/runtime/text-hash";
import { controllerName } from "../../api/names.ts";
import { isObject, type KubeObject } from "../../kube/object.ts";

/** The fields that the controller writes. */
const fields: ReadonlySet<string> = new Set([
  ...["addresses", "ancestors", "attachedListenerSets", "conditions", "listeners", "parents"],
  ...["selectedSecrets", "summary", "supportedFeatures"],
]);
/**
 * Longer than the messages that the controller writes (`desired-status.ts`), so that a shortened message equals none of
 * them.
 */
const maxTextLength = 8_193;
/** Levels of lists and maps within a field. Deeper ones are left out. A status of the controller has fewer levels. */
const maxDepth = 16;
/** Beyond this length as JSON, a status counts as one that is to be written. */
const maxLength = 131_072;

/** Returns the part of a status that is compared. */
export function keptStatus(status: unknown): unknown {
  if (!isObject(status)) return undefined;
  const own = Object.entries(status).filter(([name]) => fields.has(name));
  const kept = Object.fromEntries(
    own.map(([name, value]) => [
      name,
      name === "parents" || name === "ancestors" ? entriesOf(value) : shortened(value),
    ]),
  );
  const text = JSON.stringify(kept);
  // A change is still seen.
  return text.length <= maxLength ? kept : { isTooLong: hashOfText(text) };
}

/** Of the entries of other controllers, only the number matters. */
function entriesOf(list: unknown): unknown {
  if (!Array.isArray(list)) return shortened(list);
  return list.map((entry: unknown) => {
    if (!isObject(entry) || entry["controllerName"] === controllerName) return shortened(entry);
    return { controllerName: shortened(entry["controllerName"]) };
  });
}

/** Returns the same value if none of its texts is too long, since a copy of it takes more memory. */
function shortened(value: unknown, depth = 0): unknown {
  if (typeof value === "string") {
    return value.length <= maxTextLength ? value : detachedText(value.slice(0, maxTextLength).toWellFormed());
  }
  if (depth > maxDepth) return typeof value === "object" ? null : value;
  if (Array.isArray(value)) {
    const items = value.map((item) => shortened(item, depth + 1));
    return items.every((item, at) => item === value[at]) ? value : items;
  }
  if (!isObject(value)) return value;
  const all = Object.entries(value).map(([name, field]): [string, unknown] => [name, shortened(field, depth + 1)]);
  return all.every(([name, field]) => field === value[name]) ? value : Object.fromEntries(all);
}

/** Returns an object with the part of its status that is compared. */
export function withKeptStatus(object: KubeObject): KubeObject {
  return object["status"] === undefined ? object : { ...object, status: keptStatus(object["status"]) };
}
