/** Objects of the Kubernetes API before they are parsed: maps of which only the metadata is known. */
import { objectKey } from "@gatewayproxy/runtime/object-key";

/** A JSON object of any content. */
export interface KubeObject {
  readonly [field: string]: unknown;
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is KubeObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the fields of an object; none for any other value. */
export function fieldsOf(value: unknown): KubeObject {
  return isObject(value) ? value : {};
}

/** Returns the fields of these names that an object has. */
export function fieldsIn(object: KubeObject, names: readonly string[]): KubeObject {
  return Object.fromEntries(names.flatMap((name) => (Object.hasOwn(object, name) ? [[name, object[name]]] : [])));
}

/** Returns a string unchanged, a number or boolean as text, and the empty string for any other value. */
export function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

/** Returns the objects in a list; none for any other value. */
export function objectsOf(value: unknown): readonly KubeObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Returns `namespace/name`, or `name` for an object of the whole cluster. Throws for an object without a name. */
export function keyOfObject({ metadata }: KubeObject): string {
  const { name, namespace } = fieldsOf(metadata);
  if (typeof name !== "string") throw new Error("an object of the API server has no name");
  return objectKey({ namespace: typeof namespace === "string" ? namespace : undefined, name });
}

/** One page of a list. */
export interface ObjectList {
  readonly items: readonly KubeObject[];
  /** The resource version from which to watch. */
  readonly version: string;
  /** The token for the next page; undefined for the last page. */
  readonly next: string | undefined;
}

/** Reads a list of the API server, whose items lack apiVersion and kind. Throws for any other value. */
export function readList(value: unknown): ObjectList {
  if (!isObject(value) || !isObject(value["metadata"])) throw new Error("the response of the API server is not a list");
  const { apiVersion, kind, items, metadata } = value;
  const { resourceVersion, continue: next } = metadata;
  if (typeof resourceVersion !== "string") throw new Error("the list of the API server has no resourceVersion");
  const itemKind = typeof kind === "string" ? kind.replace(/List$/, "") : kind;
  return {
    items: objectsOf(items).map((item) => ({ apiVersion, kind: itemKind, ...item })),
    version: resourceVersion,
    next: typeof next === "string" && next !== "" ? next : undefined,
  };
}
