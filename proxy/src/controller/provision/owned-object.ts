/** The kinds of objects that are made for Gateways, and one such object. */
import { resourcePath, type ResourceType } from "../../kube/api.ts";
import { fieldsOf, isObject, type KubeObject } from "../../kube/object.ts";

const rbac = "rbac.authorization.k8s.io/v1";

/** Where objects of each kind are. */
export const ownedTypes = {
  ServiceAccount: { apiVersion: "v1", plural: "serviceaccounts" },
  ClusterRoleBinding: { apiVersion: rbac, plural: "clusterrolebindings" },
  Role: { apiVersion: rbac, plural: "roles" },
  RoleBinding: { apiVersion: rbac, plural: "rolebindings" },
  Service: { apiVersion: "v1", plural: "services" },
  Deployment: { apiVersion: "apps/v1", plural: "deployments" },
  PodDisruptionBudget: { apiVersion: "policy/v1", plural: "poddisruptionbudgets" },
  HorizontalPodAutoscaler: { apiVersion: "autoscaling/v2", plural: "horizontalpodautoscalers" },
  NetworkPolicy: { apiVersion: "networking.k8s.io/v1", plural: "networkpolicies" },
} as const satisfies Readonly<Record<string, ResourceType>>;

export type OwnedKind = keyof typeof ownedTypes;

/** All kinds, in the order in which they are made: what pods need before the pods. */
// Object.keys forgets the literal types of the table above.
export const ownedKinds = Object.keys(ownedTypes) as readonly OwnedKind[];

/** An object as we want it. */
export interface OwnedObject {
  readonly kind: OwnedKind;
  /** Undefined for objects of the whole cluster. */
  readonly namespace: string | undefined;
  readonly name: string;
  /** All of it, as server-side apply takes it. */
  readonly body: KubeObject;
}

export interface OwnedContent {
  readonly kind: OwnedKind;
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Fields beside the metadata. */
  readonly fields: KubeObject;
}

export function ownedObject({ kind, namespace, name, metadata, fields }: OwnedContent): OwnedObject {
  const named = { name, ...(namespace !== undefined && { namespace }) };
  const body = { apiVersion: ownedTypes[kind].apiVersion, kind, metadata: { ...named, ...metadata }, ...fields };
  return { kind, namespace, name, body };
}

/** Identity among all that is owned: `Role infra/web`. */
export function ownedKey({ kind, namespace, name }: Pick<OwnedObject, "kind" | "namespace" | "name">): string {
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${namespace}/${name}`;
}

export function ownedPath({ kind, namespace, name }: Pick<OwnedObject, "kind" | "namespace" | "name">): string {
  return resourcePath(ownedTypes[kind], namespace, name);
}

/**
 * Whether an object of the API server has every field that we want, as we want it. What else it has, by default or by
 * others, does not matter; lists must be as long as ours, whose items it completes.
 */
export function contains(standing: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(standing) &&
      standing.length === wanted.length &&
      wanted.every((item, index) => contains(standing[index], item))
    );
  }
  if (!isObject(wanted)) return standing === wanted;
  const fields = fieldsOf(standing);
  return Object.entries(wanted).every(
    ([name, value]) => value === undefined || contains(fields[name], value) || (isEmpty(value) && !(name in fields)),
  );
}

/**
 * What is to be seen of `wanted` in the object, by what the API server answered when it was applied: quantities are
 * written its way (`1000m` is `1`), and admission may have put another value in a field's place.
 */
export function asAnswered(answer: unknown, wanted: unknown): unknown {
  if (!isObject(answer)) return Array.isArray(answer) ? itemsAsAnswered(answer, wanted) : answer;
  if (!isObject(wanted)) return answer;
  return Object.fromEntries(Object.entries(wanted).map(([name, value]) => [name, asAnswered(answer[name], value)]));
}

function itemsAsAnswered(answer: readonly unknown[], wanted: unknown): readonly unknown[] {
  return Array.isArray(wanted) && wanted.length === answer.length
    ? wanted.map((item, index) => asAnswered(answer[index], item))
    : answer;
}

/** The API server leaves empty maps and lists out. */
function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
