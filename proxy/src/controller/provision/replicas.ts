/**
 * The number of pods when an autoscaler takes it over. Server-side apply resets a field that its only author drops: a
 * Deployment of twenty pods would fall to one until the autoscaler has looked. So another field manager of ours holds
 * the number first; the autoscaler takes it from that one by its first change.
 */
import { controllerName } from "../../api/names.ts";
import { isObject, type KubeObject } from "../../kube/object.ts";

export const replicasManager = `${controllerName}-replicas`;

/** What `replicasManager` has to apply before `wanted` is; undefined where `wanted` drops no number of ours. */
export function heldReplicas(standing: KubeObject, wanted: KubeObject): KubeObject | undefined {
  const { spec } = standing;
  if (!isObject(spec) || typeof spec["replicas"] !== "number" || !ownsReplicas(standing)) return undefined;
  if (isObject(wanted["spec"]) && wanted["spec"]["replicas"] !== undefined) return undefined;
  const { apiVersion, kind } = wanted;
  const { namespace, name } = isObject(wanted["metadata"]) ? wanted["metadata"] : {};
  return { apiVersion, kind, metadata: { namespace, name }, spec: { replicas: spec["replicas"] } };
}

/** Whether the number is one that we applied (`metadata.managedFields`). */
function ownsReplicas({ metadata }: KubeObject): boolean {
  const entries = isObject(metadata) ? metadata["managedFields"] : undefined;
  return (Array.isArray(entries) ? entries : []).filter(isObject).some(({ manager, operation, fieldsV1 }) => {
    const spec = isObject(fieldsV1) ? fieldsV1["f:spec"] : undefined;
    return manager === controllerName && operation === "Apply" && isObject(spec) && "f:replicas" in spec;
  });
}
