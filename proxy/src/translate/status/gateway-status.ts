/** The status of Gateways. */
import type { GatewayCondition, GatewayStatus } from "../../api/status.ts";
import { conditionFrom, joinMessages, observed } from "./finding.ts";
import { findingsOf, findingsWithoutEffect } from "./findings-table.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import { isAttachedSet } from "../listener/listener-sets.ts";
import { listenerStatus } from "./listener-status.ts";
import type { ListenerRoutes } from "../route/routes.ts";

export function gatewayStatus(state: GatewayState, routes: ListenerRoutes): GatewayStatus {
  const { namespace, name } = state.gateway.metadata;
  return {
    namespace,
    name,
    conditions: [
      acceptedCondition(state),
      programmedCondition(state),
      ...resolvedCondition(state),
      ...insecureCondition(state),
    ],
    listeners: state.listeners.map((listener) => listenerStatus(listener, state, routes)),
    ...(state.gateway.spec.allowedListeners !== undefined && {
      attachedListenerSets: state.sets.filter(isAttachedSet).length,
    }),
  };
}

/** An invalid listener does not affect the others. A Gateway is rejected if all are invalid. */
function acceptedCondition({ gateway, listeners, findings }: GatewayState): GatewayCondition {
  const { generation } = gateway.metadata;
  const rejections = findingsOf("Gateway", "Accepted", findings);
  const unsupported = findingsWithoutEffect("Gateway", findings);
  const notValid = listeners.flatMap((state) => {
    const rejectionsOfListener = findingsOf("Listener", "Accepted", state.findings);
    if (rejectionsOfListener.length === 0) return [];
    const message = `listener ${state.listener.name}: ${joinMessages(rejectionsOfListener)}`;
    return [{ reason: "ListenersNotValid" as const, message, path: [], isServable: state.isServable }];
  });
  const message = joinMessages([{ message: "Gateway is accepted" }, ...unsupported]);
  const hasListener = notValid.length < listeners.length || notValid.some(({ isServable }) => isServable);
  if (rejections.length > 0 || !hasListener) {
    return conditionFrom({ type: "Accepted", reason: "Accepted", message }, [...rejections, ...notValid], generation);
  }
  if (notValid.length === 0) {
    return { type: "Accepted", status: "True", reason: "Accepted", message, ...observed(generation) };
  }
  const partly = joinMessages([...notValid, ...unsupported]);
  return { type: "Accepted", status: "True", reason: "ListenersNotValid", message: partly, ...observed(generation) };
}

function programmedCondition({ gateway, listeners: own, sets, findings }: GatewayState): GatewayCondition {
  const listeners = [...own, ...sets.flatMap((set) => set.listeners)];
  const programmed = listeners.filter(({ isProgrammed }) => isProgrammed).length;
  const none = { reason: "Invalid" as const, message: "no listener is programmed", path: [] };
  const message = `${programmed} of ${listeners.length} listeners are programmed`;
  return conditionFrom(
    { type: "Programmed", reason: "Programmed", message },
    [...findingsOf("Gateway", "Programmed", findings), ...(programmed === 0 ? [none] : [])],
    gateway.metadata.generation,
  );
}

function resolvedCondition({ gateway, findings }: GatewayState): readonly GatewayCondition[] {
  if (gateway.spec.tls?.backend?.clientCertificateRef === undefined) return [];
  const resolved = { type: "ResolvedRefs", reason: "ResolvedRefs", message: "all references are resolved" } as const;
  return [conditionFrom(resolved, findingsOf("Gateway", "ResolvedRefs", findings), gateway.metadata.generation)];
}

/** Returns a condition that is only present with status True. */
function insecureCondition({ gateway }: GatewayState): readonly GatewayCondition[] {
  const frontend = gateway.spec.tls?.frontend;
  if (frontend === undefined) return [];
  const rules = [frontend.default, ...frontend.perPort.map(({ tls }) => tls)];
  if (!rules.some(({ validation }) => validation?.mode === "AllowInsecureFallback")) return [];
  const message = "clients are accepted with any certificate, or none, where the mode is AllowInsecureFallback";
  const reason = "ConfigurationChanged";
  const { generation } = gateway.metadata;
  return [{ type: "InsecureFrontendValidationMode", status: "True", reason, message, ...observed(generation) }];
}
