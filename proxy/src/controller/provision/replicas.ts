/**
 * Keeps the number of pods when an autoscaler takes it over. Server-side apply resets a field that its only owner
 * drops, so a workload of twenty pods would shrink to one until the autoscaler acts. Therefore a second field manager
 * of the controller first applies the number, and the autoscaler takes it over with its first change.
 */
import { controllerName } from "../../api/names.ts";
import { fieldsOf, type KubeObject, objectsOf } from "../../kube/object.ts";

/** The field manager that owns `spec.replicas` for the autoscaler. */
export const replicasManager = `${controllerName}-replicas`;

/**
 * Returns the object that `replicasManager` applies before `desired`; undefined if `desired` does not drop the number.
 */
export function retainedReplicas(current: KubeObject, desired: KubeObject): KubeObject | undefined {
  const { replicas } = fieldsOf(current["spec"]);
  if (replicas === undefined || fieldsOf(desired["spec"])["replicas"] !== undefined) return undefined;
  if (!ownsReplicas(current)) return undefined;
  const { apiVersion, kind } = desired;
  const { namespace, name } = fieldsOf(desired["metadata"]);
  return { apiVersion, kind, metadata: { namespace, name }, spec: { replicas } };
}

/** Whether the controller's apply owns the number (`metadata.managedFields`). */
function ownsReplicas({ metadata }: KubeObject): boolean {
  return objectsOf(fieldsOf(metadata)["managedFields"]).some(({ manager, operation, fieldsV1 }) => {
    const fields = fieldsOf(fieldsOf(fieldsV1)["f:spec"]);
    return manager === controllerName && operation === "Apply" && "f:replicas" in fields;
  });
}
