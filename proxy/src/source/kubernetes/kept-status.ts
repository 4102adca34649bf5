/**
 * The part of a status that the controller keeps, to compare it with what it would write. Others may write anything
 * into a status, up to the size of an object.
 */
import { detachedText } from "@gatewayproxy/runtime/detached-text";
import { controllerName } from "../../api/names.ts";
import { longStatusOf } from "../../kube/long-status.ts";
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
/** The fields with a list of entries, each of which has conditions. */
const lists: ReadonlySet<string> = new Set(["ancestors", "listeners", "parents"]);
/** Beyond this length as JSON, in which equal conditions count once, nothing but a hash is kept. */
const maxLength = 131_072;

/** Returns the part of a status that is compared. */
export function keptStatus(status: unknown): unknown {
  if (!isObject(status)) return undefined;
  const conditions = new SharedConditions();
  const own = Object.entries(status).filter(([name]) => fields.has(name));
  const kept = Object.fromEntries(
    own.map(([name, value]) => [name, lists.has(name) ? entriesOf(name, value, conditions) : shortened(value)]),
  );
  if (textWithoutConditions(kept).length + conditions.length <= maxLength) return kept;
  return longStatusOf(kept);
}

/** The conditions of 32 parents, or of 64 listeners, may be the same, with messages of some kilobytes. */
class SharedConditions {
  readonly #known = new Map<string, unknown>();
  /** Of the distinct ones, as JSON. */
  length = 0;

  /** Returns an earlier list of conditions if it is equal. */
  of(conditions: unknown): unknown {
    // They may be missing.
    const text = JSON.stringify(conditions ?? null);
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    this.#known.set(text, conditions);
    this.length += text.length;
    return conditions;
  }
}

function textWithoutConditions(kept: KubeObject): string {
  const entries = Object.entries(kept).map(([name, value]) => [
    name,
    lists.has(name) && Array.isArray(value) ? value.map(withoutConditions) : value,
  ]);
  return JSON.stringify(Object.fromEntries(entries));
}

function withoutConditions(entry: unknown): unknown {
  return isObject(entry) ? { ...entry, conditions: undefined } : entry;
}

/** Of the entries of other controllers in a shared list, only the number matters. */
function entriesOf(name: string, list: unknown, conditions: SharedConditions): unknown {
  if (!Array.isArray(list)) return shortened(list);
  const isShared = name !== "listeners";
  return list.map((entry: unknown) => {
    if (!isObject(entry)) return shortened(entry);
    if (isShared && entry["controllerName"] !== controllerName) {
      return { controllerName: shortened(entry["controllerName"]) };
    }
    const kept = shortened(entry);
    return isObject(kept) && "conditions" in kept ? { ...kept, conditions: conditions.of(kept["conditions"]) } : kept;
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
