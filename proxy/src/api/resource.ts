/** The resources we read: one entry per kind. A new kind is one file with its schema and one line here. */
import { type Backend, backendSchema } from "./backend.ts";
import { type BackendTlsPolicy, backendTlsPolicySchema, refusedTlsPolicy } from "./backend-tls-policy.ts";
import { type ConfigMap, configMapSchema } from "./config-map.ts";
import { type EndpointSlice, endpointSliceSchema } from "./endpoint-slice.ts";
import { type Gateway, gatewaySchema, refusedGateway } from "./gateway.ts";
import { type GatewayClass, gatewayClassSchema, refusedGatewayClass } from "./gateway-class.ts";
import { type HttpRoute, httpRouteSchema } from "./http-route.ts";
import { type ListenerSet, listenerSetSchema, refusedListenerSet } from "./listener-set.ts";
import { gatewayGroup, proxyGroup } from "./names.ts";
import { type Namespace, namespaceSchema } from "./namespace.ts";
import { type ProxyPolicy, proxyPolicySchema, refusedProxyPolicy } from "./proxy-policy.ts";
import { type ReferenceGrant, referenceGrantSchema } from "./reference-grant.ts";
import { type Secret, secretSchema } from "./secret.ts";
import { type Service, serviceSchema } from "./service.ts";

export type Resource =
  | GatewayClass
  | Gateway
  | ListenerSet
  | HttpRoute
  | ReferenceGrant
  | Namespace
  | Service
  | EndpointSlice
  | Secret
  | ConfigMap
  | BackendTlsPolicy
  | Backend
  | ProxyPolicy;

export type Kind = Resource["kind"];
export type ResourceOf<K extends Kind> = Extract<Resource, { kind: K }>;

/** Every resource that is in force, by kind; no two of one kind have the same namespace and name. */
export type ResourceSet = { readonly [K in Kind]: readonly ResourceOf<K>[] };

/** Names an object of a kind that is read one by one, where a resource refers to it. */
export interface NamedObject {
  readonly kind: "Secret" | "ConfigMap";
  readonly namespace: string;
  readonly name: string;
}

const gatewayApi = { group: gatewayGroup, versions: ["v1", "v1beta1"] };
const core = { group: "", versions: ["v1"] };
const ours = { group: proxyGroup, versions: ["v1alpha1"] };

/** How each kind is known and read. */
export const kinds = {
  GatewayClass: { ...gatewayApi, schema: gatewayClassSchema },
  Gateway: { ...gatewayApi, schema: gatewaySchema },
  ListenerSet: { ...gatewayApi, schema: listenerSetSchema },
  HTTPRoute: { ...gatewayApi, schema: httpRouteSchema },
  ReferenceGrant: { ...gatewayApi, schema: referenceGrantSchema },
  Namespace: { ...core, schema: namespaceSchema },
  Service: { ...core, schema: serviceSchema },
  EndpointSlice: { group: "discovery.k8s.io", versions: ["v1"], schema: endpointSliceSchema },
  Secret: { ...core, schema: secretSchema },
  ConfigMap: { ...core, schema: configMapSchema },
  BackendTLSPolicy: { group: gatewayGroup, versions: ["v1"], schema: backendTlsPolicySchema },
  Backend: { ...ours, schema: backendSchema },
  ProxyPolicy: { ...ours, schema: proxyPolicySchema },
} as const;

/**
 * What must be in force of an object that is refused and of which no version was ever sound, lest others be judged, or
 * served, as if it were not there. Undefined where too little of it can be read; of other kinds nothing remains.
 */
export const remainsOf: { readonly [K in Kind]?: (value: unknown) => ResourceOf<K> | undefined } = {
  GatewayClass: refusedGatewayClass,
  Gateway: refusedGateway,
  ListenerSet: refusedListenerSet,
  BackendTLSPolicy: refusedTlsPolicy,
  ProxyPolicy: refusedProxyPolicy,
};

/** All kinds, in the order in which people read about them. */
// Object.keys forgets the literal types of the table above.
export const kindNames = Object.keys(kinds) as readonly Kind[];

/** Sorts resources by kind; keeps their order. */
export function resourceSet(resources: Iterable<Resource>): ResourceSet {
  const byKind = new Map<Kind, Resource[]>(kindNames.map((kind) => [kind, []]));
  for (const resource of resources) byKind.get(resource.kind)?.push(resource);
  // Each list holds the resources of its own kind only: they were sorted by it above.
  return Object.fromEntries(byKind) as unknown as ResourceSet;
}

/** Identity in messages and maps: `HTTPRoute default/chat`, `Namespace default`. */
export type ResourceKey = string;

export function resourceKey({ kind, metadata }: Resource): ResourceKey {
  return renderKey(kind, "namespace" in metadata ? metadata.namespace : undefined, metadata.name);
}

export function renderKey(kind: string, namespace: string | undefined, name: string): ResourceKey {
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

/** How many objects of each kind there are, of those there are. */
export function objectCounts(resources: ResourceSet): Readonly<Record<string, number>> {
  const counts = Object.entries(resources).map(([kind, objects]) => [kind, (objects as readonly unknown[]).length]);
  return Object.fromEntries(counts.filter(([, count]) => count !== 0)) as Record<string, number>;
}
