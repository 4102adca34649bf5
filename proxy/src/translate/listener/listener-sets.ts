/** Attaches ListenerSets to their Gateways (Gateway API `ListenerSet`, `GatewaySpec.allowedListeners`). */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { gatewayGroup } from "../../api/names.ts";
import { resourceKey } from "../../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../../api/resource-problem.ts";
import type { TranslationContext } from "../context.ts";
import { rejectedByParser } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";
import type { ListenerState } from "./listeners.ts";
import { allowsNamespace, type NamespaceLabels } from "../index/namespaces.ts";
import { nameKey, sortByAge } from "../index/object-names.ts";

/** A ListenerSet with a Gateway of this controller as its parent. */
export interface ListenerSetState {
  readonly set: ListenerSet;
  /** `namespace/name` of its Gateway. */
  readonly gateway: string;
  /** Why none of its listeners is served; empty if they are resolved individually. */
  readonly findings: readonly FindingOf<"ListenerSet">[];
  /** In the order of the set; empty if it is rejected. */
  readonly listeners: readonly ListenerState[];
}

/** A set before its listeners are resolved. */
export type PlacedSet = Omit<ListenerSetState, "listeners">;

/** The required state of a Gateway. */
interface Parent {
  readonly gateway: Gateway;
  readonly isAccepted: boolean;
}

/**
 * Finds the Gateway of each set, and whether the Gateway accepts it. A step for each set.
 *
 * @param ours the Gateways of this controller by `namespace/name`.
 * @returns sets in the order of their precedence, oldest first.
 */
export function* placeListenerSets(
  { index }: TranslationContext,
  ours: ReadonlyMap<string, Parent>,
): Steps<{ readonly value: readonly PlacedSet[]; readonly problems: readonly ResourceProblem[] }> {
  const placed: PlacedSet[] = [];
  const problems: ResourceProblem[] = [];
  for (const set of sortByAge(index.resources.ListenerSet)) {
    yield;
    const { kind, group, name, namespace = set.metadata.namespace } = set.spec.parentRef;
    const path = ["spec", "parentRef"];
    const gateway = objectKey({ namespace, name });
    if (kind !== "Gateway" || group !== gatewayGroup) {
      const message = `kind ${kind} (group "${group}") has no listeners, accepted is Gateway (group "${gatewayGroup}")`;
      problems.push(resourceProblem(resourceKey(set), [...path, "kind"], message));
      continue;
    }
    const parent = ours.get(gateway);
    if (parent !== undefined) {
      placed.push({ set, gateway, findings: findingsAt(set, parent, index.labelsOf) });
    } else if (!index.gateways.has(gateway)) {
      // No controller can write a status for a parent that does not exist.
      const message = `Gateway ${gateway} does not exist`;
      problems.push(resourceProblem(resourceKey(set), [...path, "name"], message, "ReferentNotFound"));
    }
  }
  return { value: placed, problems };
}

function findingsAt(set: ListenerSet, { gateway, isAccepted }: Parent, labels: NamespaceLabels): PlacedSet["findings"] {
  if (set.spec.listeners.length === 0) return [rejectedByParser];
  const path = ["spec", "parentRef"];
  // A namespace that is not allowed gets no other information about the Gateway. A Gateway that the parser rejected has
  // no known `allowedListeners`.
  const isKnown = gateway.spec.listeners.length > 0;
  const isReported = !isKnown || gateway.metadata.namespace === set.metadata.namespace;
  if (!allowsSet(gateway, set, labels) && !(isReported && !isAccepted)) {
    const message = `Gateway ${nameKey(gateway)} allows no ListenerSet of namespace ${set.metadata.namespace}`;
    return [{ reason: "NotAllowed", message, path }];
  }
  if (isAccepted) return [];
  return [{ reason: "ParentNotAccepted", message: `Gateway ${nameKey(gateway)} is not accepted`, path }];
}

/** Whether a Gateway allows ListenerSets of the namespace of a set. */
export function allowsSet({ metadata, spec }: Gateway, set: ListenerSet, labels: NamespaceLabels): boolean {
  const allowed = spec.allowedListeners?.namespaces ?? { from: "None" };
  return allowsNamespace(allowed, metadata.namespace, set.metadata.namespace, labels);
}

/** Whether the status of the set is accepted: at least one of its listeners is served. */
export function isAttachedSet({ findings, listeners }: ListenerSetState): boolean {
  return findings.length === 0 && listeners.some(({ isServable }) => isServable);
}
