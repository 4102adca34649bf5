/** The Secrets that a policy selects by labels. */
import { isLabelKey } from "../../api/authentication.ts";
import { selectedInStatus } from "../../api/selected-secrets.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { ResourceSet } from "../../api/resource.ts";
import type { Secret } from "../../api/secret.ts";
import { maxSelectedSecrets } from "../../api/selected-secrets.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { sortByAge } from "../index/object-names.ts";

/**
 * Returns the names of the Secrets that a policy selects.
 *
 * @param readsStatus true for a proxy, which may not list Secrets: the controller has written the names to the status.
 *   Otherwise the Secrets of the resources are all that exist.
 */
export function selectedNames(
  resources: Pick<ResourceSet, "Secret">,
  policy: ProxyPolicy,
  readsStatus: boolean,
): readonly string[] {
  if (selectorOf(policy) === undefined) return [];
  if (readsStatus) return selectedInStatus(policy.status);
  return selectedSecrets(resources, policy).map(({ metadata }) => metadata.name);
}

/** A selection of Secrets of a namespace by labels, for a process that may list Secrets. */
export interface SecretSelection {
  readonly namespace: string;
  /** In the syntax of the API server: `tier=customers`. */
  readonly labelSelector: string;
}

/** Selections of a namespace that are read, since each is a watch, or a list that is read again and again. */
export const maxSelections = 256;

/** Returns the selections of all policies, each once: those of the oldest policies of each namespace. */
export function secretSelections({ ProxyPolicy }: Pick<ResourceSet, "ProxyPolicy">): readonly SecretSelection[] {
  return [...readSelections(ProxyPolicy).values()];
}

/** Whether the Secrets that a policy selects are read: it is among the first ones of its namespace. */
export function isSelectionRead({ ProxyPolicy }: Pick<ResourceSet, "ProxyPolicy">, policy: ProxyPolicy): boolean {
  const selection = selectionOf(policy);
  return selection === undefined || readSelections(ProxyPolicy).has(keyOf(selection));
}

/** Returns the selections that are read, by key. */
const readSelections = memoised((policies: readonly ProxyPolicy[]): ReadonlyMap<string, SecretSelection> => {
  const distinct = new Map<string, SecretSelection>();
  for (const policy of sortByAge(policies)) {
    const selection = selectionOf(policy);
    if (selection !== undefined) distinct.set(keyOf(selection), selection);
  }
  const ofNamespaces = Map.groupBy(distinct, ([, { namespace }]) => namespace);
  return new Map([...ofNamespaces.values()].flatMap((own) => own.slice(0, maxSelections)));
});

function keyOf({ namespace, labelSelector }: SecretSelection): string {
  return `${namespace} ${labelSelector}`;
}

/** Returns the selection of a policy; undefined if it has none for the API server. */
const selectionOf = memoised((policy: ProxyPolicy): SecretSelection | undefined => {
  const labels = Object.entries(selectorOf(policy) ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  // Another key is reported, and is no selection for the API server.
  if (labels.length === 0 || !labels.every(([key]) => isLabelKey(key))) return undefined;
  const labelSelector = labels.map(([key, value]) => `${key}=${value}`).join(",");
  return { namespace: policy.metadata.namespace, labelSelector };
});

const byNamespace = memoised((secrets: readonly Secret[]) =>
  Map.groupBy(
    secrets.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)),
    ({ metadata }) => metadata.namespace,
  ),
);

type Labels = readonly (readonly [string, string])[];

/** Returns a function that selects Secrets of a namespace. Thousands of policies may have the same selector. */
const selectionIn = memoised((secrets: readonly Secret[]) => {
  const known = new Map<string, readonly Secret[]>();
  return (namespace: string, labels: Labels): readonly Secret[] => {
    const key = JSON.stringify([namespace, labels]);
    const selected = known.get(key) ?? select(secrets, namespace, labels);
    known.set(key, selected);
    return selected;
  };
});

/** Returns the labels of the selector of a policy; undefined if it selects no Secrets. */
export function selectorOf({ spec }: ProxyPolicy): Readonly<Record<string, string>> | undefined {
  return spec.traffic.authentication?.apiKeys?.secretSelector?.matchLabels;
}

/** Returns the known Secrets of the policy's namespace that have the labels of its selector, sorted by name. */
export function selectedSecrets({ Secret: all }: Pick<ResourceSet, "Secret">, policy: ProxyPolicy): readonly Secret[] {
  const selector = selectorOf(policy);
  if (selector === undefined) return [];
  const labels = Object.entries(selector).sort(([a], [b]) => (a < b ? -1 : 1));
  return selectionIn(all)(policy.metadata.namespace, labels);
}

function select(all: readonly Secret[], namespace: string, labels: Labels): readonly Secret[] {
  const selected: Secret[] = [];
  for (const secret of byNamespace(all).get(namespace) ?? []) {
    const own = secret.metadata.labels;
    if (labels.every(([key, value]) => Object.hasOwn(own, key) && own[key] === value)) selected.push(secret);
    if (selected.length === maxSelectedSecrets) break;
  }
  return selected;
}
