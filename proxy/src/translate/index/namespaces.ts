/** Selects namespaces by name or by labels (Gateway API `FromNamespaces`). */
import type { Namespace } from "../../api/namespace.ts";
import type { LabelSelector } from "../../api/schema.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";

/** The labels of a namespace. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Returns the labels of a namespace by its name: the same object each time, and in each plan with the same Namespace.
 */
export type NamespaceLabels = (namespace: string) => Labels;

/** The label that the API server sets on every namespace. In file mode, Namespace manifests are rare. */
const nameLabel = "kubernetes.io/metadata.name";

/** Returns the labels of each namespace; one without a manifest has only its name. */
export function namespaceLabels(namespaces: readonly Namespace[]): NamespaceLabels {
  const labels = new Map(namespaces.map((namespace) => [namespace.metadata.name, labelsOf(namespace)]));
  return (name) => {
    const known = labels.get(name);
    if (known !== undefined) return known;
    const all = { [nameLabel]: name };
    labels.set(name, all);
    return all;
  };
}

const labelsOf = memoised(({ metadata: { name, labels } }: Namespace): Labels => ({ ...labels, [nameLabel]: name }));

/** Returns the namespaces of some objects, each once. */
export const namespacesIn = memoised(
  (objects: readonly { readonly metadata: { readonly namespace: string } }[]): readonly string[] => [
    ...new Set(objects.map(({ metadata }) => metadata.namespace)),
  ],
);

/** The namespaces whose objects may attach. */
export interface AllowedNamespaces {
  readonly from: "All" | "Selector" | "Same" | "None";
  readonly selector?: LabelSelector | undefined;
}

/** @param own the namespace of the object to which others attach. */
export function allowsNamespace(
  { from, selector }: AllowedNamespaces,
  own: string,
  namespace: string,
  labels: NamespaceLabels,
): boolean {
  switch (from) {
    case "All":
      return true;
    case "None":
      return false;
    case "Same":
      return namespace === own;
    case "Selector":
      // The API requires a selector here. Without one, no namespace is selected, which is safe.
      return selector !== undefined && selects(selector, labels(namespace));
  }
}

/**
 * Whether a Kubernetes label selector matches labels. All its parts must match, and an empty selector matches
 * everything. A selector may have thousands of expressions and apply to thousands of objects, so it is evaluated once
 * per namespace.
 */
function selects(selector: LabelSelector, labels: Labels): boolean {
  const known = selected(selector).get(labels);
  if (known !== undefined) return known;
  const isSelected = evaluate(selector, labels);
  selected(selector).set(labels, isSelected);
  return isSelected;
}

const selected = memoised<LabelSelector, WeakMap<Labels, boolean>>(() => new WeakMap());

function evaluate(selector: LabelSelector, labels: Labels): boolean {
  const valueOf = (key: string) => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  const labelsMatch = Object.entries(selector.matchLabels ?? {}).every(([key, value]) => valueOf(key) === value);
  return (
    labelsMatch &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      const value = valueOf(key);
      switch (operator) {
        case "Exists":
          return value !== undefined;
        case "DoesNotExist":
          return value === undefined;
        case "In":
          return value !== undefined && values.includes(value);
        case "NotIn":
          return value === undefined || !values.includes(value);
      }
    })
  );
}
