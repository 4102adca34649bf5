/** The watched kinds and their paths: whole collections in all namespaces, or single objects by name. */
import { type Kind, kinds, type NamedObject } from "../../api/resource.ts";

/** Kinds that are watched by name: no process should need permission to read all Secrets of a cluster. */
type NamedKind = NamedObject["kind"];

/** Kinds that are watched as a whole. */
export type WholeKind = Exclude<Kind, NamedKind>;

const plurals: Readonly<Record<Kind, string>> = {
  GatewayClass: "gatewayclasses",
  Gateway: "gateways",
  ListenerSet: "listenersets",
  HTTPRoute: "httproutes",
  GRPCRoute: "grpcroutes",
  TLSRoute: "tlsroutes",
  TCPRoute: "tcproutes",
  UDPRoute: "udproutes",
  ReferenceGrant: "referencegrants",
  BackendTLSPolicy: "backendtlspolicies",
  Namespace: "namespaces",
  Service: "services",
  EndpointSlice: "endpointslices",
  Secret: "secrets",
  ConfigMap: "configmaps",
  Backend: "backends",
  ProxyPolicy: "proxypolicies",
};

// Object.keys loses the literal types of the table above.
/** All kinds that are watched as a whole. */
export const wholeKinds = (Object.keys(plurals) as Kind[]).filter(
  (kind): kind is WholeKind => kind !== "Secret" && kind !== "ConfigMap",
);

/**
 * Returns the collection paths of a kind over all namespaces, one for each accepted version, the preferred one first.
 */
export function collectionPaths(kind: WholeKind): readonly [string, ...string[]] {
  const { group, versions } = kinds[kind];
  const [first = "", ...rest] = versions.map((version) => `${rootOf(group, version)}/${plurals[kind]}`);
  return [first, ...rest];
}

/** Returns the name of the CustomResourceDefinition of a kind. */
export function definitionName(kind: WholeKind): string {
  return `${plurals[kind]}.${kinds[kind].group}`;
}

/** Returns the collection path of a kind in a namespace. */
export function namespacedPath(kind: NamedKind, namespace: string): string {
  return `${rootOf(kinds[kind].group, "v1")}/namespaces/${namespace}/${plurals[kind]}`;
}

function rootOf(group: string, version: string): string {
  return group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
}
