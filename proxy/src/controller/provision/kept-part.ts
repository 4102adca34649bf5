/**
 * The part of an object with the controller's label that stays in memory. Anyone may give an object of their namespace
 * this label, and make it as large as the API server accepts.
 */
import { controllerName, gatewayNameLabel } from "../../api/names.ts";
import { fieldsIn, fieldsOf, type KubeObject, objectsOf } from "../../kube/object.ts";
import { gatewayNamespaceLabel, managedByLabel } from "./names.ts";

/**
 * The maximum length as JSON. Objects of the controller have much less, so one that exceeds it has been changed by
 * others.
 */
const max = { labelsAndAnnotations: 16_384, spec: 131_072, status: 16_384, owners: 16 } as const;
/** Of any other field. A Role lists up to 4,096 names of Secrets. */
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
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => lengthOf(value) <= maxOther)),
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
