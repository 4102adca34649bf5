/**
 * Finds conflicts between the parameters of a Gateway and those of its class. A Gateway cannot change a field that the
 * class sets. It can add other fields, other keys of a map and other items of a named list.
 */
import { isDeepStrictEqual } from "node:util";
import { type FieldPath, renderPath } from "../../api/issue.ts";
import { fieldsOf, isObject, type KubeObject } from "../../kube/object.ts";
import { isSetByClass } from "./infrastructure.ts";
import { listKeyOf } from "./merge.ts";
import { parameterKeys, type Parameters } from "./parameter-keys.ts";
import { schedulingFields, serviceTypes } from "./gateway-parameters.ts";

/** The parameters of a GatewayClass. */
export interface ClassParameters {
  /** The name of the class. */
  readonly name: string;
  readonly parameters: Parameters;
  /** The Service type if the parameters of the class do not set it. */
  readonly serviceType: string;
}

/**
 * Returns the first conflict of a Gateway's parameters with those of its class, in one sentence; undefined if there is
 * none.
 */
export function conflictWithClass(own: Parameters, ofClass: ClassParameters): string | undefined {
  return typeConflict(own, ofClass) ?? schedulingConflict(own, ofClass) ?? fieldConflict(own, ofClass);
}

/** A Gateway can make its Service less exposed than the class does, but not more. */
function typeConflict(own: Parameters, { name, parameters, serviceType }: ClassParameters): string | undefined {
  const widest = fieldsOf(parameters.service?.["spec"])["type"] ?? serviceType;
  const requested = fieldsOf(own.service?.["spec"])["type"];
  const rank = (each: unknown) => serviceTypes.findIndex((known) => known === each);
  if (typeof requested !== "string" || rank(requested) <= rank(widest)) return undefined;
  const accepted = serviceTypes.slice(0, rank(widest) + 1).join(", ");
  return `service.spec.type: found "${requested}"; the GatewayClass ${name} accepts ${accepted}`;
}

/** A scheduling field of the class cannot be extended, even if it is a list. */
function schedulingConflict(own: Parameters, { name, parameters }: ClassParameters): string | undefined {
  const [ofClass, pods] = [parameters, own].map(({ deployment }) =>
    fieldsOf(fieldsOf(fieldsOf(deployment?.["spec"])["template"])["spec"]),
  );
  const taken = schedulingFields.find((field) => ofClass?.[field] !== undefined && pods?.[field] !== undefined);
  return taken && setByClassMessage(name, ["deployment", "spec", "template", "spec", taken]);
}

function fieldConflict(own: Parameters, { name, parameters }: ClassParameters): string | undefined {
  for (const key of parameterKeys) {
    const path = conflictingPath(own[key], parameters[key], [key]);
    if (path !== undefined) return setByClassMessage(name, path);
  }
  // An autoscaler would change the number that the class sets.
  const replicas = fieldsOf(parameters.deployment?.["spec"])["replicas"];
  const isScaled = own.horizontalPodAutoscaler !== undefined && parameters.horizontalPodAutoscaler === undefined;
  return isScaled && replicas !== undefined ? setByClassMessage(name, ["deployment", "spec", "replicas"]) : undefined;
}

function setByClassMessage(name: string, path: FieldPath): string {
  return `${renderPath(path)} is set by the GatewayClass ${name} and cannot be changed by a Gateway`;
}

/** Returns the first field that both set to different values. */
function conflictingPath(own: unknown, ofClass: unknown, path: FieldPath): FieldPath | undefined {
  if (own === undefined || ofClass === undefined || isDeepStrictEqual(own, ofClass)) return undefined;
  if (isObject(own) && isObject(ofClass)) return conflictingField(own, ofClass, path);
  const key = listKeyOf(String(path.at(-1)), ofClass, own);
  if (key === undefined || !Array.isArray(own) || !Array.isArray(ofClass)) return path;
  const items = ofClass.filter(isObject);
  for (const [index, item] of own.filter(isObject).entries()) {
    const same = items.find((each) => each[key] === item[key]);
    const found = conflictingPath(item, same, [...path, index]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function conflictingField(own: KubeObject, ofClass: KubeObject, path: FieldPath): FieldPath | undefined {
  for (const [name, value] of Object.entries(own)) {
    const field = [...path, name];
    // Validated by `typeConflict`.
    if (renderPath(field) === "service.spec.type") continue;
    const isNew = !Object.hasOwn(ofClass, name);
    const found = isNew ? undefined : conflictingPath(value, ofClass[name], field);
    if (found !== undefined) return found;
    if (isNew && path[0] === "service" && path[1] === "metadata" && isSetByClass(ofClass, name)) return field;
  }
  return undefined;
}
