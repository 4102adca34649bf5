/**
 * Resolves references to backends (Gateway API `BackendObjectReference`). An unresolved reference does not invalidate the
 * route: its share of the requests gets 500. A new kind of backend is one entry in `resolveReference`.
 */
import type { BackendReference } from "../../api/http-route-filter.ts";
import type { HttpRoute } from "../../api/http-route.ts";
import { gatewayGroup, proxyGroup } from "../../api/names.ts";
import { backendStateResolver } from "./backend-resource.ts";
import type { ResolvedTlsPolicies } from "./backend-tls.ts";
import { blaming } from "../each-object.ts";
import { memoised } from "../memoised.ts";
import type { ReadableResources } from "../reference/named-objects.ts";
import { indexByName } from "../index/object-names.ts";
import { type Referrer, referencePermissions } from "../reference/reference-grants.ts";
import {
  indexSlices,
  newEndpointBudget,
  newScanBudget,
  noSlices,
  type Resolution,
  resolveService,
  wantedOf,
} from "./service-backend.ts";

/** Resolves a backendRef of a route, of a rule or of a mirror. */
export type ResolveBackend = (route: HttpRoute, ref: BackendReference) => Resolution;

export function backendResolver({ resolve }: ReferenceResolver): ResolveBackend {
  return (route, ref) => resolve(referrerOf(route), ref);
}

export function referrerOf({ kind, metadata: { namespace } }: HttpRoute): Referrer {
  return { group: gatewayGroup, kind, namespace };
}

/** Resolves references of any object to backends. */
export interface ReferenceResolver {
  /** Adds a reference to the demand of endpoints, which namespaces share. To be called before any call of `resolve`. */
  readonly want: (from: Referrer, ref: BackendReference) => void;
  readonly resolve: (from: Referrer, ref: BackendReference) => Resolution;
}

/** Returns the resolver for all references of a translation, which share a budget of endpoints. */
export function referenceResolver(resources: ReadableResources, tlsPolicies: ResolvedTlsPolicies): ReferenceResolver {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const services = indexByName(resources.Service);
  const slices = indexSlices(resources.EndpointSlice);
  const backends = indexByName(resources.Backend);
  const stateOf = memoised(backendStateResolver(resources));
  const { tlsOf } = tlsPolicies;
  const { addressDenial } = resources;
  const context = { tlsOf, addressDenial, endpointBudget: newEndpointBudget(), scanBudget: newScanBudget() };
  /** By service and port, since many routes refer to the same. */
  const resolvedPorts = new Map<string, Resolution>();

  /** Resolves a reference of a supported kind. */
  function resolveReference(from: Referrer, namespace: string, { kind, name, port }: BackendReference): Resolution {
    const key = `${namespace}/${name}`;
    // A grant for one object of another namespace must not reveal the names of others.
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
      const message = `kind ${kind} (group "${group}") is not a backend, accepted are Service and Backend (group "${proxyGroup}")`;
      return { kind: "unresolved", reason: "InvalidKind", message };
    }
    // This is checked before anything is resolved, so that the result reveals nothing of the other namespace.
    if (!isPermitted(from, { group, kind, namespace, name })) {
      const message = `${kind} ${namespace}/${name} is in another namespace, and no ReferenceGrant there permits it`;
      return { kind: "unresolved", reason: "RefNotPermitted", message };
    }
    return resolveReference(from, namespace, ref);
  };
  return { want, resolve };
}
