/** The kinds of resources that the gateway reads. A new kind is one file with its schema and one line here. */
import { joined } from "@gatewayproxy/runtime/lists";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import { type Backend, backendSchema } from "./backend.ts";
import { type BackendTlsPolicy, backendTlsPolicySchema, rejectedTlsPolicy } from "./backend-tls-policy.ts";
import { type ConfigMap, configMapSchema } from "./config-map.ts";
import { type EndpointSlice, endpointSliceSchema } from "./endpoint-slice.ts";
import { type Gateway, gatewaySchema, rejectedGateway } from "./gateway.ts";
import { type GatewayClass, gatewayClassSchema, rejectedGatewayClass } from "./gateway-class.ts";
import { type GrpcRoute, grpcRouteSchema } from "./grpc-route.ts";
import { type HttpRoute, httpRouteSchema } from "./http-route.ts";
import { type ListenerSet, listenerSetSchema, rejectedListenerSet } from "./listener-set.ts";
import { gatewayGroup, proxyGroup } from "./names.ts";
import { type Namespace, namespaceSchema } from "./namespace.ts";
import { type ProxyPolicy, proxyPolicySchema } from "./proxy-policy.ts";
import { rejectedProxyPolicy } from "./rejected-proxy-policy.ts";
import { type ReferenceGrant, referenceGrantSchema } from "./reference-grant.ts";
import { type Secret, secretSchema } from "./secret.ts";
import { type Service, serviceSchema } from "./service.ts";
import {
  type TcpRoute,
  tcpRouteSchema,
  type TlsRoute,
  tlsRouteSchema,
  type UdpRoute,
  udpRouteSchema,
} from "./stream-route.ts";

/** A parsed object of any of the kinds. */
export type Resource =
  | GatewayClass
  | Gateway
  | ListenerSet
  | HttpRoute
  | GrpcRoute
  | StreamRouteResource
  | ReferenceGrant
  | Namespace
  | Service
  | EndpointSlice
  | Secret
  | ConfigMap
  | BackendTlsPolicy
  | Backend
  | ProxyPolicy;

/** A route of any kind that requests can match. */
export type RouteResource = HttpRoute | GrpcRoute;

/** A route of any kind that relays streams: connections, or UDP sessions. */
export type StreamRouteResource = TlsRoute | TcpRoute | UdpRoute;

/** A route of any kind. */
export type AnyRoute = RouteResource | StreamRouteResource;

/** The name of a kind. */
export type Kind = Resource["kind"];
/** The resource type of a kind. */
export type ResourceOf<K extends Kind> = Extract<Resource, { kind: K }>;

/** All resources in force, by kind. No two of one kind have the same namespace and name. */
export type ResourceSet = { readonly [K in Kind]: readonly ResourceOf<K>[] };

/** The name of an object that is read only where another resource refers to it. */
export interface NamedObject {
  readonly kind: "Secret" | "ConfigMap";
  readonly namespace: string;
  readonly name: string;
}

const gatewayApi = { group: gatewayGroup, versions: ["v1", "v1beta1"] };
const core = { group: "", versions: ["v1"] };
const own = { group: proxyGroup, versions: ["v1alpha1"] };

/** API group, accepted versions and schema of each kind. */
export const kinds = {
  GatewayClass: { ...gatewayApi, schema: gatewayClassSchema },
  Gateway: { ...gatewayApi, schema: gatewaySchema },
  ListenerSet: { ...gatewayApi, schema: listenerSetSchema },
  HTTPRoute: { ...gatewayApi, schema: httpRouteSchema },
  GRPCRoute: { group: gatewayGroup, versions: ["v1"], schema: grpcRouteSchema },
  TLSRoute: { group: gatewayGroup, versions: ["v1", "v1alpha3", "v1alpha2"], schema: tlsRouteSchema },
  TCPRoute: { group: gatewayGroup, versions: ["v1", "v1alpha2"], schema: tcpRouteSchema },
  UDPRoute: { group: gatewayGroup, versions: ["v1", "v1alpha2"], schema: udpRouteSchema },
  ReferenceGrant: { ...gatewayApi, schema: referenceGrantSchema },
  Namespace: { ...core, schema: namespaceSchema },
  Service: { ...core, schema: serviceSchema },
  EndpointSlice: { group: "discovery.k8s.io", versions: ["v1"], schema: endpointSliceSchema },
  Secret: { ...core, schema: secretSchema },
  ConfigMap: { ...core, schema: configMapSchema },
  BackendTLSPolicy: { group: gatewayGroup, versions: ["v1"], schema: backendTlsPolicySchema },
  Backend: { ...own, schema: backendSchema },
  ProxyPolicy: { ...own, schema: proxyPolicySchema },
} as const;

/**
 * Returns the parts of a rejected object that stay in force where no valid version was ever seen (its remains). Without
 * them, objects that refer to it would be resolved, or served, as if it did not exist. Undefined where too little of
 * the object can be read. Other kinds have no remains.
 */
export const remainsOf: { readonly [K in Kind]?: (value: unknown) => ResourceOf<K> | undefined } = {
  GatewayClass: rejectedGatewayClass,
  Gateway: rejectedGateway,
  ListenerSet: rejectedListenerSet,
  BackendTLSPolicy: rejectedTlsPolicy,
  ProxyPolicy: rejectedProxyPolicy,
};

/** All kinds, in the order of the documentation. */
// Object.keys loses the literal types of the table above.
export const kindNames = Object.keys(kinds) as readonly Kind[];

/** Groups resources by kind and keeps their order. */
export function resourceSet(resources: Iterable<Resource>): ResourceSet {
  const byKind = new Map<Kind, Resource[]>(kindNames.map((kind) => [kind, []]));
  for (const resource of resources) byKind.get(resource.kind)?.push(resource);
  // Each list contains only resources of its own kind, as grouped above.
  return Object.fromEntries(byKind) as unknown as ResourceSet;
}

/** Returns the routes of all kinds; the same list for the same lists. */
export function routesOf(resources: Pick<ResourceSet, (typeof routeKinds)[number]>): readonly AnyRoute[] {
  return joined(routeKinds.map((kind): readonly AnyRoute[] => resources[kind]));
}

/** The host names of a route; empty for kinds without host names. */
export function hostnamesOf({ spec }: AnyRoute): readonly string[] {
  return "hostnames" in spec ? spec.hostnames : [];
}

/** The identity of an object in messages and maps: `HTTPRoute default/chat`, `Namespace default`. */
export type ResourceKey = string;

/** Returns the key of a parsed object. */
export function resourceKey({ kind, metadata }: Resource): ResourceKey {
  return renderKey(kind, "namespace" in metadata ? metadata.namespace : undefined, metadata.name);
}

/** Renders a key; the namespace is undefined for objects of the whole cluster. */
export function renderKey(kind: string, namespace: string | undefined, name: string): ResourceKey {
  return `${kind} ${objectKey({ namespace, name })}`;
}

/** Counts the objects of each kind; kinds without objects are absent. */
export function objectCounts(resources: ResourceSet): Readonly<Record<string, number>> {
  const counts = Object.entries(resources).map(([kind, objects]) => [kind, (objects as readonly unknown[]).length]);
  return Object.fromEntries(counts.filter(([, count]) => count !== 0)) as Record<string, number>;
}
