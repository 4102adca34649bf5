/**
 * The part of a rejected object that stays: its identity, what it refers to, and its status. The whole object may have
 * a megabyte that nothing reads, and every process would keep it.
 */
import { fieldsOf, isObject, type KubeObject, objectsOf } from "../../kube/object.ts";

/** References that are kept of a list, which has at most 32 by the Gateway API. */
const maxReferences = 64;
const maxTextLength = 1_024;

const identity = ["namespace", "name", "uid", "generation", "creationTimestamp"];
/** The fields of references by which objects attach to others. */
const references = ["group", "kind", "namespace", "name", "sectionName", "port"];

/** Returns the part of an object that its status and the log need. */
export function reportedPart({ apiVersion, kind, metadata, spec, status }: KubeObject): KubeObject {
  const { parentRef, parentRefs, targetRefs } = fieldsOf(spec);
  return {
    ...{ apiVersion, kind },
    metadata: withTexts(metadata, identity),
    spec: {
      ...(isObject(parentRef) && { parentRef: withTexts(parentRef, references) }),
      ...(Array.isArray(parentRefs) && { parentRefs: referencesIn(parentRefs) }),
      ...(Array.isArray(targetRefs) && { targetRefs: referencesIn(targetRefs) }),
    },
    ...(status !== undefined && { status }),
  };
}

function referencesIn(list: unknown): readonly KubeObject[] {
  return objectsOf(list)
    .slice(0, maxReferences)
    .map((ref) => withTexts(ref, references));
}

/** Returns these fields, where they are numbers or texts of a usual length. */
function withTexts(object: unknown, fields: readonly string[]): KubeObject {
  const all = fieldsOf(object);
  return Object.fromEntries(
    fields.flatMap((field) => {
      const value = all[field];
      const isKept = typeof value === "number" || (typeof value === "string" && value.length <= maxTextLength);
      return isKept ? [[field, value]] : [];
    }),
  );
}
