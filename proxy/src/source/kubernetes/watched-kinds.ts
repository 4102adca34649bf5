/** Where the API server keeps each kind that is watched as a whole, in all namespaces. */
import { type Kind, kinds, type NamedObject } from "../../api/resource.ts";

/** Watched one by one, by name: nobody may read all Secrets of a cluster for the few that are named. */
type NamedKind = NamedObject["kind"];

export type WholeKind = Exclude<Kind, NamedKind>;

const plurals: Readonly<Record<Kind, string>> = {
  GatewayClass: "gatewayclasses",
  Gateway: "gateways",
  ListenerSet: "listenersets",
  HTTPRoute: "httproutes",
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

// Object.keys forgets the literal types of the table above.
export const wholeKinds = (Object.keys(plurals) as Kind[]).filter(
  (kind): kind is WholeKind => kind !== "Secret" && kind !== "ConfigMap",
);

/** Paths of a kind's collection over all namespaces, one for each version that we read, the preferred one first. */
export function collectionPaths(kind: WholeKind): readonly [string, ...string[]] {
  const { group, versions } = kinds[kind];
  const [first = "", ...rest] = versions.map((version) => `${rootOf(group, version)}/${plurals[kind]}`);
  return [first, ...rest];
}

/** Path of a namespace's objects of a kind. */
export function namespacedPath(kind: NamedKind, namespace: string): string {
  return `${rootOf(kinds[kind].group, "v1")}/namespaces/${namespace}/${plurals[kind]}`;
}

function rootOf(group: string, version: string): string {
  return group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
}
