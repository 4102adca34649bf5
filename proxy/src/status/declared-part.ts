/**
 * Reduces a value to the fields that the structural schema of a CustomResourceDefinition declares. The API server
 * rejects a server-side apply with an undeclared field, and drops such a field from a merge patch. Pure.
 */
import { fieldsOf, isObject, type KubeObject } from "../kube/object.ts";

/** A value with declared fields only. */
export interface DeclaredPart {
  readonly value: unknown;
  /** Paths of the fields that were left out, such as `listeners[].attachedRoutes`. Each is listed once. */
  readonly leftOut: ReadonlySet<string>;
}

/**
 * Returns the part of a value that a schema declares. A field of another type than the declared one is left out too: a
 * field may have changed its type between two versions of the Gateway API.
 *
 * @param schema `openAPIV3Schema`, or a part of it (Kubernetes API `JSONSchemaProps`).
 */
export function declaredPart(schema: KubeObject, value: KubeObject): DeclaredPart {
  const leftOut = new Set<string>();
  return { value: declaredFields(schema, value, "", leftOut), leftOut };
}

function declaredFields(schema: KubeObject, value: KubeObject, path: string, leftOut: Set<string>): KubeObject {
  const { properties, additionalProperties } = schema;
  if (keepsUnknownFields(schema)) return value;
  const kept = Object.entries(value).flatMap(([name, field]): [string, unknown][] => {
    const declared = fieldsOf(properties)[name] ?? additionalProperties;
    const fieldPath = path === "" ? name : `${path}.${name}`;
    if (additionalProperties === true || field === undefined) return [[name, field]];
    if (isObject(declared) && hasDeclaredType(declared, field)) {
      return [[name, declaredValue(declared, field, fieldPath, leftOut)]];
    }
    leftOut.add(fieldPath);
    return [];
  });
  return Object.fromEntries(kept);
}

function declaredValue(schema: KubeObject, value: unknown, path: string, leftOut: Set<string>): unknown {
  if (isObject(value)) return declaredFields(schema, value, path, leftOut);
  if (!Array.isArray(value)) return value;
  const items = fieldsOf(schema["items"]);
  return value.map((item: unknown) => declaredValue(items, item, `${path}[]`, leftOut));
}

function keepsUnknownFields(schema: KubeObject): boolean {
  return schema["x-kubernetes-preserve-unknown-fields"] === true;
}

/**
 * Whether a value has the type of its schema, and a list the type of its items. Values that are equal in JSON count.
 */
function hasDeclaredType(schema: KubeObject, value: unknown): boolean {
  const { type, items } = schema;
  if (keepsUnknownFields(schema) || type === undefined) return true;
  if (Array.isArray(value)) return type === "array" && value.every((item) => hasDeclaredType(fieldsOf(items), item));
  if (isObject(value)) return type === "object";
  return type !== "array" && type !== "object";
}
