/**
 * Resolves what rules refer to as backends (Gateway API `BackendObjectReference`). A reference that cannot be followed
 * is no error of the route as a whole: its share of the traffic is answered with 500. A new kind of backend is one
 * entry in `resolveReference`.
 */
import type { BackendReference } from "../api/http-route-filter.ts";
import type { HttpRoute } from "../api/http-route.ts";
import { gatewayGroup, proxyGroup } from "../api/names.ts";
import { backendStateResolver } from "./backend-resource.ts";
import type { ResolvedTlsPolicies } from "./backend-tls.ts";
import { blaming } from "./each-object.ts";
import { memoised } from "./memoised.ts";
import type { ReadableResources } from "./named-objects.ts";
import { indexByName } from "./object-names.ts";
import { type Referrer, referencePermissions } from "./reference-grants.ts";
import {
  indexSlices,
  newEndpointBudget,
  newScanBudget,
  noSlices,
  type Resolution,
  resolveService,
  wantedOf,
} from "./service-backend.ts";

/** Follows a backendRef of a route, of a rule or of a mirror. */
export type ResolveBackend = (route: HttpRoute, ref: BackendReference) => Resolution;

export function backendResolver({ resolve }: ReferenceResolver): ResolveBackend {
  return (route, ref) => resolve(referrerOf(route), ref);
}

export function referrerOf({ kind, metadata: { namespace } }: HttpRoute): Referrer {
  return { group: gatewayGroup, kind, namespace };
}

/** Follows a reference of any object to a backend. */
export interface ReferenceResolver {
  /** Tells what `resolve` will be asked for, before it is asked for anything: endpoints are shared by what is wanted. */
  readonly want: (from: Referrer, ref: BackendReference) => void;
  readonly resolve: (from: Referrer, ref: BackendReference) => Resolution;
}

/** One for all references of a translation: it has one budget of endpoints. */
export function referenceResolver(resources: ReadableResources, tlsPolicies: ResolvedTlsPolicies): ReferenceResolver {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const services = indexByName(resources.Service);
  const slices = indexSlices(resources.EndpointSlice);
  const backends = indexByName(resources.Backend);
  const stateOf = memoised(backendStateResolver(resources));
  const { tlsOf } = tlsPolicies;
  const { addressDenial } = resources;
  const context = { tlsOf, addressDenial, endpointBudget: newEndpointBudget(), scanBudget: newScanBudget() };
  /** By service and port: many routes name the same. */
  const resolvedPorts = new Map<string, Resolution>();

  /** Of a kind that is known. */
  function resolveReference(from: Referrer, namespace: string, { kind, name, port }: BackendReference): Resolution {
    const key = `${namespace}/${name}`;
    // A grant for one object of another namespace must not tell the names of others.
    const missing = <T>(objects: ReadonlyMap<string, T>): Resolution => {
      const hint = namespace === from.namespace ? resources.hints.of(namespace, kind, key, objects.keys()) : "";
      return { kind: "unresolved", reason: "BackendNotFound", message: `${kind} ${key} does not exist${hint}` };
    };
    if (kind === "Service") {
      const service = services.get(key);
      if (service === undefined || port === undefined) return missing(services);
      const place = `${key}:${port}`;
      const resolved = resolvedPorts.get(place);
      if (resolved !== undefined) return resolved;
      const resolution = blaming(service, () => resolveService(service, port, slices.get(key) ?? [], context));
      resolvedPorts.set(place, resolution);
      return resolution;
    }
    const backend = backends.get(key);
    return backend === undefined ? missing(backends) : blaming(backend, () => stateOf(backend)).resolution;
  }

  const wantedPorts = new Set<string>();
  const want = (from: Referrer, { group, kind, name, namespace = from.namespace, port }: BackendReference): void => {
    const key = `${namespace}/${name}`;
    const place = `${key}:${port}`;
    if (group !== "" || kind !== "Service" || wantedPorts.has(place) || !services.has(key)) return;
    if (!isPermitted(from, { group, kind, namespace, name })) return;
    wantedPorts.add(place);
    const wanted = wantedOf(slices.get(key) ?? noSlices);
    context.endpointBudget.want(namespace, wanted.endpoints);
    context.scanBudget.want(namespace, wanted.entries);
  };

  const resolve = (from: Referrer, ref: BackendReference): Resolution => {
    const namespace = ref.namespace ?? from.namespace;
    const { group, kind, name } = ref;
    const isKnown = (group === "" && kind === "Service") || (group === proxyGroup && kind === "Backend");
    if (!isKnown) {
      const message = `kind ${kind} (group "${group}") is no backend, accepted are Service and Backend (group "${proxyGroup}")`;
      return { kind: "unresolved", reason: "InvalidKind", message };
    }
    // Before anything is resolved: the reference takes nothing of the other namespace, and learns nothing of it.
    if (!isPermitted(from, { group, kind, namespace, name })) {
      const message = `${kind} ${namespace}/${name} is in another namespace, and no ReferenceGrant there permits it`;
      return { kind: "unresolved", reason: "RefNotPermitted", message };
    }
    return resolveReference(from, namespace, ref);
  };
  return { want, resolve };
}
