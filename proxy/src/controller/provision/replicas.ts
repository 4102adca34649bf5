/**
 * The number of pods when an autoscaler takes it over. Server-side apply resets a field that its only author drops: a
 * Deployment of twenty pods would fall to one until the autoscaler has looked. So another field manager of ours holds
 * the number first; the autoscaler takes it from that one by its first change.
 */
import { controllerName } from "../../api/names.ts";
import { fieldsOf, type KubeObject, objectsOf } from "../../kube/object.ts";

export const replicasManager = `${controllerName}-replicas`;

/** What `replicasManager` has to apply before `wanted` is; undefined where `wanted` drops no number of ours. */
export function heldReplicas(standing: KubeObject, wanted: KubeObject): KubeObject | undefined {
  const { replicas } = fieldsOf(standing["spec"]);
  if (replicas === undefined || fieldsOf(wanted["spec"])["replicas"] !== undefined) return undefined;
  if (!ownsReplicas(standing)) return undefined;
  const { apiVersion, kind } = wanted;
  const { namespace, name } = fieldsOf(wanted["metadata"]);
  return { apiVersion, kind, metadata: { namespace, name }, spec: { replicas } };
}

/** Whether the number is one that we applied (`metadata.managedFields`). */
function ownsReplicas({ metadata }: KubeObject): boolean {
  return objectsOf(fieldsOf(metadata)["managedFields"]).some(({ manager, operation, fieldsV1 }) => {
    const fields = fieldsOf(fieldsOf(fieldsV1)["f:spec"]);
    return manager === controllerName && operation === "Apply" && "f:replicas" in fields;
  });
}
