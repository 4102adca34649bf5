/** The objects that have a status, as the API server has them: parsed ones, and those that the parser refuses. Pure. */
import type { RejectedResource } from "../api/rejected-resource.ts";
import type { ResourceSet } from "../api/resource.ts";
import { isObject } from "../kube/object.ts";
import type { StandingObjects } from "../status/writer.ts";
import type { StandingObject } from "../status/written-statuses.ts";

/** A refused object stands in the place of its last sound version, whose status is old. */
export function standingObjects(resources: ResourceSet, rejected: readonly RejectedResource[]): StandingObjects {
  return {
    GatewayClass: withRefused(resources.GatewayClass, rejected, "GatewayClass"),
    Gateway: withRefused(resources.Gateway, rejected, "Gateway"),
    ListenerSet: withRefused(resources.ListenerSet, rejected, "ListenerSet"),
    HTTPRoute: withRefused(resources.HTTPRoute, rejected, "HTTPRoute"),
    BackendTLSPolicy: withRefused(resources.BackendTLSPolicy, rejected, "BackendTLSPolicy"),
    ProxyPolicy: withRefused(resources.ProxyPolicy, rejected, "ProxyPolicy"),
    Backend: withRefused(resources.Backend, rejected, "Backend"),
  };
}

function withRefused(
  sound: readonly StandingObject[],
  rejected: readonly RejectedResource[],
  kind: string,
): readonly StandingObject[] {
  const refused = rejected.flatMap(({ object }): readonly StandingObject[] => {
    const { metadata, status } = object;
    if (object["kind"] !== kind || !isObject(metadata)) return [];
    const { namespace, name, uid } = metadata;
    if (typeof name !== "string" || typeof uid !== "string") return [];
    return [{ metadata: { name, uid, ...(typeof namespace === "string" && { namespace }) }, status }];
  });
  const keys = new Set(refused.map(({ metadata }) => keyOf(metadata)));
  return [...sound.filter(({ metadata }) => !keys.has(keyOf(metadata))), ...refused];
}

function keyOf({ namespace, name }: StandingObject["metadata"]): string {
  return `${namespace ?? ""}/${name}`;
}
