/**
 * Resolves references to backends (Gateway API `BackendObjectReference`). An unresolved reference does not invalidate
 * the route: its share of the requests gets 500, and its share of the connections is closed. A new kind of backend is
 * one entry in `#resolvePermitted`.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { isStreamRouteKind } from "@gatewayproxy/runtime/route-key";
import type { BackendReference } from "../../api/http-route-filter.ts";
import { proxyGroup } from "../../api/names.ts";
import type { TranslationContext } from "../context.ts";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import type { Backend } from "../../ir/snapshot.ts";
import { attributing, eachObject, itself } from "../each-object.ts";
import { anyNameIn, nameKey, namesIn, sortByName } from "../index/object-names.ts";
import { hasSameItems, keepingEqual, memoised, memoisedWith, sameList } from "@gatewayproxy/runtime/memoised";
import type { AnyRoute } from "../../api/resource.ts";
import { ampleBudget } from "../fair-share.ts";
import type { ResourceIndex } from "../index/resource-index.ts";
import { backendRefsOf, crossesNamespaces } from "../reference/references.ts";
import { type ReferringObject, referrerOf } from "../reference/reference-grants.ts";
import { notPermitted } from "../reference/resolution.ts";
import { type BackendState, resolveBackend } from "./backend-resource.ts";
import { type ResolvedTlsPolicies, type TlsPolicyState, tlsStatesByService } from "./backend-tls.ts";
import { resolutionForGrpc } from "./grpc-backend.ts";
import { hasProviders, resolveProviders } from "./provider-list.ts";
import {
  appProtocolOf,
  areWithinBudgets,
  type BackendResolution,
  newServiceBudgets,
  noSlices,
  resolveService,
  type ServiceContext,
  type Transport,
  wantedOf,
} from "./service-backend.ts";
import { resolutionForStreams } from "./stream-backend.ts";

/** Resolves all Backends, sorted by name. Those with a list of providers need the others. */
export function* resolveBackends(context: TranslationContext): Steps<readonly BackendState[]> {
  const { Backend: resources } = context.index.resources;
  const single = resources.filter((resource) => !hasProviders(resource));
  const resolved = yield* eachObject(single, itself, (resource) =>
    keptState(resource, resolveBackend(context, resource)),
  );
  const states = new Map(resolved.map((state) => [nameKey(state.resource), state]));
  const lists = yield* eachObject(resources.filter(hasProviders), itself, (resource) =>
    keptState(resource, resolveProviders(context, resource, states)),
  );
  for (const state of lists) states.set(nameKey(state.resource), state);
  return sortByName(resources).flatMap((resource) => states.get(nameKey(resource)) ?? []);
}

/** Rules that refer to an unchanged Backend stay as they are. */
const keptState = keepingEqual<BackendState>();

/** The references of a translation to backends, which share a budget of endpoints. */
export class BackendReferences {
  readonly #context: TranslationContext;
  readonly #services: ServiceContext;
  /** Whether no reference can exceed the budgets, so that `want` need not be called. */
  readonly hasAmpleBudgets: boolean;
  readonly #states: readonly BackendState[];
  readonly #tlsPolicies: ResolvedTlsPolicies["policies"];
  readonly #wantedPorts = new Set<string>();
  /** By service and port, since many routes refer to the same. */
  readonly #resolvedPorts = new Map<string, BackendResolution>();

  constructor(context: TranslationContext, tlsPolicies: ResolvedTlsPolicies, backends: readonly BackendState[]) {
    const { addressDenial, index } = context;
    const { tlsOf, policies } = tlsPolicies;
    this.#context = context;
    this.hasAmpleBudgets = areWithinBudgets(index.slices, index.services);
    const budgets = this.hasAmpleBudgets ? ampleBudgets : newServiceBudgets();
    this.#services = { tlsOf, addressDenial, ...budgets };
    this.#states = sameList(backends);
    this.#tlsPolicies = sameList(policies);
  }

  /** Adds a reference to the demand of endpoints, which namespaces share. To be called before any call of `resolve`. */
  want(from: ReferringObject, ref: BackendReference): void {
    const { namespace = from.metadata.namespace, group, kind, name } = ref;
    if (group !== "" || kind !== "Service") return;
    const { services, slices, isPermitted } = this.#context.index;
    const { key, place } = namesOf(ref, namespace, transportOf(from));
    if (this.#wantedPorts.has(place) || !services.has(key)) return;
    const isWithin = namespace === from.metadata.namespace;
    if (!isWithin && !isPermitted(referrerOf(from), { group, kind, namespace, name })) return;
    this.#wantedPorts.add(place);
    const wanted = wantedOf(slices.get(key) ?? noSlices);
    this.#services.endpointBudget.want(namespace, wanted.endpoints);
    this.#services.scanBudget.want(namespace, wanted.entries);
  }

  /**
   * Returns values on which the resolutions of all references of some routes depend: while they are the same values, so
   * are the resolutions. Returns the same list for the same values.
   */
  inputsOf(routes: readonly AnyRoute[]): readonly unknown[] {
    const { index, addressDenial } = this.#context;
    const referents = this.hasAmpleBudgets
      ? referentsAmong(index.services, index.slices, this.#states, this.#tlsPolicies)(routes)
      : undefined;
    const settings = [crossesNamespaces(routes) ? index.isPermitted : undefined, addressDenial];
    return keptInputs(routes, [...settings, ...(referents ?? [...this.#resolutions(routes), this.#tlsPolicies])]);
  }

  /** A budget is a state, and the message of a reference to nothing may suggest a name. */
  #resolutions(routes: readonly AnyRoute[]): readonly unknown[] {
    return routeReferences(routes).map(({ route, ref }) => inputOf(this.resolve(route, ref)));
  }

  /** Resolves a backendRef: of a rule, of a mirror, or of a policy. */
  resolve(from: ReferringObject, ref: BackendReference): BackendResolution {
    const { namespace = from.metadata.namespace, group, kind, name } = ref;
    const isKnown = (group === "" && kind === "Service") || (group === proxyGroup && kind === "Backend");
    if (!isKnown) {
      const message = `kind ${kind} (group "${group}") is not a backend, accepted are Service and Backend (group "${proxyGroup}")`;
      return { kind: "unresolved", reason: "InvalidKind", message };
    }
    // This is checked before anything is resolved, so that the result reveals nothing of the other namespace.
    const to = { group, kind, namespace, name };
    const isWithin = namespace === from.metadata.namespace;
    if (!isWithin && !this.#context.index.isPermitted(referrerOf(from), to)) return notPermitted(to);
    const resolution = this.#resolvePermitted(from, namespace, ref);
    if (from.kind === "GRPCRoute") return resolutionForGrpc(resolution, this.#appProtocolOf(namespace, ref));
    return isStreamRouteKind(from.kind) ? resolutionForStreams(resolution, transportOf(from)) : resolution;
  }

  /** Returns the providers of a backend with a list of them; the same list for the same Backend. */
  providersOf(resolution: BackendResolution): readonly Backend[] | undefined {
    if (!("value" in resolution) || resolution.value.failover === undefined) return undefined;
    return statesByName(this.#states).get(objectKey(resolution.value))?.providers;
  }

  #appProtocolOf(namespace: string, { kind, name, port }: BackendReference): string | undefined {
    if (kind !== "Service" || port === undefined) return undefined;
    return appProtocolOf(this.#context.index.services.get(objectKey({ namespace, name })), port);
  }

  /** Resolves a reference of a supported kind. */
  #resolvePermitted(from: ReferringObject, namespace: string, ref: BackendReference): BackendResolution {
    const { kind, port } = ref;
    const { index, hints } = this.#context;
    const transport = transportOf(from);
    const { key, place } = namesOf(ref, namespace, transport);
    const missing = (known: ReadonlyMap<string, unknown>): BackendResolution => {
      // A grant for one object of another namespace must not reveal the names of others.
      const hint =
        namespace === from.metadata.namespace ? hints.of(namespace, kind, key, namesIn(namespace, known)) : "";
      const message = `${kind} ${key} does not exist${hint}`;
      return { kind: "unresolved", reason: "BackendNotFound", message, code: "ReferentNotFound" };
    };
    if (kind === "Backend") return statesByName(this.#states).get(key)?.resolution ?? missing(index.backends);
    const service = index.services.get(key);
    if (service === undefined || port === undefined) return missing(index.services);
    const known = this.#resolvedPorts.get(place);
    if (known !== undefined) return known;
    const slices = index.slices.get(key) ?? noSlices;
    const resolution = attributing(service, () => resolveService(service, { port, transport }, slices, this.#services));
    this.#resolvedPorts.set(place, resolution);
    return resolution;
  }
}

/** A reference of a route to a backend. */
export interface RouteReference {
  readonly route: AnyRoute;
  readonly ref: BackendReference;
  /** `namespace/name` of the referent. */
  readonly key: string;
}

/** Returns the references of routes, without those that have the same result as another one. */
export const routeReferences = memoised((routes: readonly AnyRoute[]): readonly RouteReference[] => {
  const distinct = new Map<string, RouteReference>();
  for (const route of routes) {
    for (const ref of backendRefsOf(route)) {
      const { namespace = route.metadata.namespace, group, kind, name, port } = ref;
      const key = objectKey({ namespace, name });
      const place = JSON.stringify([route.kind, route.metadata.namespace, group, kind, key, port]);
      if (!distinct.has(place)) distinct.set(place, { route, ref, key });
    }
  }
  return [...distinct.values()];
});

/** The last inputs of the references of each page. */
const keptInputs = keepingEqual<readonly unknown[]>(hasSameItems);

/**
 * Returns a function that returns the referents of a page, with what decides on how they are resolved; undefined if one
 * does not exist. Nothing of it keeps replaced versions of the maps, which are as large as the cluster.
 */
const referentsAmong = memoisedWith(
  (
    services: ResourceIndex["services"],
    slices: ResourceIndex["slices"],
    states: readonly BackendState[],
    tlsPolicies: readonly TlsPolicyState[],
  ) =>
    memoised((routes: readonly AnyRoute[]): readonly unknown[] | undefined => {
      const referents: unknown[] = [];
      const tlsStates = runToEnd(tlsStatesByService(tlsPolicies));
      for (const { route, ref, key } of routeReferences(routes)) {
        const referent = ref.kind === "Service" ? services.get(key) : statesByName(states).get(key);
        if (referent === undefined) return undefined;
        referents.push(referent, slices.get(key));
        if (tlsStates.size === 0) continue;
        // Few Services have policies, and a page may have thousands of references.
        for (const name of [key, anyNameIn(ref.namespace ?? route.metadata.namespace)]) {
          const policies = tlsStates.get(name);
          if (policies !== undefined) referents.push(policies);
        }
      }
      return referents;
    }),
);

const statesByName = memoised(
  (states: readonly BackendState[]) => new Map(states.map((state) => [nameKey(state.resource), state])),
);

/** A resolution to nothing is another object each time. */
function inputOf(resolution: BackendResolution): unknown {
  return "value" in resolution ? resolution : resolution.message;
}

const ampleBudgets = { endpointBudget: ampleBudget, scanBudget: ampleBudget };

/** Returns how the backends of an object are called. */
function transportOf({ kind }: ReferringObject): Transport {
  return kind === "UDPRoute" ? "UDP" : "TCP";
}

/**
 * The names of the referent: `namespace/name`, and a key of its port. A Service may have the same port for TCP and UDP.
 * A tenant may have hundreds of thousands of references, so that nothing is kept for each.
 */
function namesOf({ name, port }: BackendReference, namespace: string, transport: Transport) {
  const key = objectKey({ namespace, name });
  return { key, place: `${key}:${port}/${transport}` };
}
