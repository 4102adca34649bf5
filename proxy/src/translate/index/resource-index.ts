/** Lookups in a set of resources. Each is built when it is first used, once for everything that resolves references. */
import type { Backend } from "../../api/backend.ts";
import type { ConfigMap } from "../../api/config-map.ts";
import { type EndpointSlice, serviceNameLabel } from "../../api/endpoint-slice.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import type { Resource, ResourceSet } from "../../api/resource.ts";
import type { Secret } from "../../api/secret.ts";
import type { Service } from "../../api/service.ts";
import { gatewayOwnership, type Ownership } from "../gateway/gateway-classes.ts";
import { memoised, sameList } from "@gatewayproxy/runtime/memoised";
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

/** Returns the set with earlier lists where they have the same objects. */
function sharedLists(resources: ResourceSet): ResourceSet {
  const lists = Object.entries(resources).map(([kind, objects]) => [kind, sameList<Resource>(objects)]);
  // Each list has the objects that it had.
  return Object.fromEntries(lists) as ResourceSet;
}

/** Lookups of one kind, which stay as long as no object of the kind changes. */
const servicesIn = memoised((objects: readonly Service[]): ResourceIndex["services"] => indexByName(objects));
const slicesIn = memoised(indexSlices);
const backendsIn = memoised((objects: readonly Backend[]): ResourceIndex["backends"] => indexByName(objects));
const secretsIn = memoised((objects: readonly Secret[]): ResourceIndex["secrets"] => indexByName(objects));
const configMapsIn = memoised((objects: readonly ConfigMap[]): ResourceIndex["configMaps"] => indexByName(objects));
const gatewaysIn = memoised((objects: readonly Gateway[]): ResourceIndex["gateways"] =>
  indexByName(sortByName(objects)),
);
const classesIn = memoised(
  (objects: readonly GatewayClass[]): ResourceIndex["classes"] =>
    new Map(objects.map((each) => [each.metadata.name, each])),
);
const ownershipIn = memoised(gatewayOwnership);
const labelsIn = memoised(namespaceLabels);

class LazyIndex implements ResourceIndex {
  readonly resources: ResourceSet;

  constructor(resources: ResourceSet) {
    this.resources = sharedLists(resources);
  }

  get classes(): ResourceIndex["classes"] {
    return classesIn(this.resources.GatewayClass);
  }

  get gateways(): ResourceIndex["gateways"] {
    return gatewaysIn(this.resources.Gateway);
  }

  get services(): ResourceIndex["services"] {
    return servicesIn(this.resources.Service);
  }

  get slices(): ResourceIndex["slices"] {
    return slicesIn(this.resources.EndpointSlice);
  }

  get backends(): ResourceIndex["backends"] {
    return backendsIn(this.resources.Backend);
  }

  get secrets(): ResourceIndex["secrets"] {
    return secretsIn(this.resources.Secret);
  }

  get configMaps(): ResourceIndex["configMaps"] {
    return configMapsIn(this.resources.ConfigMap);
  }

  get ownershipOf(): ResourceIndex["ownershipOf"] {
    return ownershipIn(this.resources.GatewayClass);
  }

  get labelsOf(): ResourceIndex["labelsOf"] {
    return labelsIn(this.resources.Namespace);
  }

  get isPermitted(): ResourceIndex["isPermitted"] {
    return referencePermissions(this.resources.ReferenceGrant);
  }
}

function indexSlices(slices: readonly EndpointSlice[]): ByName<readonly EndpointSlice[]> {
  const byService = new Map<string, EndpointSlice[]>();
  for (const slice of slices) {
    const { labels, namespace } = slice.metadata;
    const service = Object.hasOwn(labels, serviceNameLabel) ? labels[serviceNameLabel] : undefined;
    if (service === undefined) continue;
    const key = `${namespace}/${service}`;
    const known = byService.get(key);
    if (known === undefined) byService.set(key, [slice]);
    else known.push(slice);
  }
  // The slices of a Service that has not changed are the same list.
  return new Map(Array.from(byService, ([key, own]) => [key, sameList(own.length === 1 ? own : sortByName(own))]));
}
