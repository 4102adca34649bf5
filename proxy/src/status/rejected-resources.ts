/**
 * Statuses of objects that the API server has taken and the parser refuses: a regular expression that RE2 does not know,
 * a field of a newer CustomResourceDefinition. Translation has not seen such a version, but its last sound one, its
 * sound rules, what remains of it or nothing; the status says so. What cannot be read of the object is left out. Pure.
 */
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import type {
  BackendStatus,
  BackendTlsPolicyStatus,
  Condition,
  GatewayClassStatus,
  ParentStatus,
  RouteStatus,
  Statuses,
} from "../api/status.ts";
import { fieldsOf, objectsOf, textOf } from "../kube/object.ts";
import { withRefusedTargets } from "./refused-targets.ts";
import { identityOf, type Named, nameOf, observedBy } from "./rejected-object.ts";
import { rejectedPolicyStatus } from "./rejected-policy.ts";

/** The statuses with those of refused objects in the place of any that translation has for what is in force of them. */
export function withRejected(statuses: Statuses, rejected: readonly RejectedResource[]): Statuses {
  const ofKind = (kind: string) => rejected.filter(({ object }) => object["kind"] === kind);
  const gateways = replaced(
    statuses.gateways,
    ofKind("Gateway"),
    (each, before) => before && notAccepted(before, each),
  );
  const listenerSets = replaced(
    statuses.listenerSets,
    ofKind("ListenerSet"),
    (each, before) => before && notAccepted(before, each),
  );
  const parents = new Set([
    ...gateways.map((gateway) => `Gateway ${nameOf(gateway)}`),
    ...listenerSets.map((set) => `ListenerSet ${nameOf(set)}`),
  ]);
  return {
    gatewayClasses: withRefusedClasses(statuses.gatewayClasses, ofKind("GatewayClass")),
    gateways,
    listenerSets,
    httpRoutes: replaced(statuses.httpRoutes, ofKind("HTTPRoute"), (each, before) =>
      routeStatus(each, before, parents),
    ),
    backendTlsPolicies: replaced(statuses.backendTlsPolicies, ofKind("BackendTLSPolicy"), tlsPolicyStatus),
    proxyPolicies: withRefusedTargets(
      replaced(statuses.proxyPolicies, ofKind("ProxyPolicy"), rejectedPolicyStatus),
      rejected,
    ),
    backends: replaced(statuses.backends, ofKind("Backend"), backendStatus),
  };
}

/** One that gets no status of its own keeps what it has. */
function replaced<S extends Named>(
  statuses: readonly S[],
  rejected: readonly RejectedResource[],
  judge: (rejected: RejectedResource, before: S | undefined) => S | undefined,
): readonly S[] {
  const byName = new Map(statuses.map((status) => [nameOf(status), status]));
  for (const each of rejected) {
    const identity = identityOf(each);
    const status = identity && judge(each, byName.get(nameOf(identity)));
    if (status !== undefined) byName.set(nameOf(status), status);
  }
  return [...byName.values()].sort(compareNames);
}

function routeStatus(
  rejected: RejectedResource,
  before: RouteStatus | undefined,
  ours: ReadonlySet<string>,
): RouteStatus | undefined {
  if (rejected.inForce === "soundRules") return before && partlyServed(before, rejected);
  const identity = identityOf(rejected);
  if (identity === undefined) return undefined;
  const refused = refusal("UnsupportedValue", rejected);
  const parents = objectsOf(fieldsOf(rejected.object["spec"])["parentRefs"]).flatMap((ref): readonly ParentStatus[] => {
    const { group = gatewayGroup, kind = "Gateway", namespace = identity.namespace, name, sectionName, port } = ref;
    if (group !== gatewayGroup || !ours.has(`${textOf(kind)} ${textOf(namespace)}/${textOf(name)}`)) return [];
    const parentRef = {
      ...{ group: gatewayGroup, kind: textOf(kind), name: textOf(name) },
      ...(typeof ref["namespace"] === "string" && { namespace: ref["namespace"] }),
      ...(typeof sectionName === "string" && { sectionName }),
      ...(typeof port === "number" && { port }),
    };
    return [{ parentRef, controllerName, conditions: [refused] }];
  });
  return { ...identity, parents };
}

/** Where a parent has accepted the route it learns that this is not for all of its rules. */
function partlyServed(before: RouteStatus, { faults, object }: RejectedResource): RouteStatus {
  const byRule = Map.groupBy(faults, ({ path }) => Number(path[2]));
  const rules = [...byRule].sort(([a], [b]) => a - b).map(([rule, own]) => `${rule} (${renderFaults(own)})`);
  // The API has the message begin so.
  const dropped = `Dropped Rule ${rules.join(", ")}: requests that match it are answered with 500`;
  const parents = before.parents.map((parent): ParentStatus => {
    const { conditions } = parent;
    if (!conditions.some(({ type, status }) => type === "Accepted" && status === "True")) return parent;
    const others = conditions.filter(({ type }) => type !== "PartiallyInvalid");
    const known = conditions.filter(({ type }) => type === "PartiallyInvalid").map(({ message }) => message);
    const message = [dropped, ...known].join("; ");
    const partly = { type: "PartiallyInvalid", status: "True", reason: "UnsupportedValue", message } as const;
    const observed = observedBy({ object });
    return { ...parent, conditions: [...others, { ...partly, ...observed }] };
  });
  return { ...before, parents };
}

/** What is in force of a class tells that it is ours. */
function withRefusedClasses(
  classes: readonly GatewayClassStatus[],
  rejected: readonly RejectedResource[],
): readonly GatewayClassStatus[] {
  const byName = new Map(rejected.map((each) => [fieldsOf(each.object["metadata"])["name"], each]));
  return classes.map((status) => {
    const refused = byName.get(status.name);
    return refused === undefined
      ? status
      : { ...status, conditions: refuse(status.conditions, refusal("InvalidParameters", refused)) };
  });
}

/** What is in force of a policy tells which Gateways call its Services. */
function tlsPolicyStatus(
  rejected: RejectedResource,
  before: BackendTlsPolicyStatus | undefined,
): BackendTlsPolicyStatus | undefined {
  return before && { ...before, ancestors: before.ancestors.map((ancestor) => notAccepted(ancestor, rejected)) };
}

function backendStatus(rejected: RejectedResource): BackendStatus | undefined {
  const identity = identityOf(rejected);
  return identity && { ...identity, conditions: [refusal("Invalid", rejected)] };
}

function refusal<Reason extends "Invalid" | "InvalidParameters" | "UnsupportedValue">(
  reason: Reason,
  rejected: RejectedResource,
) {
  const message = messageOf(rejected);
  return { type: "Accepted", status: "False", reason, message, ...observedBy(rejected) } as const;
}

/** The conditions of what is in force, which go on telling what is served, under the judgement of this version. */
function notAccepted<S extends { readonly conditions: readonly Condition[] }>(
  inForce: S,
  rejected: RejectedResource,
): S {
  return { ...inForce, conditions: refuse(inForce.conditions, refusal("Invalid", rejected)) };
}

function refuse<C extends Condition>(conditions: readonly C[], refusal: C): readonly C[] {
  return [refusal, ...conditions.filter(({ type }) => type !== refusal.type)];
}

function messageOf({ object, faults, inForce }: RejectedResource): string {
  return renderFaults(faults) + consequenceOf(textOf(object["kind"]), inForce);
}

function consequenceOf(kind: string, inForce: RejectedResource["inForce"]): string {
  switch (inForce) {
    case "lastSoundVersion":
      return "; the last sound version stays in force where it is known";
    case "remains":
      return `; ${consequences[kind] ?? "nothing of it is served"} where no sound version is known`;
    case "nothing":
    case "soundRules":
      return "";
  }
}

/** What becomes of an object of which only the remains are in force; of those with listeners nothing is served. */
const consequences: Readonly<Record<string, string>> = {
  GatewayClass: "what runs for its Gateways is left as it is",
  BackendTLSPolicy: "its targets are not called",
};

function compareNames(a: Named, b: Named): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
