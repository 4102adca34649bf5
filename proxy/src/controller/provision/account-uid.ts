/**
 * Ties pods to their ServiceAccount. A token is bound to the uid of its account: if the account is deleted and created
 * again, the API server rejects the tokens of running pods until the kubelet renews them, which takes most of an hour.
 * The uid in the pod template makes the Deployment or StatefulSet replace the pods at once. Pure.
 */
import { fieldsOf, type KubeObject } from "../../kube/object.ts";
import { mergeObject } from "./merge.ts";
import type { OwnedObject } from "./owned-object.ts";

const accountUidAnnotation = "gatewayproxy.dev/service-account-uid";

/** Returns the workload with the uid of its ServiceAccount in the pod template; undefined: unknown. */
export function withAccountUid(workload: OwnedObject, uid: string | undefined): OwnedObject {
  if (uid === undefined) return workload;
  const template = { metadata: { annotations: { [accountUidAnnotation]: uid } } };
  return { ...workload, body: mergeObject(workload.body, { spec: { template } }) };
}

/** Returns the uid in the pod template of a current workload; undefined if there is none. */
export function accountUidIn(workload: KubeObject | undefined): string | undefined {
  const { metadata } = fieldsOf(fieldsOf(workload?.["spec"])["template"]);
  const uid = fieldsOf(fieldsOf(metadata)["annotations"])[accountUidAnnotation];
  return typeof uid === "string" ? uid : undefined;
}

/** Returns the uid of an object of the API server; undefined for an object without one. */
export function uidOf(object: unknown): string | undefined {
  const { uid } = fieldsOf(fieldsOf(object)["metadata"]);
  return typeof uid === "string" ? uid : undefined;
}
