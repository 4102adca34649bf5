/** The status of ListenerSets and their listeners. */
import type { ListenerSetCondition, ListenerSetStatus } from "../../api/status.ts";
import { conditionFrom, joinMessages } from "./finding.ts";
import { findingsOf } from "./findings-table.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import { isAttachedSet, type ListenerSetState } from "../listener/listener-sets.ts";
import { listenerStatus } from "./listener-status.ts";
import type { ListenerRoutes } from "../route/routes.ts";

export function listenerSetStatus(
  state: ListenerSetState,
  gateway: GatewayState,
  routes: ListenerRoutes,
): ListenerSetStatus {
  const { namespace, name } = state.set.metadata;
  return {
    namespace,
    name,
    conditions: conditionsOf(state),
    listeners: state.listeners.map((listener) => listenerStatus(listener, gateway, routes)),
  };
}

function conditionsOf(state: ListenerSetState): readonly ListenerSetCondition[] {
  const { set, listeners } = state;
  const { generation } = set.metadata;
  const served = listeners.filter(({ isProgrammed }) => isProgrammed).length;
  const message = `${served} of ${listeners.length} listeners are programmed`;
  const errors = errorsOf(state, served);
  const accepted = conditionFrom(
    { type: "Accepted", reason: "Accepted", message: "ListenerSet is accepted" },
    errors.flatMap(({ accepted: reason, message: error }) =>
      reason === undefined ? [] : [{ reason, message: error, path: [] }],
    ),
    generation,
  );
  const programmed = conditionFrom(
    { type: "Programmed", reason: "Programmed", message },
    errors.map(({ programmed: reason, message: error }) => ({ reason, message: error, path: [] })),
    generation,
  );
  return [accepted, programmed];
}

type ReasonOf<Type extends ListenerSetCondition["type"]> = Extract<ListenerSetCondition, { type: Type }>["reason"];

/** An error with its reason in each condition; undefined if it does not affect the condition. */
interface SetError {
  readonly accepted: Exclude<ReasonOf<"Accepted">, "Accepted"> | undefined;
  readonly programmed: Exclude<ReasonOf<"Programmed">, "Programmed">;
  readonly message: string;
}

function errorsOf(state: ListenerSetState, served: number): readonly SetError[] {
  const { findings, listeners } = state;
  const [rejection] = findings;
  if (rejection !== undefined) {
    const { reason, message } = rejection;
    return [{ accepted: reason, programmed: reason === "ParentNotAccepted" ? "ParentNotProgrammed" : reason, message }];
  }
  if (!isAttachedSet(state)) {
    const reason = "ListenersNotValid";
    const invalid = listeners.filter(({ isServable }) => !isServable);
    return invalid.map(({ listener, findings: ofListener }) => {
      const rejections = findingsOf("Listener", "Accepted", ofListener);
      const unresolved = findingsOf("Listener", "ResolvedRefs", ofListener);
      const message = `listener ${listener.name}: ${joinMessages([...rejections, ...unresolved])}`;
      return { accepted: reason, programmed: reason, message };
    });
  }
  if (served > 0) return [];
  return [{ accepted: undefined, programmed: "ParentNotProgrammed", message: "its Gateway has no usable address" }];
}
