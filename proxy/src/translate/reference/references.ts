/**
 * The objects to which resources refer, whether or not they exist. Everything that a reference leads to (a watch, a
 * Role, a status of the referent, an address) uses `permittedReferents`: a reference without a ReferenceGrant has no
 * effect.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend } from "../../api/backend.ts";
import type { BackendTlsPolicy } from "../../api/backend-tls-policy.ts";
import type { BackendReference } from "../../api/http-route-filter.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { gatewayGroup } from "../../api/names.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { AnyRoute, NamedObject, ResourceSet } from "../../api/resource.ts";
import { objectName } from "../../api/schema.ts";
import { attributing, eachObject, itself } from "../each-object.ts";
import { allowsSet } from "../listener/listener-sets.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { indexResources } from "../index/resource-index.ts";
import { selectedNames } from "./selected-secrets.ts";
import {
  isConfigMap,
  maxReferencesOfNamespace,
  type ListenerOwner,
  type Reference,
  reference,
  referencesOfOwner,
} from "./owner-references.ts";
import { type IsPermitted, type Referent, referrerOf } from "./reference-grants.ts";

/** Returns the referents, without those in another namespace for which there is no ReferenceGrant. */
export function permittedReferents(references: readonly Reference[], isPermitted: IsPermitted): readonly Referent[] {
  return references.flatMap(({ from, to }) => (isPermitted(from, to) ? [to] : []));
}

/**
 * Returns the references of a route to backends, including those of mirrors, each once. The result is memoised, since
 * it is needed for each Gateway of the route.
 */
export const referencesOfRoute = memoised((route: AnyRoute): readonly Reference[] => {
  const from = referrerOf(route);
  const distinct = new Map<string, Reference>();
  for (const each of backendRefsOf(route)) {
    const found = reference(from, each);
    const { group, kind: of, namespace, name } = found.to;
    distinct.set(`${group} ${of} ${namespace}/${name}`, found);
  }
  return [...distinct.values()];
});

/** Returns all references of a route's rules to backends, including those of mirrors. */
export const backendRefsOf = memoised(({ spec }: AnyRoute): readonly BackendReference[] => {
  const rules: readonly AnyRoute["spec"]["rules"][number][] = spec.rules;
  return rules.flatMap(refsOfRule);
});

/** Whether any of these routes refers to an object of another namespace, which needs a grant. */
export const crossesNamespaces = memoised((routes: readonly AnyRoute[]): boolean =>
  routes.some((route) =>
    backendRefsOf(route).some(({ namespace = route.metadata.namespace }) => namespace !== route.metadata.namespace),
  ),
);

/** Returns the references of a rule to backends, including those of mirrors; the same list for the same rule. */
export const refsOfRule = memoised((rule: AnyRoute["spec"]["rules"][number]): readonly BackendReference[] => {
  // Rules of streams have no filters.
  if (!("filters" in rule)) return rule.backendRefs;
  const { backendRefs, filters } = rule;
  const all = [...filters, ...backendRefs.flatMap((ref) => ref.filters)];
  const mirrors = all.flatMap((filter) => (filter.type === "RequestMirror" ? [filter.requestMirror.backendRef] : []));
  return [...backendRefs, ...mirrors];
});

/** Returns the reference of a policy to a rate limit service. */
export function referencesOfPolicy(policy: ProxyPolicy): readonly Reference[] {
  const ref = policy.spec.traffic.rateLimit.global?.backendRef;
  return ref === undefined ? [] : [reference(referrerOf(policy), ref)];
}

/** Options of `namedObjects`. */
export interface NamedObjectsOptions {
  /** As for `selectedNames`. Default: false. */
  readonly readsStatus?: boolean;
}

/**
 * Returns every Secret and ConfigMap to which the resources refer and are permitted to refer, each once. These do not
 * count: references to a kind that is not supported there (a Secret of authorities), Gateways of other classes, and
 * ListenerSets that no Gateway of this controller accepts.
 */
export function* namedObjects(
  resources: ResourceSet,
  options: NamedObjectsOptions = {},
): Steps<readonly NamedObject[]> {
  return (yield* namedWithinBound(resources, options)).named;
}

/** As `namedObjects`, with the namespaces whose objects refer to more Secrets and ConfigMaps than are read. */
export function* namedWithinBound(
  resources: ResourceSet,
  { readsStatus = false }: NamedObjectsOptions = {},
): Steps<{ readonly named: readonly NamedObject[]; readonly crowded: ReadonlySet<string> }> {
  const { ownershipOf, gateways: all, labelsOf, isPermitted } = indexResources(resources);
  const gateways = resources.Gateway.filter((gateway) => ownershipOf(gateway) === "ours");
  const bounded = new BoundedNames();
  const addOwner = (owner: ListenerOwner): void =>
    bounded.add(owner, readable(permittedReferents(referencesOfOwner(owner), isPermitted)));
  yield* eachObject(gateways, itself, addOwner, 1);
  const isServed = (set: ListenerSet): boolean => {
    const gateway = all.get(parentOf(set) ?? "");
    return gateway !== undefined && ownershipOf(gateway) === "ours" && allowsSet(gateway, set, labelsOf);
  };
  yield* eachObject(resources.ListenerSet, itself, (set) => (isServed(set) ? addOwner(set) : undefined), 1);
  for (const each of [...resources.BackendTLSPolicy, ...resources.Backend]) {
    bounded.add(
      each,
      attributing(each, () => namedLocally(each)),
    );
    yield;
  }
  for (const policy of resources.ProxyPolicy) {
    bounded.add(
      policy,
      attributing(policy, () => namedByPolicy(resources, policy, readsStatus)),
    );
    yield;
  }
  return { named: bounded.named, crowded: bounded.crowded };
}

/** Named objects, each once. Those of Gateways come first, then those of ListenerSets and of the other kinds. */
class BoundedNames {
  readonly #distinct = new Map<string, NamedObject>();
  readonly #counts = new Map<string, number>();
  readonly crowded = new Set<string>();

  /** @param from pays for the objects that are new: the namespace of a referent is the choice of others. */
  add(from: { readonly metadata: { readonly namespace: string } }, named: Named): void {
    const { namespace } = from.metadata;
    for (const [key, object] of named) {
      if (this.#distinct.has(key)) continue;
      const count = this.#counts.get(namespace) ?? 0;
      if (count === maxReferencesOfNamespace) {
        this.crowded.add(namespace);
        return;
      }
      this.#counts.set(namespace, count + 1);
      this.#distinct.set(key, object);
    }
  }

  get named(): readonly NamedObject[] {
    return [...this.#distinct.values()];
  }
}

/** Returns the Secrets and ConfigMaps of a policy's authentication, which are in its own namespace. */
function namedByPolicy(resources: ResourceSet, policy: ProxyPolicy, readsStatus: boolean) {
  const { namespace } = policy.metadata;
  const { jwt = [], apiKeys } = policy.spec.traffic.authentication ?? {};
  const configMaps = jwt.flatMap(({ jwks }) => jwks.configMapRef ?? []);
  const secrets = [
    ...(apiKeys?.secretRefs ?? []),
    ...selectedNames(resources, policy, readsStatus).map((name) => ({ name })),
  ];
  const referents = (kind: string, names: readonly { readonly name: string }[]): readonly Referent[] =>
    names.map(({ name }) => ({ group: "", kind, namespace, name }));
  return readable([...referents("ConfigMap", configMaps), ...referents("Secret", secrets)]);
}

/**
 * Returns the Secrets and ConfigMaps to which an object refers in its own namespace, which needs no grant. The result
 * is memoised, since it is needed for each Gateway with a route to the object.
 */
const namedLocally = memoised((object: BackendTlsPolicy | Backend) => {
  const references = object.kind === "Backend" ? referencesOfBackend(object) : ofTlsPolicy(object);
  return readable(references.map(({ to }) => to));
});

/** Objects by `kind namespace/name`. */
type Named = readonly (readonly [string, NamedObject])[];

/** Returns the Secrets and ConfigMaps among referents. */
function readable(referents: readonly Referent[]): Named {
  return referents.flatMap(({ kind, namespace, name }) => {
    const isRead = (kind === "Secret" || kind === "ConfigMap") && canExist(name);
    return isRead ? [[`${kind} ${namespace}/${name}`, { kind, namespace, name }] as const] : [];
  });
}

/** Returns `namespace/name` of the Gateway of a ListenerSet; undefined if its parent has another kind. */
export function parentOf({ metadata, spec: { parentRef } }: ListenerSet): string | undefined {
  if (parentRef.group !== gatewayGroup || parentRef.kind !== "Gateway") return undefined;
  return `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
}

/** References can have names of any form, and the API server would read some of them as a selector of other objects. */
function canExist(name: string): boolean {
  return objectName.safeParse(name).success;
}

function ofTlsPolicy(policy: BackendTlsPolicy): readonly Reference[] {
  const from = referrerOf(policy);
  return (policy.spec.validation?.caCertificateRefs ?? []).filter(isConfigMap).map((ref) => reference(from, ref));
}

/** The Secrets of a Backend. */
export function referencesOfBackend(backend: Backend): readonly Reference[] {
  const { spec } = backend;
  const from = referrerOf(backend);
  const secrets = [spec.static?.tls, spec.ai?.tls].flatMap((tls) => [tls?.caRef, tls?.clientCertificateRef]);
  return [...secrets, spec.ai?.auth?.secretRef].flatMap((ref) =>
    ref === undefined ? [] : [reference(from, { group: "", kind: "Secret", name: ref.name })],
  );
}
