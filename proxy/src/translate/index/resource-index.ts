/** Lookups in a set of resources. Each is built when it is first used, once for everything that resolves references. */
import type { Backend } from "../../api/backend.ts";
import type { ConfigMap } from "../../api/config-map.ts";
import { type EndpointSlice, serviceNameLabel } from "../../api/endpoint-slice.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import { type AnyRoute, type Resource, type ResourceSet, routesOf } from "../../api/resource.ts";
import type { Secret } from "../../api/secret.ts";
import type { Service } from "../../api/service.ts";
import { gatewayOwnership, type Ownership } from "../gateway/gateway-classes.ts";
import { groupedBy, type Pages, pagesBy, sortedBy } from "@gatewayproxy/runtime/lists";
import { memoised, sameList } from "@gatewayproxy/runtime/memoised";
import { routeKey, routeKinds } from "@gatewayproxy/runtime/route-key";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import { type IsPermitted, referencePermissions } from "../reference/reference-grants.ts";
import { type NamespaceLabels, namespaceLabels } from "./namespaces.ts";
import { compareAges, compareNames, indexedByName, nameKey, sortByName } from "./object-names.ts";

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
  /** All routes in the order of the Gateway API. A page stays the same list while none of its routes changes. */
  readonly routes: Pages<AnyRoute>;
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

/** Builds the lookups of kinds with thousands of objects, in a step or more for each. */
export function* prepareIndex(resources: ResourceSet): Steps<void> {
  const index = indexResources(resources);
  yield* slicesIn(index.resources.EndpointSlice);
  for (const build of [() => index.services, () => index.backends, () => index.routes]) {
    build();
    yield;
  }
}

/** Lookups of one kind, which stay as long as no object of the kind changes. */
const servicesIn = indexedByName<Service>();
const backendsIn = indexedByName<Backend>();
const secretsIn = indexedByName<Secret>();
const configMapsIn = indexedByName<ConfigMap>();
const gatewaysIn = memoised(
  (objects: readonly Gateway[]): ResourceIndex["gateways"] =>
    new Map(sortByName(objects).map((gateway) => [nameKey(gateway), gateway])),
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
    return runToEnd(slicesIn(this.resources.EndpointSlice));
  }

  get routes(): ResourceIndex["routes"] {
    return routePages(inPrecedence(routesOf(this.resources)));
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

/** Two routes of different kinds may have the same name and age. */
const inPrecedence = sortedBy<AnyRoute>(
  (a, b) => compareAges(a, b) || routeKinds.indexOf(a.kind) - routeKinds.indexOf(b.kind),
);
const routePages = pagesBy<AnyRoute>(({ kind, metadata }) => routeKey(kind, metadata));

const slicesIn = groupedBy(
  ({ metadata: { labels, namespace } }: EndpointSlice) =>
    Object.hasOwn(labels, serviceNameLabel) ? [`${namespace}/${labels[serviceNameLabel] ?? ""}`] : [],
  compareNames,
);
