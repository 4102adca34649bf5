/** Objects of the Kubernetes API as they arrive: maps of which only the metadata is known. */

/** A parsed object, unchecked but for its being one. */
export interface KubeObject {
  readonly [field: string]: unknown;
}

export function isObject(value: unknown): value is KubeObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An object's fields; none of anything else. */
export function fieldsOf(value: unknown): KubeObject {
  return isObject(value) ? value : {};
}

/** A string as it is, a number or boolean as text; the empty string for anything else, which need not have a text. */
export function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

/** The objects of a list; none of anything else. */
export function objectsOf(value: unknown): readonly KubeObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** `namespace/name`, or `name` for an object of the whole cluster. Throws for one without a name. */
export function objectKey({ metadata }: KubeObject): string {
  const { name, namespace } = fieldsOf(metadata);
  if (typeof name !== "string") throw new Error("an object of the API server has no name");
  return typeof namespace === "string" ? `${namespace}/${name}` : name;
}

export interface ObjectList {
  readonly items: readonly KubeObject[];
  /** Where to watch from. */
  readonly version: string;
  /** Asks for the rest; undefined for the last page. */
  readonly next: string | undefined;
}

/** Reads a list as the API server gives it, whose items have neither apiVersion nor kind. Throws when it is none. */
export function readList(value: unknown): ObjectList {
  if (!isObject(value) || !isObject(value["metadata"])) throw new Error("the API server gave no list");
  const { apiVersion, kind, items, metadata } = value;
  const { resourceVersion, continue: next } = metadata;
  if (typeof resourceVersion !== "string") throw new Error("the API server gave a list without resourceVersion");
  const itemKind = typeof kind === "string" ? kind.replace(/List$/, "") : kind;
  return {
    items: objectsOf(items).map((item) => ({ apiVersion, kind: itemKind, ...item })),
    version: resourceVersion,
    next: typeof next === "string" && next !== "" ? next : undefined,
  };
}
