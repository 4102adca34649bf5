/**
 * What the proxies of a Gateway may read: kinds without secrets by a ClusterRole that all Gateways share, and of Secrets
 * and ConfigMaps exactly those that the Gateway's resources name, by a Role in the namespace of each. The watch of one
 * object asks for a list with its name as a field selector, which a rule with resourceNames permits.
 */
import type { NamedObject } from "../../api/resource.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../../kube/object.ts";
import { ownedObject, type OwnedObject } from "./owned-object.ts";
import { labelsOf, metadataOf, type Tenant, tenantName } from "./workload.ts";

const read = ["list", "watch"];

/** Whose roles they are. */
export type RoleHolder = Pick<Tenant, "gateway" | "uid" | "defaults">;

/** @param named what the Gateway's resources name, and may. */
export function rolesOf(tenant: RoleHolder, named: readonly NamedObject[]): readonly OwnedObject[] {
  const namespaces = [...new Set(named.map(({ namespace }) => namespace))].sort();
  return [
    clusterBinding(tenant),
    ...namespaces.flatMap((namespace) =>
      roleIn(
        tenant,
        namespace,
        named.filter((object) => object.namespace === namespace),
      ),
    ),
  ];
}

/**
 * A name unlike that of any other Gateway's, for objects that are not in the Gateway's namespace. Names of namespaces
 * have no colon, those of roles may: `a-b` and `web` are not `a` and `b-web`.
 */
function foreignName({ gateway }: RoleHolder): string {
  return `gateway-proxy:${gateway.metadata.namespace}:${tenantName(gateway)}`;
}

function subjectsOf({ gateway }: RoleHolder): readonly object[] {
  return [{ kind: "ServiceAccount", namespace: gateway.metadata.namespace, name: tenantName(gateway) }];
}

/** Belongs to the whole cluster, where no owner of a namespace can be named: we delete it ourselves. */
function clusterBinding(tenant: RoleHolder): OwnedObject {
  return ownedObject({
    kind: "ClusterRoleBinding",
    name: foreignName(tenant),
    metadata: { labels: labelsOf(tenant.gateway) },
    fields: { roleRef: roleRef("ClusterRole", tenant.defaults.clusterRole), subjects: subjectsOf(tenant) },
  });
}

function roleIn(tenant: RoleHolder, namespace: string, named: readonly NamedObject[]): readonly OwnedObject[] {
  const isOwn = namespace === tenant.gateway.metadata.namespace;
  const name = isOwn ? tenantName(tenant.gateway) : foreignName(tenant);
  // An owner must be of the same namespace.
  const metadata = isOwn ? metadataOf(tenant) : { labels: labelsOf(tenant.gateway) };
  const rules = [...ruleFor("secrets", "Secret", named), ...ruleFor("configmaps", "ConfigMap", named)];
  const binding = { roleRef: roleRef("Role", name), subjects: subjectsOf(tenant) };
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

/** What a Role of ours permits to read, by `objectKey`; nothing for any other object. */
export function objectsReadBy({ kind, metadata, rules }: KubeObject): readonly string[] {
  if (kind !== "Role") return [];
  const namespace = textOf(fieldsOf(metadata)["namespace"]);
  return objectsOf(rules).flatMap(({ resources, resourceNames }) => {
    const of = Array.isArray(resources) && resources[0] === "secrets" ? "Secret" : "ConfigMap";
    return Array.isArray(resourceNames)
      ? resourceNames.map((name) => objectKey({ kind: of, namespace, name: textOf(name) }))
      : [];
  });
}

/**
 * A Role as the API server has it, with no more than what may still be read; the Role itself where that is all of it,
 * undefined where it is nothing. Rules that we do not write are dropped.
 */
export function narrowedRole(role: OwnedObject, mayRead: (object: NamedObject) => boolean): OwnedObject | undefined {
  const { kind, namespace = "", name, body } = role;
  const all = objectsReadBy(body);
  const left = objectsOf(body["rules"]).flatMap(({ resources, resourceNames }) => {
    const names = Array.isArray(resourceNames) ? resourceNames.map(String) : [];
    const of = (resource: string, each: NamedObject["kind"]): readonly NamedObject[] =>
      Array.isArray(resources) && resources[0] === resource
        ? names.map((named) => ({ kind: each, namespace, name: named }))
        : [];
    return [...of("secrets", "Secret"), ...of("configmaps", "ConfigMap")].filter(mayRead);
  });
  if (left.length === 0) return undefined;
  if (left.length === all.length) return role;
  const { labels, ownerReferences } = fieldsOf(body["metadata"]);
  const metadata = { labels, ...(ownerReferences !== undefined && { ownerReferences }) };
  const rules = [...ruleFor("secrets", "Secret", left), ...ruleFor("configmaps", "ConfigMap", left)];
  return ownedObject({ kind, namespace, name, metadata, fields: { rules } });
}

/** `Secret namespace/name` */
export function objectKey({ kind, namespace, name }: NamedObject): string {
  return `${kind} ${namespace}/${name}`;
}

function roleRef(kind: "Role" | "ClusterRole", name: string): object {
  return { apiGroup: "rbac.authorization.k8s.io", kind, name };
}
