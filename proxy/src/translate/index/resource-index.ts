/** Lookups in a set of resources. Each is built when it is first used, once for everything that resolves references. */
import type { Backend } from "../../api/backend.ts";
import type { ConfigMap } from "../../api/config-map.ts";
import { type EndpointSlice, serviceNameLabel } from "../../api/endpoint-slice.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import type { ResourceSet } from "../../api/resource.ts";
import type { Secret } from "../../api/secret.ts";
import type { Service } from "../../api/service.ts";
import { gatewayOwnership, type Ownership } from "../gateway/gateway-classes.ts";
import { memoised } from "../memoised.ts";
import { type IsPermitted, referencePermissions } from "../reference/reference-grants.ts";
import { type NamespaceLabels, namespaceLabels } from "./namespaces.ts";
import { indexByName, sortByName } from "./object-names.ts";

/** Objects of one kind by `namespace/name`. */
export type ByName<T> = ReadonlyMap<string, T>;

/** The lookups. Maps of Services, Secrets and so on have `namespace/name` as their keys. */
export interface ResourceIndex {
  readonly resources: ResourceSet;
  /** By name, since classes belong to no namespace. */
  readonly classes: ReadonlyMap<string, GatewayClass>;
  /** Every Gateway, of any controller, sorted by namespace and name. */
  readonly gateways: ByName<Gateway>;
  readonly services: ByName<Service>;
  /** The slices of each Service, sorted by name. Slices without the label of a Service are omitted. */
  readonly slices: ByName<readonly EndpointSlice[]>;
  readonly backends: ByName<Backend>;
  readonly secrets: ByName<Secret>;
  readonly configMaps: ByName<ConfigMap>;
  /** Whether this controller implements a Gateway. */
  readonly ownershipOf: (gateway: Gateway) => Ownership;
  readonly labelsOf: NamespaceLabels;
  /** Whether a reference is within a namespace, or a ReferenceGrant permits it. */
  readonly isPermitted: IsPermitted;
}

/** Returns the same index for the same set, which must not change. */
export const indexResources: (resources: ResourceSet) => ResourceIndex = memoised(
  (resources) => new LazyIndex(resources),
);

class LazyIndex implements ResourceIndex {
  readonly resources: ResourceSet;
  #classes: ResourceIndex["classes"] | undefined;
  #gateways: ByName<Gateway> | undefined;
  #services: ByName<Service> | undefined;
  #slices: ByName<readonly EndpointSlice[]> | undefined;
  #backends: ByName<Backend> | undefined;
  #secrets: ByName<Secret> | undefined;
  #configMaps: ByName<ConfigMap> | undefined;
  #ownershipOf: ResourceIndex["ownershipOf"] | undefined;
  #labelsOf: NamespaceLabels | undefined;

  constructor(resources: ResourceSet) {
    this.resources = resources;
  }

  get classes(): ResourceIndex["classes"] {
    this.#classes ??= new Map(this.resources.GatewayClass.map((each) => [each.metadata.name, each]));
    return this.#classes;
  }

  get gateways(): ByName<Gateway> {
    this.#gateways ??= indexByName(sortByName(this.resources.Gateway));
    return this.#gateways;
  }

  get services(): ByName<Service> {
    this.#services ??= indexByName(this.resources.Service);
    return this.#services;
  }

  get slices(): ByName<readonly EndpointSlice[]> {
    this.#slices ??= indexSlices(this.resources.EndpointSlice);
    return this.#slices;
  }

  get backends(): ByName<Backend> {
    this.#backends ??= indexByName(this.resources.Backend);
    return this.#backends;
  }

  get secrets(): ByName<Secret> {
    this.#secrets ??= indexByName(this.resources.Secret);
    return this.#secrets;
  }

  get configMaps(): ByName<ConfigMap> {
    this.#configMaps ??= indexByName(this.resources.ConfigMap);
    return this.#configMaps;
  }

  get ownershipOf(): ResourceIndex["ownershipOf"] {
    this.#ownershipOf ??= gatewayOwnership(this.resources.GatewayClass);
    return this.#ownershipOf;
  }

  get labelsOf(): NamespaceLabels {
    this.#labelsOf ??= namespaceLabels(this.resources.Namespace);
    return this.#labelsOf;
  }

  get isPermitted(): IsPermitted {
    return referencePermissions(this.resources.ReferenceGrant);
  }
}

function indexSlices(slices: readonly EndpointSlice[]): ByName<readonly EndpointSlice[]> {
  const byService = new Map<string, EndpointSlice[]>();
  for (const slice of sortByName(slices)) {
    const { labels, namespace } = slice.metadata;
    const service = Object.hasOwn(labels, serviceNameLabel) ? labels[serviceNameLabel] : undefined;
    if (service === undefined) continue;
    const key = `${namespace}/${service}`;
    const known = byService.get(key);
    if (known === undefined) byService.set(key, [slice]);
    else known.push(slice);
  }
  return byService;
}
