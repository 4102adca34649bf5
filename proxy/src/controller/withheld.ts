/**
 * Corrects the statuses of objects whose Secrets and ConfigMaps the proxies may not read, because the controller could
 * not write the Role or RoleBinding: the translation resolves such a reference, but the proxies cannot. Pure.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../api/gateway.ts";
import type { ResourceSet } from "../api/resource.ts";
import type { Condition, ListenerStatus, Statuses } from "../api/status.ts";
import { validationOf } from "../translate/tls/listener-tls.ts";
import type { Reference } from "../translate/reference/owner-references.ts";
import { isConfigMap, isSecret, type ListenerOwner, reference } from "../translate/reference/owner-references.ts";
import { nameKey } from "../translate/index/object-names.ts";
import { referencesOfBackend } from "../translate/reference/references.ts";
import { ownerKey } from "./provision/names.ts";
import type { ProvisionErrors } from "./provision/provisioner.ts";
import { referentKey } from "./provision/roles.ts";

type Withheld = ProvisionErrors["withheld"];

type StatusesWithReferences = Pick<Statuses, "gateways" | "listenerSets" | "backendTlsPolicies" | "backends">;

/** Returns the statuses with `ResolvedRefs` or `Accepted` set to False if proxies may not read a referenced object. */
export function* withWithheldRights<T extends StatusesWithReferences>(
  statuses: T,
  resources: ResourceSet,
  withheld: Withheld,
): Steps<T> {
  if (withheld.size === 0) return statuses;
  const gateways = new Map(resources.Gateway.map((each) => [nameKey(each), each]));
  const sets = new Map(resources.ListenerSet.map((each) => [nameKey(each), each]));
  const policies = new Map(resources.BackendTLSPolicy.map((each) => [nameKey(each), each]));
  const backends = new Map(resources.Backend.map((each) => [nameKey(each), each]));
  return {
    ...statuses,
    gateways: yield* mapInSteps(statuses.gateways, (status) => {
      const gateway = gateways.get(objectKey(status));
      const ref = gateway?.spec.tls?.backend?.clientCertificateRef;
      if (gateway === undefined) return status;
      const errors = errorsOf(ref === undefined ? [] : [referenceOf(gateway, ref)], [ownerKey(status)], withheld);
      const conditions = withUnresolvedRefs(status.conditions, "InvalidClientCertificateRef", errors);
      return { ...status, conditions, listeners: listenersWithErrors(status.listeners, gateway, gateway, withheld) };
    }),
    listenerSets: yield* mapInSteps(statuses.listenerSets, (status) => {
      const set = sets.get(objectKey(status));
      if (set === undefined) return status;
      const { name, namespace = set.metadata.namespace } = set.spec.parentRef;
      const gateway = gateways.get(objectKey({ namespace, name }));
      if (gateway === undefined) return status;
      return { ...status, listeners: listenersWithErrors(status.listeners, set, gateway, withheld) };
    }),
    backendTlsPolicies: yield* mapInSteps(statuses.backendTlsPolicies, (status) => ({
      ...status,
      ancestors: status.ancestors.map((ancestor) => {
        const policy = policies.get(objectKey(status));
        const refs = (policy?.spec.validation?.caCertificateRefs ?? []).filter(isConfigMap);
        const references = refs.map((ref) => reference({ ...ref, namespace: status.namespace }, ref));
        const errors = errorsOf(references, [ownerKey(ancestor.ancestorRef)], withheld);
        return { ...ancestor, conditions: withUnresolvedRefs(ancestor.conditions, "InvalidCACertificateRef", errors) };
      }),
    })),
    backends: yield* mapInSteps(statuses.backends, (status) => {
      const backend = backends.get(objectKey(status));
      const errors = errorsOf(backend === undefined ? [] : referencesOfBackend(backend), withheld.keys(), withheld);
      if (errors.length === 0) return status;
      const conditions = status.conditions.map((condition) =>
        condition.status === "True"
          ? { ...condition, status: "False" as const, reason: "InvalidSecretRef" as const, message: joinSome(errors) }
          : condition,
      );
      return { ...status, conditions };
    }),
  };
}

/** @param gateway the Gateway whose proxies serve the listeners, and whose `spec.tls.frontend` applies to them. */
function listenersWithErrors(
  statuses: readonly ListenerStatus[],
  owner: ListenerOwner,
  gateway: Gateway,
  withheld: Withheld,
): readonly ListenerStatus[] {
  const gatewayKey = ownerKey(gateway.metadata);
  return statuses.map((status) => {
    const listener = owner.spec.listeners.find(({ name }) => name === status.name);
    if (listener?.protocol !== "HTTPS") return status;
    const certificates = (listener.tls?.certificateRefs ?? []).filter(isSecret).map((ref) => referenceOf(owner, ref));
    const authorities = (validationOf(gateway, listener.port)?.refs ?? []).filter(isConfigMap);
    const clientAuthorities = authorities.map((ref) => referenceOf(gateway, ref));
    const { conditions } = status;
    const withCertificates = withUnresolvedRefs(
      conditions,
      "InvalidCertificateRef",
      errorsOf(certificates, [gatewayKey], withheld),
    );
    const withAuthorities = withUnresolvedRefs(
      withCertificates,
      "InvalidCACertificateRef",
      errorsOf(clientAuthorities, [gatewayKey], withheld),
    );
    return { ...status, conditions: withAuthorities };
  });
}

function referenceOf(owner: ListenerOwner, ref: Parameters<typeof reference>[1]): Reference {
  return reference({ group: "", kind: owner.kind, namespace: owner.metadata.namespace }, ref);
}

/** @param gateways by `ownerKey`. */
function errorsOf(references: readonly Reference[], gateways: Iterable<string>, withheld: Withheld): readonly string[] {
  const keys = new Set(
    references.flatMap(({ to: { kind, namespace, name } }) =>
      kind === "Secret" || kind === "ConfigMap" ? [referentKey({ kind, namespace, name })] : [],
    ),
  );
  const errors = Array.from(gateways, (gateway) =>
    Array.from(keys, (key) => {
      const error = withheld.get(gateway)?.get(key);
      return error === undefined
        ? []
        : `proxies of Gateway ${gateway} cannot read ${key}: ${error}. The controller must be able to write the Role and RoleBinding that permit it`;
    }),
  );
  return [...new Set(errors.flat(2))];
}

/** Adds the errors to `ResolvedRefs`, after the messages that it has already. */
function withUnresolvedRefs<C extends Condition>(
  conditions: readonly C[],
  reason: C["reason"],
  errors: readonly string[],
): readonly C[] {
  if (errors.length === 0) return conditions;
  return conditions.map((condition) => {
    if (condition.type !== "ResolvedRefs") return condition;
    if (condition.status === "True") return { ...condition, status: "False", reason, message: joinSome(errors) };
    return { ...condition, message: joinSome([condition.message, ...errors]) };
  });
}
