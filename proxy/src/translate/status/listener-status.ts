/** The status of listeners, of Gateways and of ListenerSets. */
import type { ConflictReason, ListenerCondition, ListenerRejection, ListenerStatus } from "../../api/status.ts";
import { conditionFrom, type Finding, joinMessages, observed } from "./finding.ts";
import { findingsOf, findingsWithoutEffect } from "./findings-table.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import { endsTls, type ListenerState } from "../listener/listeners.ts";
import type { Pages } from "@gatewayproxy/runtime/lists";
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { AnyRouteState, Attached, ListenerRoutes } from "../route/routes.ts";

export function listenerStatus(state: ListenerState, gateway: GatewayState, routes: ListenerRoutes): ListenerStatus {
  return {
    name: state.listener.name,
    supportedKinds: state.supportedKinds.map(({ group, kind }) => ({ group, kind })),
    // The accepted routes, independently of the state of the listener, as the API requires.
    attachedRoutes: attachedTo(state, routes).reduce((sum, page) => sum + acceptedIn(page), 0),
    conditions: listenerConditions(state, gateway),
  };
}

function attachedTo({ key }: ListenerState, { requests, streams }: ListenerRoutes): Pages<AnyAttached> {
  return requests.get(key) ?? streams.get(key) ?? [];
}

type AnyAttached = Attached<AnyRouteState>;

/** The number of accepted routes of a page. */
const acceptedIn = memoised((page: readonly AnyAttached[]) => page.filter(({ state }) => state.isSupported).length);

function listenerConditions(state: ListenerState, gateway: GatewayState): ListenerCondition[] {
  const { generation } = state.owner.metadata;
  const { findings } = state;
  const rejections = findingsOf("Listener", "Accepted", findings);
  const unsupported = findingsWithoutEffect("Listener", findings);
  const message = joinMessages([{ message: "listener is accepted" }, ...unsupported]);
  const accepted = { type: "Accepted", reason: "Accepted", message } as const;
  const programmed = { type: "Programmed", reason: "Programmed", message: "listener is programmed" } as const;
  const resolved = { type: "ResolvedRefs", reason: "ResolvedRefs", message: "all references are resolved" } as const;
  return [
    conditionFrom(accepted, rejections, generation),
    conditionFrom(programmed, programmingFindings(state, rejections, gateway), generation),
    conditionFrom(resolved, findingsOf("Listener", "ResolvedRefs", findings), generation),
    conflicted(rejections, generation),
    ...overlapping(state, generation),
  ];
}

/** Returns why a listener is not in the snapshot: its own errors, or those of its Gateway. */
function programmingFindings(
  { isProgrammed, listener, tls }: ListenerState,
  rejections: readonly Finding<ListenerRejection>[],
  gateway: GatewayState,
): readonly Finding<"Invalid" | ConflictReason>[] {
  if (isProgrammed) return [];
  if (rejections.length > 0) {
    return rejections.map((rejection) => ({
      ...rejection,
      reason: isConflict(rejection.reason) ? rejection.reason : "Invalid",
    }));
  }
  if (endsTls(listener) && tls === undefined) {
    return [{ reason: "Invalid", message: "it has no valid certificate", path: [] }];
  }
  const fault = gateway.isAccepted ? "has no usable address" : "is not accepted";
  return [{ reason: "Invalid", message: `its Gateway ${fault}`, path: [] }];
}

function conflicted(
  rejections: readonly Finding<ListenerRejection>[],
  generation: number | undefined,
): ListenerCondition {
  for (const { reason, message } of rejections) {
    if (isConflict(reason)) return { type: "Conflicted", status: "True", reason, message, ...observed(generation) };
  }
  const message = "no other listener claims its requests";
  return { type: "Conflicted", status: "False", reason: "NoConflicts", message, ...observed(generation) };
}

function isConflict(reason: ListenerRejection): reason is ConflictReason {
  return reason === "HostnameConflict" || reason === "ProtocolConflict";
}

/** Returns a condition that is only present with status True. */
function overlapping(
  { isOverlapping, listener }: ListenerState,
  generation: number | undefined,
): readonly ListenerCondition[] {
  if (!isOverlapping) return [];
  const consequence = listener.protocol === "HTTPS" ? "; requests that reuse a connection of it get 421" : "";
  const message = `another TLS listener of port ${listener.port} has some of its hosts${consequence}`;
  const reason = "OverlappingHostnames";
  return [{ type: "OverlappingTLSConfig", status: "True", reason, message, ...observed(generation) }];
}
