/**
 * The part of an object with the controller's label that stays in memory. Anyone may give an object of their namespace
 * this label, and make it as large as the API server accepts.
 */
import { createHash } from "node:crypto";
import { controllerName, gatewayNameLabel } from "../../api/names.ts";
import { fieldsIn, fieldsOf, isObject, type KubeObject, objectsOf } from "../../kube/object.ts";
import { gatewayNamespaceLabel, managedByLabel } from "./names.ts";

/**
 * The maximum length as JSON. Objects of the controller have much less, so one that exceeds it has been changed by
 * others.
 */
const max = { labelsAndAnnotations: 16_384, spec: 131_072, status: 16_384, owners: 16 } as const;
/** Of any other field. A Role that lists 4,096 long names of Secrets has more, of which a digest is kept. */
const maxOther = 262_144;

const identifying = [managedByLabel, gatewayNamespaceLabel, gatewayNameLabel];

/**
 * Returns an object without what the provisioner does not compare, and without parts that are longer than those of its
 * own objects.
 */
export function keptPart({ metadata, spec, status, ...rest }: KubeObject): KubeObject {
  const all = fieldsOf(metadata);
  const { labels, annotations, ownerReferences, managedFields } = all;
  const isShort = lengthOf([labels, annotations]) <= max.labelsAndAnnotations;
  return {
    ...withDigests(rest),
    metadata: {
      ...fieldsIn(all, ["namespace", "name", "uid", "generation", "deletionTimestamp"]),
      ...(labels !== undefined && { labels: isShort ? labels : fieldsIn(fieldsOf(labels), identifying) }),
      ...(annotations !== undefined && isShort && { annotations }),
      ...(ownerReferences !== undefined && { ownerReferences: objectsOf(ownerReferences).slice(0, max.owners) }),
      ...(managedFields !== undefined && { managedFields: ownFields(managedFields) }),
    },
    ...(lengthOf(spec) <= max.spec && { spec }),
    ...(lengthOf(status) <= max.status && { status }),
  };
}

/**
 * Returns fields of an object with a digest in place of each long one. What is expected of an object is compared in the
 * same form.
 */
export function withDigests(fields: KubeObject): KubeObject {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, lengthOf(value) <= maxOther ? value : digestOf(value)]),
  );
}

/** Returns the same text for the same value, whatever the order of its fields. */
function digestOf(value: unknown): string {
  const sorted = JSON.stringify(value, (_, part: unknown) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
  return createHash("sha256").update(sorted).digest("base64url");
}

function lengthOf(value: unknown): number {
  return value === undefined ? 0 : JSON.stringify(value).length;
}

/** Returns that the controller has applied the object, and whether it owns the number of replicas. */
function ownFields(managedFields: unknown): readonly KubeObject[] {
  const own = objectsOf(managedFields).filter(
    ({ manager, operation }) => manager === controllerName && operation === "Apply",
  );
  const ownsReplicas = own.some(({ fieldsV1 }) => "f:replicas" in fieldsOf(fieldsOf(fieldsV1)["f:spec"]));
  const [first] = own;
  if (first === undefined) return [];
  const { manager, operation } = first;
  return [{ manager, operation, fieldsV1: { "f:spec": ownsReplicas ? { "f:replicas": {} } : {} } }];
}
