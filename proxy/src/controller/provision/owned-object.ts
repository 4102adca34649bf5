/** The objects that the controller owns, and their kinds. */
import { createHash } from "node:crypto";
import { memoised, memoisedWith } from "@gatewayproxy/runtime/memoised";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { resourcePath, type ResourceType } from "../../kube/api.ts";
import { fieldsOf, isObject, type KubeObject, textOf } from "../../kube/object.ts";

const rbac = "rbac.authorization.k8s.io/v1";

/** The API resource of each kind. */
export const ownedTypes = {
  ServiceAccount: { apiVersion: "v1", plural: "serviceaccounts" },
  ClusterRoleBinding: { apiVersion: rbac, plural: "clusterrolebindings" },
  Role: { apiVersion: rbac, plural: "roles" },
  RoleBinding: { apiVersion: rbac, plural: "rolebindings" },
  Service: { apiVersion: "v1", plural: "services" },
  Deployment: { apiVersion: "apps/v1", plural: "deployments" },
  StatefulSet: { apiVersion: "apps/v1", plural: "statefulsets" },
  PodDisruptionBudget: { apiVersion: "policy/v1", plural: "poddisruptionbudgets" },
  HorizontalPodAutoscaler: { apiVersion: "autoscaling/v2", plural: "horizontalpodautoscalers" },
  NetworkPolicy: { apiVersion: "networking.k8s.io/v1", plural: "networkpolicies" },
} as const satisfies Readonly<Record<string, ResourceType>>;

/** A kind of `ownedTypes`. */
export type OwnedKind = keyof typeof ownedTypes;

/** All kinds, in the order in which objects are created: those that pods need come before what creates the pods. */
// The type of Object.keys is string[].
export const ownedKinds = Object.keys(ownedTypes) as readonly OwnedKind[];

/** Whether objects of a kind give a ServiceAccount permissions. */
export function isRightKind(kind: OwnedKind): boolean {
  return kind === "Role" || kind === "RoleBinding" || kind === "ClusterRoleBinding";
}

/** A desired object. */
export interface OwnedObject {
  readonly kind: OwnedKind;
  /** Undefined for objects of the whole cluster. */
  readonly namespace: string | undefined;
  readonly name: string;
  /** The whole object, for server-side apply. */
  readonly body: KubeObject;
  /** The object of the same namespace that stays until this one serves in its place. */
  readonly replaces?: { readonly kind: OwnedKind; readonly name: string };
}

/**
 * Returns the same list for the same bodies, and the same object for the same body: anyone may write thousands with the
 * label.
 */
export const observedObjects = memoisedWith((bodies: readonly KubeObject[], kind: OwnedKind) =>
  bodies.map((body) => observedObject(body, kind)),
);

const observedObject = memoisedWith((body: KubeObject, kind: OwnedKind): OwnedObject => {
  const { namespace, name } = fieldsOf(body["metadata"]);
  return { kind, namespace: typeof namespace === "string" ? namespace : undefined, name: textOf(name), body };
});

/** The content of an object for `ownedObject`. */
export interface OwnedContent {
  readonly kind: OwnedKind;
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Fields beside the metadata. */
  readonly fields: KubeObject;
}

/** Builds an object. */
export function ownedObject({ kind, namespace, name, metadata, fields }: OwnedContent): OwnedObject {
  const named = { name, ...(namespace !== undefined && { namespace }) };
  const body = { apiVersion: ownedTypes[kind].apiVersion, kind, metadata: { ...named, ...metadata }, ...fields };
  return { kind, namespace, name, body };
}

/** The annotation with the digest of the content that was applied last. */
const digestAnnotation = "gatewayproxy.dev/applied";

/**
 * Returns the object with the digest of its content in an annotation. A controller that starts can then tell from the
 * current object whether exactly this content was applied last.
 */
export function withDigest(object: OwnedObject): OwnedObject {
  const { metadata, ...fields } = object.body;
  const digest = createHash("sha256")
    .update(JSON.stringify([metadata, fields]))
    .digest("base64url");
  const annotations = { ...fieldsOf(fieldsOf(metadata)["annotations"]), [digestAnnotation]: digest };
  return { ...object, body: { ...object.body, metadata: { ...fieldsOf(metadata), annotations } } };
}

/** Returns the key of an owned object, such as `Role infra/web`. */
export const ownedKey = memoised(
  ({ kind, namespace, name }: Pick<OwnedObject, "kind" | "namespace" | "name">): string =>
    `${kind} ${objectKey({ namespace, name })}`,
);

/** Returns the API path of an owned object. */
export function ownedPath({ kind, namespace, name }: Pick<OwnedObject, "kind" | "namespace" | "name">): string {
  return resourcePath(ownedTypes[kind], namespace, name);
}

/**
 * Whether a current object has every desired field with its desired value. Further fields, from defaults or other
 * writers, are ignored. Lists must have the same length, and their items may have further fields.
 */
export function contains(current: unknown, desired: unknown): boolean {
  if (Array.isArray(desired)) {
    return (
      Array.isArray(current) &&
      current.length === desired.length &&
      desired.every((item, index) => contains(current[index], item))
    );
  }
  if (!isObject(desired)) return current === desired;
  const fields = fieldsOf(current);
  return Object.entries(desired).every(
    ([name, value]) => value === undefined || contains(fields[name], value) || (isEmpty(value) && !(name in fields)),
  );
}

/**
 * Returns the fields of `desired` with their values in the response to the apply. The API server normalises quantities
 * (`1000m` to `1`), and admission may change values.
 */
export function appliedFields(response: unknown, desired: unknown): unknown {
  if (!isObject(response)) return Array.isArray(response) ? appliedItems(response, desired) : response;
  if (!isObject(desired)) return response;
  return Object.fromEntries(
    Object.entries(desired).map(([name, value]) => [name, appliedFields(response[name], value)]),
  );
}

function appliedItems(response: readonly unknown[], desired: unknown): readonly unknown[] {
  return Array.isArray(desired) && desired.length === response.length
    ? desired.map((item, index) => appliedFields(response[index], item))
    : response;
}

/** Whether a value is an empty map or list. The API server omits these. */
function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
