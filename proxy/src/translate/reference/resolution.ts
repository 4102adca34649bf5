/**
 * The result of a reference, and the resolution of references to Secrets and ConfigMaps. Permission is decided before
 * anything of the referent is read, so that the result reveals nothing of another namespace.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { renderKey, type ResourceKey } from "../../api/resource.ts";
import type { ProblemCode } from "../../api/resource-problem.ts";
import type { ConfigMap } from "../../api/config-map.ts";
import type { Secret } from "../../api/secret.ts";
import type { TranslationContext } from "../context.ts";
import { nameKey } from "../index/object-names.ts";
import type { CredentialResult } from "../tls/credentials.ts";
import {
  isWithinBound,
  type ListenerOwner,
  maxReferencesOfNamespace,
  maxReferencesOfOwner,
} from "./owner-references.ts";
import { type Referent, referrerOf } from "./reference-grants.ts";

/** The referent, or why there is none. `message` is a sentence that names the referent. */
export type Resolution<T, Reason extends string> =
  | {
      readonly kind: "resolved";
      readonly value: T;
      /** Which part of the referent is not used; absent if all of it is. */
      readonly limitation?: string;
    }
  /** The referent is malformed; this is its previous content. */
  | { readonly kind: "previous"; readonly value: T; readonly reason: Reason; readonly message: string }
  | {
      readonly kind: "unresolved";
      readonly reason: Reason;
      readonly message: string;
      /** As `ResourceProblem.code`. */
      readonly code?: ProblemCode | undefined;
    };

/** A reference to an object in the namespace of the referring one, or in another. */
interface NameReference {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/**
 * Resolves a reference of a Gateway or ListenerSet to a Secret.
 *
 * @param read returns the value of the Secret.
 * @param reason of a Secret that is missing or malformed.
 */
export function resolveSecret<T, Reason extends string>(
  context: TranslationContext,
  from: ListenerOwner,
  ref: NameReference,
  read: (secret: Secret) => CredentialResult<T>,
  reason: Reason,
): Resolution<T, Reason | "RefNotPermitted"> {
  const { namespace = from.metadata.namespace, name } = ref;
  const rejection = rejectionOf(context, from, { kind: "Secret", namespace, name }, reason);
  return rejection ?? readSecret(context, namespace, name, read, reason, from.metadata.namespace);
}

/** As `resolveSecret`, for a ConfigMap. */
export function resolveConfigMap<T, Reason extends string>(
  context: TranslationContext,
  from: ListenerOwner,
  ref: NameReference,
  read: (configMap: ConfigMap) => CredentialResult<T>,
  reason: Reason,
): Resolution<T, Reason | "RefNotPermitted"> {
  const { namespace = from.metadata.namespace, name } = ref;
  const rejection = rejectionOf(context, from, { kind: "ConfigMap", namespace, name }, reason);
  return rejection ?? readConfigMap(context, namespace, name, read, reason, from.metadata.namespace);
}

/**
 * Resolves a reference to a Secret in the namespace of the referring object, which needs no permission.
 *
 * @param referrer the namespace of the referring object, where it is another one.
 */
export function readSecret<T, Reason extends string>(
  context: TranslationContext,
  namespace: string,
  name: string,
  read: (secret: Secret) => CredentialResult<T>,
  reason: Reason,
  referrer: string = namespace,
): Resolution<T, Reason> {
  const secret = context.index.secrets.get(objectKey({ namespace, name }));
  const key = renderKey("Secret", namespace, name);
  return resolved(context, [referrer, namespace], key, secret && read(secret), reason);
}

/** As `readSecret`, for a ConfigMap. */
export function readConfigMap<T, Reason extends string>(
  context: TranslationContext,
  namespace: string,
  name: string,
  read: (configMap: ConfigMap) => CredentialResult<T>,
  reason: Reason,
  referrer: string = namespace,
): Resolution<T, Reason> {
  const configMap = context.index.configMaps.get(objectKey({ namespace, name }));
  const key = renderKey("ConfigMap", namespace, name);
  return resolved(context, [referrer, namespace], key, configMap && read(configMap), reason);
}

/**
 * @param namespaces of the referring object and of the referent.
 * @param result undefined if there is no object.
 */
function resolved<T, Reason extends string>(
  { unreadable, crowded }: TranslationContext,
  namespaces: readonly string[],
  key: ResourceKey,
  result: CredentialResult<T> | undefined,
  reason: Reason,
): Resolution<T, Reason> {
  if (result?.kind === "read") return { kind: "resolved", value: result.value };
  if (result?.kind === "previous") {
    return { kind: "previous", value: result.value, reason, message: `${key} ${result.error}` };
  }
  if (result !== undefined) return { kind: "unresolved", reason, message: `${key} ${result.error}` };
  if (unreadable.has(key)) {
    const message = `${key} must not be read: the verbs list and watch are not permitted`;
    return { kind: "unresolved", reason, message };
  }
  const full = namespaces.find((namespace) => crowded.has(namespace));
  if (full !== undefined) {
    const message = `${key} does not exist, or is not read: objects of namespace ${full} refer to more than ${maxReferencesOfNamespace} Secrets and ConfigMaps, or those of the namespace have more than 64 MiB`;
    return { kind: "unresolved", reason, message };
  }
  return { kind: "unresolved", reason, message: `${key} does not exist`, code: "ReferentNotFound" };
}

/** Returns why a referent is not read; undefined if it is. */
function rejectionOf<Reason extends string>(
  { index }: TranslationContext,
  owner: ListenerOwner,
  to: Omit<Referent, "group">,
  reason: Reason,
) {
  const { kind, namespace, name } = to;
  if (!index.isPermitted(referrerOf(owner), { group: "", ...to })) return notPermitted(to);
  if (isWithinBound(owner, kind, objectKey({ namespace, name }))) return undefined;
  const message = `${renderKey(kind, namespace, name)} is not read: ${owner.kind} ${nameKey(owner)} refers to more than ${maxReferencesOfOwner} different Secrets and ConfigMaps`;
  return { kind: "unresolved", reason, message } as const;
}

/**
 * Returns the result of a reference without a ReferenceGrant. The message does not reveal whether the referent exists.
 */
export function notPermitted({ kind, namespace, name }: Omit<Referent, "group">) {
  const message = `${kind} ${namespace}/${name} is in another namespace, and no ReferenceGrant there permits it`;
  return { kind: "unresolved", reason: "RefNotPermitted", message, code: "ReferenceNotPermitted" } as const;
}
