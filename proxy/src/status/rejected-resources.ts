/**
 * Statuses of objects that the API server has taken and the parser refuses: a regular expression that RE2 does not know,
 * a field of a newer CustomResourceDefinition. Translation has not seen such a version, but nothing, its last sound one
 * or its sound rules; the status says so. What cannot be read of the object is left out. Pure.
 */
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import type {
  BackendStatus,
  BackendTlsPolicyStatus,
  Condition,
  GatewayStatus,
  ListenerSetStatus,
  ParentStatus,
  RouteStatus,
  Statuses,
} from "../api/status.ts";
import { withRefusedTargets } from "./refused-targets.ts";
import { identityOf, listOf, mapOf, type Named, nameOf, observedBy } from "./rejected-object.ts";
import { rejectedPolicyStatus } from "./rejected-policy.ts";

/** The statuses with those of refused objects in the place of any that translation has for what is in force of them. */
export function withRejected(statuses: Statuses, rejected: readonly RejectedResource[]): Statuses {
  const ofKind = (kind: string) => rejected.filter(({ object }) => object["kind"] === kind);
  const gateways = replaced(statuses.gateways, ofKind("Gateway"), (each, before) =>
    gatewayStatus(each, before, statuses),
  );
  const listenerSets = replaced(statuses.listenerSets, ofKind("ListenerSet"), (each, before) =>
    listenerSetStatus(each, before, gateways),
  );
  const parents = new Set([
    ...gateways.map((gateway) => `Gateway ${nameOf(gateway)}`),
    ...listenerSets.map((set) => `ListenerSet ${nameOf(set)}`),
  ]);
  return {
    ...statuses,
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
  const parents = listOf(mapOf(rejected.object["spec"])["parentRefs"]).flatMap((ref): readonly ParentStatus[] => {
    const { group = gatewayGroup, kind = "Gateway", namespace = identity.namespace, name, sectionName, port } = ref;
    if (group !== gatewayGroup || !ours.has(`${String(kind)} ${String(namespace)}/${String(name)}`)) return [];
    const parentRef = {
      ...{ group: gatewayGroup, kind: String(kind), name: String(name) },
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

/** One without an earlier version is ours by its class. */
function gatewayStatus(
  rejected: RejectedResource,
  before: GatewayStatus | undefined,
  { gatewayClasses }: Statuses,
): GatewayStatus | undefined {
  if (before !== undefined) return { ...before, conditions: refuse(before.conditions, refusal("Invalid", rejected)) };
  const identity = identityOf(rejected);
  const { gatewayClassName } = mapOf(rejected.object["spec"]);
  if (identity === undefined || !gatewayClasses.some(({ name }) => name === gatewayClassName)) return undefined;
  return { ...identity, conditions: [refusal("Invalid", rejected), unprogrammed(rejected)], listeners: [] };
}

/** One without an earlier version is ours by the Gateway that it names. */
function listenerSetStatus(
  rejected: RejectedResource,
  before: ListenerSetStatus | undefined,
  gateways: readonly GatewayStatus[],
): ListenerSetStatus | undefined {
  if (before !== undefined) return { ...before, conditions: refuse(before.conditions, refusal("Invalid", rejected)) };
  const identity = identityOf(rejected);
  if (identity === undefined) return undefined;
  const { namespace = identity.namespace, name } = mapOf(mapOf(rejected.object["spec"])["parentRef"]);
  const isOurs = gateways.some((gateway) => nameOf(gateway) === `${String(namespace)}/${String(name)}`);
  if (!isOurs) return undefined;
  return { ...identity, conditions: [refusal("Invalid", rejected), unprogrammed(rejected)], listeners: [] };
}

/** Only what is in force tells which Gateways call its Services. */
function tlsPolicyStatus(
  rejected: RejectedResource,
  before: BackendTlsPolicyStatus | undefined,
): BackendTlsPolicyStatus | undefined {
  return (
    before && {
      ...before,
      ancestors: before.ancestors.map((ancestor) => ({
        ...ancestor,
        conditions: refuse(ancestor.conditions, refusal("Invalid", rejected)),
      })),
    }
  );
}

function backendStatus(rejected: RejectedResource): BackendStatus | undefined {
  const identity = identityOf(rejected);
  return identity && { ...identity, conditions: [refusal("Invalid", rejected)] };
}

function refusal<Reason extends "Invalid" | "UnsupportedValue">(reason: Reason, rejected: RejectedResource) {
  const message = messageOf(rejected);
  return { type: "Accepted", status: "False", reason, message, ...observedBy(rejected) } as const;
}

function unprogrammed(rejected: RejectedResource) {
  const message = "nothing of it is served";
  return { type: "Programmed", status: "False", reason: "Invalid", message, ...observedBy(rejected) } as const;
}

/** The conditions of an earlier version, which go on telling what is served, under the judgement of this one. */
function refuse<C extends Condition>(conditions: readonly C[], refusal: C): readonly C[] {
  return [refusal, ...conditions.filter(({ type }) => type !== refusal.type)];
}

function messageOf({ faults, inForce }: RejectedResource): string {
  return renderFaults(faults) + consequences[inForce];
}

const consequences: Readonly<Record<RejectedResource["inForce"], string>> = {
  nothing: "",
  soundRules: "",
  lastSoundVersion: "; the last sound version stays in force where it is known",
  refusedTargets: "; its targets are not called where no sound version is known",
};

function compareNames(a: Named, b: Named): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
