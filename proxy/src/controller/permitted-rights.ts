/**
 * Computes which Secrets and ConfigMaps the proxies of a rejected Gateway may read. Its listeners and references are
 * unknown, so the result is everything that a Gateway of this name could be permitted to read now. Pure.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../api/gateway.ts";
import { gatewayGroup } from "../api/names.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import type { ScopeOf } from "../translate/gateway/gateway-scope.ts";
import { type IsPermitted, referencePermissions } from "../translate/reference/reference-grants.ts";
import { namedObjects } from "../translate/reference/references.ts";
import { referentKey } from "./provision/roles.ts";

/** Whether an object may be read. */
export type MayRead = (object: NamedObject) => boolean;

/** Computes the objects that a Gateway could be permitted to read with any spec. */
export type MaximumRights = (gateway: Gateway) => Steps<MayRead>;

/**
 * Returns the maximum rights of any Gateway of the resources. A Secret or ConfigMap is permitted if it is in the
 * Gateway's namespace, if a ReferenceGrant lets the Gateway refer to it, or if a ListenerSet, route or policy that
 * names the Gateway refers to it.
 */
export function maximumRights(resources: ResourceSet, scopeOf: ScopeOf): MaximumRights {
  const isPermitted: IsPermitted = referencePermissions(resources.ReferenceGrant);
  return function* ({ kind, metadata }) {
    const { namespace } = metadata;
    const attached = yield* namedObjects(yield* scopeOf(metadata, { acceptsAll: true }));
    const keys = new Set(attached.map(referentKey));
    const from = { group: gatewayGroup, kind, namespace };
    return (object) => isPermitted(from, { group: "", ...object }) || keys.has(referentKey(object));
  };
}
