/**
 * Statuses of objects that the API server accepts and the parser rejects: a regular expression is not valid in RE2, or
 * a field is of a newer CustomResourceDefinition. The translation gets the last valid version instead, or the valid
 * rules of this version, its remains (`remainsOf`) or nothing, and the status reports which of these. Fields that
 * cannot be read are left out. Pure.
 */
import { memoised, memoisedWith } from "@gatewayproxy/runtime/memoised";
import type { RouteKind } from "@gatewayproxy/runtime/route-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderErrors } from "../api/rejected-resource.ts";
import {
  type BackendStatus,
  type BackendTlsPolicyStatus,
  type Condition,
  type GatewayClassStatus,
  isTrue,
  type ParentStatus,
  routeLists,
  type RouteStatus,
  type Statuses,
} from "../api/status.ts";
import { fieldsOf, objectsOf, textOf } from "../kube/object.ts";
import { withRejectedTargets } from "./rejected-targets.ts";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { identityOf, type NamespacedName, observedGenerationOf } from "./rejected-object.ts";
import { rejectedPolicyStatus } from "./rejected-policy.ts";

/** Replaces the statuses that the translation computed for rejected objects, one step per object. */
export function* withRejected(statuses: Statuses, rejected: readonly RejectedResource[]): Steps<Statuses> {
  const ofKind = (kind: string) => rejected.filter(({ object }) => object["kind"] === kind);
  const gateways = yield* replaceStatuses(
    statuses.gateways,
    ofKind("Gateway"),
    (each, before) => before && withRejection(before, each),
  );
  const listenerSets = yield* replaceStatuses(
    statuses.listenerSets,
    ofKind("ListenerSet"),
    (each, before) => before && withRejection(before, each),
  );
  const parents = new Set([
    ...gateways.map((gateway) => `Gateway ${objectKey(gateway)}`),
    ...listenerSets.map((set) => `ListenerSet ${objectKey(set)}`),
  ]);
  const routes = (kind: RouteKind) =>
    replaceStatuses(statuses[routeLists[kind]], ofKind(kind), (each, before) => routeStatus(each, before, parents));
  return {
    gatewayClasses: withRejectedClasses(statuses.gatewayClasses, ofKind("GatewayClass")),
    gateways,
    listenerSets,
    httpRoutes: yield* routes("HTTPRoute"),
    grpcRoutes: yield* routes("GRPCRoute"),
    tlsRoutes: yield* routes("TLSRoute"),
    tcpRoutes: yield* routes("TCPRoute"),
    udpRoutes: yield* routes("UDPRoute"),
    backendTlsPolicies: yield* replaceStatuses(
      statuses.backendTlsPolicies,
      ofKind("BackendTLSPolicy"),
      tlsPolicyStatus,
    ),
    proxyPolicies: withRejectedTargets(
      yield* replaceStatuses(statuses.proxyPolicies, ofKind("ProxyPolicy"), rejectedPolicyStatus),
      rejected,
    ),
    backends: yield* replaceStatuses(statuses.backends, ofKind("Backend"), backendStatus),
  };
}

/** Replaces the status of each rejected object; if `statusOf` returns undefined, the object keeps its status. */
function* replaceStatuses<S extends NamespacedName>(
  statuses: readonly S[],
  rejected: readonly RejectedResource[],
  statusOf: (rejected: RejectedResource, before: S | undefined) => S | undefined,
): Steps<readonly S[]> {
  if (rejected.length === 0) return statuses;
  const byName = new Map(statuses.map((status) => [objectKey(status), status]));
  for (const each of rejected) {
    const identity = identityOf(each);
    const status = identity && statusOf(each, byName.get(objectKey(identity)));
    if (status !== undefined) byName.set(objectKey(status), status);
    yield;
  }
  return [...byName.values()].sort(compareNames);
}

function routeStatus(
  rejected: RejectedResource,
  before: RouteStatus | undefined,
  knownParents: ReadonlySet<string>,
): RouteStatus | undefined {
  if (rejected.inForce === "validRules") return before && withDroppedRules(rejected, before);
  const identity = identityOf(rejected);
  if (identity === undefined) return undefined;
  const areKnown = parentsOf(rejected).map((parent) => knownParents.has(parent));
  return rejectedRouteStatus(rejected, ...areKnown);
}

/**
 * Returns the parents of a rejected route, as `Gateway namespace/name`; a text that no parent has for another group.
 */
const parentsOf = memoised((rejected: RejectedResource): readonly string[] => {
  const own = identityOf(rejected)?.namespace ?? "";
  return objectsOf(fieldsOf(rejected.object["spec"])["parentRefs"]).map((ref) => {
    const { group = gatewayGroup, kind = "Gateway", namespace = own, name } = ref;
    return group === gatewayGroup ? `${textOf(kind)} ${textOf(namespace)}/${textOf(name)}` : "";
  });
});

/** Returns the same status while the same parents exist: thousands of routes may be rejected. */
const rejectedRouteStatus = memoisedWith((rejected: RejectedResource, ...areKnown: readonly boolean[]) => {
  const identity = identityOf(rejected);
  if (identity === undefined) return undefined;
  const condition = rejectionCondition("UnsupportedValue", rejected);
  const refs = objectsOf(fieldsOf(rejected.object["spec"])["parentRefs"]);
  const parents = refs.flatMap((ref, at): readonly ParentStatus[] => {
    if (areKnown[at] !== true) return [];
    const { kind = "Gateway", name, sectionName, port } = ref;
    const parentRef = {
      ...{ group: gatewayGroup, kind: textOf(kind), name: textOf(name) },
      ...(typeof ref["namespace"] === "string" && { namespace: ref["namespace"] }),
      ...(typeof sectionName === "string" && { sectionName }),
      ...(typeof port === "number" && { port }),
    };
    return [{ parentRef, controllerName, conditions: [condition] }];
  });
  return { ...identity, parents };
});

/** Adds PartiallyInvalid at each parent that accepts the route. */
const withDroppedRules = memoisedWith((rejected: RejectedResource, before: RouteStatus): RouteStatus => {
  const { errors, object } = rejected;
  // One without a path counts those that are not listed.
  const byRule = Map.groupBy(
    errors.filter(({ path }) => path.length > 2),
    ({ path }) => Number(path[2]),
  );
  const rules = [...byRule].sort(([a], [b]) => a - b).map(([rule, own]) => `${rule} (${renderErrors(own)})`);
  // The Gateway API prescribes the beginning of the message (`RouteConditionPartiallyInvalid`).
  const dropped = `Dropped Rule ${rules.join(", ")}: requests that match it get a 500 response`;
  const parents = before.parents.map((parent): ParentStatus => {
    const { conditions } = parent;
    if (!isTrue(conditions, "Accepted")) return parent;
    const others = conditions.filter(({ type }) => type !== "PartiallyInvalid");
    const existing = conditions.filter(({ type }) => type === "PartiallyInvalid").map(({ message }) => message);
    const message = [dropped, ...existing].join("; ");
    const partly = { type: "PartiallyInvalid", status: "True", reason: "UnsupportedValue", message } as const;
    const observedGeneration = observedGenerationOf({ object });
    return { ...parent, conditions: [...others, { ...partly, ...observedGeneration }] };
  });
  return { ...before, parents };
});

/** Adds the rejection to classes of this controller: they have a status, which the version in force causes. */
function withRejectedClasses(
  classes: readonly GatewayClassStatus[],
  rejected: readonly RejectedResource[],
): readonly GatewayClassStatus[] {
  const byName = new Map(rejected.map((each) => [fieldsOf(each.object["metadata"])["name"], each]));
  return classes.map((status) => {
    const found = byName.get(status.name);
    return found === undefined
      ? status
      : { ...status, conditions: withCondition(status.conditions, rejectionCondition("InvalidParameters", found)) };
  });
}

/** Adds the rejection at each Gateway that uses the Services of the version in force. */
function tlsPolicyStatus(
  rejected: RejectedResource,
  before: BackendTlsPolicyStatus | undefined,
): BackendTlsPolicyStatus | undefined {
  return before && { ...before, ancestors: before.ancestors.map((ancestor) => withRejection(ancestor, rejected)) };
}

function backendStatus(rejected: RejectedResource): BackendStatus | undefined {
  const identity = identityOf(rejected);
  return identity && { ...identity, conditions: [rejectionCondition("Invalid", rejected)] };
}

function rejectionCondition<Reason extends "Invalid" | "InvalidParameters" | "UnsupportedValue">(
  reason: Reason,
  rejected: RejectedResource,
) {
  const message = messageOf(rejected);
  return { type: "Accepted", status: "False", reason, message, ...observedGenerationOf(rejected) } as const;
}

/**
 * Replaces the condition `Accepted` of the version in force by the rejection of the new version. The other conditions
 * report what is served.
 */
function withRejection<S extends { readonly conditions: readonly Condition[] }>(
  inForce: S,
  rejected: RejectedResource,
): S {
  return { ...inForce, conditions: withCondition(inForce.conditions, rejectionCondition("Invalid", rejected)) };
}

function withCondition<C extends Condition>(conditions: readonly C[], added: C): readonly C[] {
  return [added, ...conditions.filter(({ type }) => type !== added.type)];
}

function messageOf({ object, errors, inForce }: RejectedResource): string {
  return renderErrors(errors) + consequenceOf(textOf(object["kind"]), inForce);
}

function consequenceOf(kind: string, inForce: RejectedResource["inForce"]): string {
  switch (inForce) {
    case "lastValidVersion":
      return "; the last valid version stays in force where it is known";
    case "remains":
      return `; ${consequences[kind] ?? "nothing of it is served"} where no valid version is known`;
    case "nothing":
    case "validRules":
      return "";
  }
}

/** The consequence if only the remains of an object are in force. For the other kinds, nothing is served. */
const consequences: Readonly<Record<string, string>> = {
  GatewayClass: "the workloads of its Gateways stay as they are",
  BackendTLSPolicy: "its targets are not called",
};

function compareNames(a: NamespacedName, b: NamespacedName): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
