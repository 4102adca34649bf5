/** Status of Gateways and their listeners. */
import type {
  ConflictReason,
  GatewayCondition,
  GatewayStatus,
  ListenerCondition,
  ListenerStatus,
} from "../api/status.ts";
import { conditionFrom, type Finding, joinMessages, observed } from "./finding.ts";
import type { GatewayState } from "./gateways.ts";
import type { ListenerState } from "./listeners.ts";
import { isAcceptedBy, type RouteState } from "./routes.ts";

export function gatewayStatus(state: GatewayState, routes: readonly RouteState[]): GatewayStatus {
  const { namespace, name } = state.gateway.metadata;
  return {
    namespace,
    name,
    conditions: [acceptedCondition(state), programmedCondition(state)],
    listeners: state.listeners.map((listener) => listenerStatus(listener, state, routes)),
  };
}

/** Listeners that serve nothing leave the others alone; a Gateway is refused when none is left. */
function acceptedCondition({ gateway, listeners, refusals, unserved }: GatewayState): GatewayCondition {
  const { generation } = gateway.metadata;
  const refused = listeners.filter((listener) => listener.refusals.length > 0);
  const notValid = refused.map(({ listener, refusals: why }) => ({
    reason: "ListenersNotValid" as const,
    message: `listener ${listener.name}: ${joinMessages(why)}`,
    path: [],
  }));
  const message = joinMessages([{ message: "Gateway is accepted" }, ...unserved]);
  if (refusals.length > 0 || refused.length === listeners.length) {
    return conditionFrom({ type: "Accepted", reason: "Accepted", message }, [...refusals, ...notValid], generation);
  }
  if (refused.length === 0) {
    return { type: "Accepted", status: "True", reason: "Accepted", message, ...observed(generation) };
  }
  const partly = joinMessages([...notValid, ...unserved]);
  return { type: "Accepted", status: "True", reason: "ListenersNotValid", message: partly, ...observed(generation) };
}

function programmedCondition({ gateway, listeners, unusableAddresses }: GatewayState): GatewayCondition {
  const findings: Finding<"AddressNotUsable" | "Invalid">[] = [...unusableAddresses];
  if (!listeners.some(({ isProgrammed }) => isProgrammed)) {
    findings.push({ reason: "Invalid", message: "no listener is programmed", path: [] });
  }
  const programmed = listeners.filter(({ isProgrammed }) => isProgrammed).length;
  const message = `${programmed} of ${listeners.length} listeners are programmed`;
  return conditionFrom({ type: "Programmed", reason: "Programmed", message }, findings, gateway.metadata.generation);
}

function listenerStatus(state: ListenerState, gateway: GatewayState, routes: readonly RouteState[]): ListenerStatus {
  return {
    name: state.listener.name,
    supportedKinds: state.supportedKinds.map(({ group, kind }) => ({ group, kind })),
    attachedRoutes: routes.filter((route) => isAttached(route, state.key)).length,
    conditions: listenerConditions(state, gateway),
  };
}

/** Counts routes that the listener has accepted, whatever the listener's own state, as the API says. */
function isAttached(route: RouteState, listenerKey: string): boolean {
  return route.parents.some(
    (parent) => isAcceptedBy(route, parent) && parent.attachments.some(({ listener }) => listener.key === listenerKey),
  );
}

function listenerConditions(state: ListenerState, gateway: GatewayState): ListenerCondition[] {
  const { generation } = state.gateway.metadata;
  const accepted = { type: "Accepted", reason: "Accepted", message: "listener is accepted" } as const;
  const programmed = { type: "Programmed", reason: "Programmed", message: "listener is programmed" } as const;
  const resolved = { type: "ResolvedRefs", reason: "ResolvedRefs", message: "all references are resolved" } as const;
  return [
    conditionFrom(accepted, state.refusals, generation),
    conditionFrom(programmed, programmingFindings(state, gateway), generation),
    conditionFrom(resolved, state.invalidKinds, generation),
    conflicted(state.refusals, generation),
  ];
}

/** Why a listener is not in the snapshot: its own faults, or else its Gateway's. */
function programmingFindings(
  { refusals, isProgrammed }: ListenerState,
  gateway: GatewayState,
): readonly Finding<"Invalid" | ConflictReason>[] {
  if (isProgrammed) return [];
  if (refusals.length === 0) {
    const fault = gateway.refusals.length > 0 ? "is not accepted" : "has no usable address";
    return [{ reason: "Invalid", message: `its Gateway ${fault}`, path: [] }];
  }
  return refusals.map((refusal) => ({
    ...refusal,
    reason: refusal.reason === "UnsupportedProtocol" ? "Invalid" : refusal.reason,
  }));
}

function conflicted(refusals: ListenerState["refusals"], generation: number | undefined): ListenerCondition {
  for (const { reason, message } of refusals) {
    if (reason === "UnsupportedProtocol") continue;
    return { type: "Conflicted", status: "True", reason, message, ...observed(generation) };
  }
  const message = "no other listener claims its requests";
  return { type: "Conflicted", status: "False", reason: "NoConflicts", message, ...observed(generation) };
}
