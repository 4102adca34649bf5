/** Collects the objects that have a status, as the API server has them: parsed ones, and rejected ones. Pure. */
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { RejectedResource } from "../api/rejected-resource.ts";
import type { ResourceSet } from "../api/resource.ts";
import { fieldsOf } from "../kube/object.ts";
import type { CurrentObjects } from "../status/writer.ts";
import type { CurrentObject } from "../status/written-statuses.ts";

/** Returns the objects by kind. A rejected object replaces its previous valid version, whose status is out of date. */
export function currentObjects(resources: ResourceSet, rejected: readonly RejectedResource[]): CurrentObjects {
  return {
    GatewayClass: withRejectedObjects(resources.GatewayClass, rejected, "GatewayClass"),
    Gateway: withRejectedObjects(resources.Gateway, rejected, "Gateway"),
    ListenerSet: withRejectedObjects(resources.ListenerSet, rejected, "ListenerSet"),
    HTTPRoute: withRejectedObjects(resources.HTTPRoute, rejected, "HTTPRoute"),
    GRPCRoute: withRejectedObjects(resources.GRPCRoute, rejected, "GRPCRoute"),
    TLSRoute: withRejectedObjects(resources.TLSRoute, rejected, "TLSRoute"),
    TCPRoute: withRejectedObjects(resources.TCPRoute, rejected, "TCPRoute"),
    UDPRoute: withRejectedObjects(resources.UDPRoute, rejected, "UDPRoute"),
    BackendTLSPolicy: withRejectedObjects(resources.BackendTLSPolicy, rejected, "BackendTLSPolicy"),
    ProxyPolicy: withRejectedObjects(resources.ProxyPolicy, rejected, "ProxyPolicy"),
    Backend: withRejectedObjects(resources.Backend, rejected, "Backend"),
  };
}

function withRejectedObjects(
  valid: readonly CurrentObject[],
  rejected: readonly RejectedResource[],
  kind: string,
): readonly CurrentObject[] {
  const rejectedObjects = rejected.flatMap((each) => (each.object["kind"] === kind ? (currentObject(each) ?? []) : []));
  if (rejectedObjects.length === 0) return valid;
  const keys = new Set(rejectedObjects.map(({ metadata }) => keyOf(metadata)));
  return [...valid.filter(({ metadata }) => !keys.has(keyOf(metadata))), ...rejectedObjects];
}

/** Returns the same object for the same rejection, so that its status is compared once. */
const currentObject = memoised(({ object }: RejectedResource): CurrentObject | undefined => {
  const { apiVersion, metadata, status } = object;
  const { namespace, name, uid } = fieldsOf(metadata);
  if (typeof name !== "string" || typeof uid !== "string") return undefined;
  return {
    ...(typeof apiVersion === "string" && { apiVersion }),
    metadata: { name, uid, ...(typeof namespace === "string" && { namespace }) },
    status,
  };
});

function keyOf({ namespace, name }: CurrentObject["metadata"]): string {
  return `${namespace ?? ""}/${name}`;
}
