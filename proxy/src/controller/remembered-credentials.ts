/**
 * What a controller that starts can know of credentials that became malformed before: the statuses that a previous
 * leader wrote say which previous content stays in force in the proxies. Without them the new leader would report
 * listeners as not programmed that are served. Pure.
 */
import type { Backend } from "../api/backend.ts";
import type { BackendTlsPolicy } from "../api/backend-tls-policy.ts";
import type { Gateway } from "../api/gateway.ts";
import type { ListenerSet } from "../api/listener-set.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import { renderKey, type ResourceKey, resourceKey, type ResourceSet } from "../api/resource.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../kube/object.ts";
import { indexResources } from "../translate/index/resource-index.ts";
import { referencesOfOwner } from "../translate/reference/owner-references.ts";
import type { IsPermitted } from "../translate/reference/reference-grants.ts";
import { permittedReferents } from "../translate/reference/references.ts";
import { type ValidCredentials, previousContentPhrase, previousPhrase } from "../translate/tls/credentials.ts";

/** A statement of a status. */
interface Remembered {
  /** The name of the previous content, such as `its previous certificate, valid until 2027-01-01T00:00:00Z,`. */
  readonly name: string;
  /** The time since which the condition has its status. */
  readonly since: string;
}

/**
 * Returns the credentials that stay in force by the statuses of Gateways, ListenerSets, BackendTLSPolicies, Backends
 * and ProxyPolicies. Their values are unknown, so they are of use for statuses only. An object that is younger than the
 * statement is another object of the same name.
 *
 * Messages contain texts of the author of an object, such as keys of options. A status therefore says nothing of
 * objects in other namespaces but of those to which its object may refer, and does.
 */
export function rememberedCredentials(resources: ResourceSet): ValidCredentials {
  const { Gateway, ListenerSet, BackendTLSPolicy, Backend, ProxyPolicy, Secret, ConfigMap } = resources;
  const { isPermitted } = indexResources(resources);
  const remembered = new Map(
    [Gateway, ListenerSet, BackendTLSPolicy, Backend, ProxyPolicy].flat().flatMap((object) => {
      const statements = conditionsIn(fieldsOf(object.status)).flatMap(statementsOf);
      return statements.length === 0 ? [] : statements.filter(([key]) => mayState(object, key, isPermitted));
    }),
  );
  const entries = <Version extends (typeof Secret)[number] | (typeof ConfigMap)[number], T>(
    objects: readonly Version[],
    value: T,
  ) =>
    new Map(
      objects.flatMap((version): [ResourceKey, { version: Version; value: T; name: string }][] => {
        const key = resourceKey(version);
        const { name, since } = remembered.get(key) ?? {};
        const { creationTimestamp } = version.metadata;
        if (name === undefined || since === undefined) return [];
        if (creationTimestamp !== undefined && Date.parse(creationTimestamp) > Date.parse(since)) return [];
        // A copy: credentials are read again if the object is not the same value.
        return [[key, { version: { ...version }, value, name }]];
      }),
    );
  const privateKey = { secret: "" };
  return {
    certificate: entries(Secret, { source: "", chain: "", privateKey, hostnames: [] }),
    keyPair: entries(Secret, { chain: "", privateKey }),
    authorities: entries([...Secret, ...ConfigMap], ""),
    apiKey: entries(Secret, ""),
    bedrock: entries(Secret, { apiKey: "" }),
    keySet: entries(ConfigMap, { keys: [] }),
  };
}

type StatingObject = Gateway | ListenerSet | BackendTlsPolicy | Backend | ProxyPolicy;

/** Whether the status of an object may say something of a Secret or ConfigMap. */
function mayState(object: StatingObject, key: ResourceKey, isPermitted: IsPermitted): boolean {
  const isOf = (namespace: string) => key.split(" ")[1]?.startsWith(`${namespace}/`) === true;
  if (isOf(object.metadata.namespace)) return true;
  // All others refer to their own namespace only.
  if (object.kind !== "Gateway" && object.kind !== "ListenerSet") return false;
  const referents = permittedReferents(referencesOfOwner(object), isPermitted);
  return referents.some(({ kind, namespace, name }) => renderKey(kind, namespace, name) === key);
}

/** Returns the conditions of a status, of its listeners and of its ancestors. */
function conditionsIn({ conditions, listeners, ancestors }: KubeObject): readonly KubeObject[] {
  const nested = [...objectsOf(listeners), ...objectsOf(ancestors)];
  return [...objectsOf(conditions), ...nested.flatMap((each) => objectsOf(each["conditions"]))];
}

/** Returns what a message says: `Secret infra/cert has no tls.key; its previous certificate stays in force where …`. */
function statementsOf({ message, lastTransitionTime }: KubeObject): readonly [ResourceKey, Remembered][] {
  const [first = "", ...rest] = textOf(message).split(`; ${previousPhrase}`);
  let before = first;
  return rest.flatMap((text) => {
    const key = lastKeyIn(before);
    before = text;
    const end = text.indexOf(previousContentPhrase);
    if (key === undefined || end === -1) return [];
    return [[key, { name: previousPhrase + text.slice(0, end), since: textOf(lastTransitionTime) }]];
  });
}

/** Returns the last `Secret namespace/name` or `ConfigMap namespace/name` of a text. */
function lastKeyIn(text: string): ResourceKey | undefined {
  const words = text.split(" ");
  const at = words.findLastIndex((word, index) => isKind(word) && (words[index + 1] ?? "").includes("/"));
  const kind = words[at]?.replace(/^\W+/, "");
  return at === -1 ? undefined : `${kind ?? ""} ${words[at + 1] ?? ""}`;
}

function isKind(word: string): boolean {
  return word.endsWith("Secret") || word.endsWith("ConfigMap");
}
