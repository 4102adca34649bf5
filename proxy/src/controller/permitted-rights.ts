/**
 * What the proxies of a Gateway that the parser refuses may be permitted to read. Its listeners and its own references
 * are unknown, so this is the most that any version of it could be permitted now. Pure.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../api/gateway.ts";
import { gatewayGroup } from "../api/names.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import type { ScopeOf } from "../translate/gateway-scope.ts";
import { type IsPermitted, referencePermissions } from "../translate/reference-grants.ts";
import { namedObjects } from "../translate/references.ts";
import { objectKey } from "./provision/roles.ts";

export type MayRead = (object: NamedObject) => boolean;

/** What a Gateway may be permitted to read, whatever it says. */
export type MostRights = (gateway: Gateway) => Steps<MayRead>;

/**
 * A Secret or ConfigMap is permitted in the Gateway's own namespace, where a ReferenceGrant lets the Gateway refer to
 * it, and where a ListenerSet, route or policy that names the Gateway leads to it.
 */
export function mostRights(resources: ResourceSet, scopeOf: ScopeOf): MostRights {
  const isPermitted: IsPermitted = referencePermissions(resources.ReferenceGrant);
  return function* ({ kind, metadata }) {
    const { namespace } = metadata;
    const attached = yield* namedObjects(yield* scopeOf(metadata, { acceptsAll: true }));
    const keys = new Set(attached.map(objectKey));
    const from = { group: gatewayGroup, kind, namespace };
    return (object) => isPermitted(from, { group: "", ...object }) || keys.has(objectKey(object));
  };
}
