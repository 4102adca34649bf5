/**
 * The RBAC rights of a Gateway's proxies: a ClusterRole that all Gateways share permits kinds without secrets, and a
 * Role in each namespace permits exactly the Secrets and ConfigMaps to which the Gateway's resources refer. A watch of
 * one object has its name as a field selector, which a rule with resourceNames permits.
 */
import { type NamedObject, renderKey } from "../../api/resource.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../../kube/object.ts";
import { ownedObject, type OwnedObject } from "./owned-object.ts";
import { labelsOf, metadataOf, type ManagedGateway, workloadName } from "./workload.ts";

const read = ["list", "watch"];

/** The managed Gateway whose proxies get the roles. */
export type RoleHolder = Pick<ManagedGateway, "gateway" | "uid" | "defaults">;

/**
 * Returns the roles and bindings of a Gateway's proxies.
 *
 * @param named the objects to which the Gateway's resources refer, with permission.
 */
export function rolesOf(managed: RoleHolder, named: readonly NamedObject[]): readonly OwnedObject[] {
  const namespaces = [...new Set(named.map(({ namespace }) => namespace))].sort();
  return [
    clusterBinding(managed),
    ...namespaces.flatMap((namespace) =>
      roleIn(
        managed,
        namespace,
        named.filter((object) => object.namespace === namespace),
      ),
    ),
  ];
}

/**
 * Returns a name that is unique among all Gateways, for objects outside the Gateway's namespace. Names of namespaces
 * contain no colon, those of roles may: `a-b` and `web` differ from `a` and `b-web`.
 */
function nameOutsideNamespace({ gateway }: RoleHolder): string {
  return `gateway-proxy:${gateway.metadata.namespace}:${workloadName(gateway)}`;
}

function subjectsOf({ gateway }: RoleHolder): readonly object[] {
  return [{ kind: "ServiceAccount", namespace: gateway.metadata.namespace, name: workloadName(gateway) }];
}

/** A cluster-scoped object cannot have an owner in a namespace, so the controller deletes it itself. */
function clusterBinding(managed: RoleHolder): OwnedObject {
  return ownedObject({
    kind: "ClusterRoleBinding",
    name: nameOutsideNamespace(managed),
    metadata: { labels: labelsOf(managed.gateway) },
    fields: { roleRef: roleRef("ClusterRole", managed.defaults.clusterRole), subjects: subjectsOf(managed) },
  });
}

function roleIn(managed: RoleHolder, namespace: string, named: readonly NamedObject[]): readonly OwnedObject[] {
  const isOwn = namespace === managed.gateway.metadata.namespace;
  const name = isOwn ? workloadName(managed.gateway) : nameOutsideNamespace(managed);
  // An owner reference must be in the same namespace.
  const metadata = isOwn ? metadataOf(managed) : { labels: labelsOf(managed.gateway) };
  const rules = [...ruleFor("secrets", "Secret", named), ...ruleFor("configmaps", "ConfigMap", named)];
  const binding = { roleRef: roleRef("Role", name), subjects: subjectsOf(managed) };
  return [
    ownedObject({ kind: "Role", namespace, name, metadata, fields: { rules } }),
    ownedObject({ kind: "RoleBinding", namespace, name, metadata, fields: binding }),
  ];
}

function ruleFor(resource: string, kind: NamedObject["kind"], named: readonly NamedObject[]): readonly KubeObject[] {
  const names = new Set(named.filter((object) => object.kind === kind).map(({ name }) => name));
  if (names.size === 0) return [];
  return [{ apiGroups: [""], resources: [resource], resourceNames: [...names].sort(), verbs: read }];
}

/** Returns the objects that a Role of the controller permits to read, as `referentKey`; empty for other kinds. */
export function objectsReadBy({ kind, metadata, rules }: KubeObject): readonly string[] {
  if (kind !== "Role") return [];
  const namespace = textOf(fieldsOf(metadata)["namespace"]);
  return objectsOf(rules).flatMap(({ resources, resourceNames }) => {
    const kindOfRule = Array.isArray(resources) && resources[0] === "secrets" ? "Secret" : "ConfigMap";
    return Array.isArray(resourceNames)
      ? resourceNames.map((name) => referentKey({ kind: kindOfRule, namespace, name: textOf(name) }))
      : [];
  });
}

/**
 * Returns a current Role, restricted to the objects that may still be read: the same Role if all may be read, undefined
 * if none. Rules that the controller does not write are dropped.
 */
export function narrowedRole(role: OwnedObject, mayRead: (object: NamedObject) => boolean): OwnedObject | undefined {
  const { kind, namespace = "", name, body } = role;
  const all = objectsReadBy(body);
  const remaining = objectsOf(body["rules"]).flatMap(({ resources, resourceNames }) => {
    const names = Array.isArray(resourceNames) ? resourceNames.map(String) : [];
    const of = (resource: string, each: NamedObject["kind"]): readonly NamedObject[] =>
      Array.isArray(resources) && resources[0] === resource
        ? names.map((named) => ({ kind: each, namespace, name: named }))
        : [];
    return [...of("secrets", "Secret"), ...of("configmaps", "ConfigMap")].filter(mayRead);
  });
  if (remaining.length === 0) return undefined;
  if (remaining.length === all.length) return role;
  const { labels, ownerReferences } = fieldsOf(body["metadata"]);
  const metadata = { labels, ...(ownerReferences !== undefined && { ownerReferences }) };
  const rules = [...ruleFor("secrets", "Secret", remaining), ...ruleFor("configmaps", "ConfigMap", remaining)];
  return ownedObject({ kind, namespace, name, metadata, fields: { rules } });
}

/**
 * Returns a Role that permits no more than the current one, undefined if it would be the same. A binding is left as it
 * is: what it permits is unknown.
 */
export function withoutNewRights(desired: OwnedObject, current: KubeObject | undefined): OwnedObject | undefined {
  if (desired.kind !== "Role" || current === undefined) return undefined;
  const permitted = new Set(objectsReadBy(desired.body));
  const narrowed = narrowedRole({ ...desired, body: current }, (object) => permitted.has(referentKey(object)));
  if (narrowed !== undefined) return narrowed.body === current ? undefined : narrowed;
  return objectsReadBy(current).length === 0 ? undefined : { ...desired, body: { ...desired.body, rules: [] } };
}

/** Returns the key of an object, such as `Secret namespace/name`. */
export function referentKey({ kind, namespace, name }: NamedObject): string {
  return renderKey(kind, namespace, name);
}

function roleRef(kind: "Role" | "ClusterRole", name: string): object {
  return { apiGroup: "rbac.authorization.k8s.io", kind, name };
}
