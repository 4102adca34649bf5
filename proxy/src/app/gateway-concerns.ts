/**
 * Which objects of a cluster can concern the proxies of one Gateway. A problem of another tenant's object must neither
 * fill their log nor make an alert on their configuration fire. Pure.
 */
import { memoised } from "@gatewayproxy/runtime/memoised";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { gatewayGroup } from "../api/names.ts";
import { type ResourceSet, routesOf } from "../api/resource.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../kube/object.ts";
import type { GatewayName } from "../translate/gateway/gateway-scope.ts";

/**
 * Returns a predicate for objects, valid or not. Routes and ListenerSets concern a Gateway if they name it, and other
 * objects if the Gateway uses objects of their namespace. Objects of the whole cluster always do.
 *
 * @param selected the resources that the proxies of the Gateway use.
 */
export function concernsGateway(gateway: GatewayName, selected: ResourceSet): (object: KubeObject) => boolean {
  const key = objectKey(gateway);
  const parents = new Set([
    `Gateway ${key}`,
    ...selected.ListenerSet.map((set) => `ListenerSet ${objectKey(set.metadata)}`),
  ]);
  return ({ kind, metadata, spec }) => {
    const { namespace, name } = fieldsOf(metadata);
    if (typeof namespace !== "string") return true;
    const { parentRef, parentRefs } = fieldsOf(spec);
    switch (kind) {
      case "Gateway":
        return objectKey({ namespace, name: textOf(name) }) === key;
      case "ListenerSet":
        return parents.has(parentKey(fieldsOf(parentRef), namespace));
      case "HTTPRoute":
      case "GRPCRoute":
      case "TLSRoute":
      case "TCPRoute":
      case "UDPRoute":
        return objectsOf(parentRefs).some((ref) => parents.has(parentKey(ref, namespace)));
      default:
        return namespace === gateway.namespace || usedNamespaces(selected).has(namespace);
    }
  };
}

/** The namespaces of objects in use. Few clusters have objects with problems, so most need no such set. */
const usedNamespaces = memoised(({ ListenerSet, Backend, Service, ...others }: ResourceSet): ReadonlySet<string> => {
  const lists = [ListenerSet, routesOf(others), Backend, Service];
  return new Set(lists.flatMap((list) => list.map(({ metadata }) => metadata.namespace)));
});

function parentKey({ group = gatewayGroup, kind = "Gateway", ...ref }: KubeObject, ownNamespace: string): string {
  const namespace = textOf(ref["namespace"]) || ownNamespace;
  return group === gatewayGroup ? `${textOf(kind)} ${objectKey({ namespace, name: textOf(ref["name"]) })}` : "";
}
