/** The status of BackendTLSPolicies: one ancestor per Gateway of this controller with a route to the Service. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { controllerName, gatewayGroup } from "../../api/names.ts";
import type { BackendTlsCondition, BackendTlsPolicyStatus } from "../../api/status.ts";
import type { TlsPolicyState, TlsTargetState } from "../backend/backend-tls.ts";
import { eachObject } from "../each-object.ts";
import { conditionFrom, joinMessages } from "./finding.ts";
import { findingsOf, findingsWithoutEffect } from "./findings-table.ts";
import { compareText, nameKey } from "../index/object-names.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { IsPermitted } from "../reference/reference-grants.ts";
import { permittedReferents, referencesOfRoute } from "../reference/references.ts";
import { type AnyRouteState, routeOf } from "../route/routes.ts";
import { endsTls, type ListenerState } from "../listener/listeners.ts";

/** The maximum of the API. */
const maxAncestors = 16;

/** Returns Gateways by the Services to which their routes refer and may refer, both as `namespace/name`. */
export type GatewaysByService = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Returns the Gateways with a route to each Service, as `namespace/name`. References without permission do not count.
 */
export function* gatewaysByService(
  routes: readonly AnyRouteState[],
  isPermitted: IsPermitted,
): Steps<GatewaysByService> {
  const byService = new Map<string, Set<string>>();
  yield* eachObject(routes, routeOf, ({ route, parents }) => {
    const gateways = new Set(
      parents.flatMap(({ attachments }) =>
        attachments.flatMap(({ listener }) => (mayCallByTls(listener) ? [nameKey(listener.gateway)] : [])),
      ),
    );
    if (gateways.size === 0) return;
    for (const { group, kind, namespace, name } of permittedReferents(referencesOfRoute(route), isPermitted)) {
      if (group !== "" || kind !== "Service") continue;
      const service = objectKey({ namespace, name });
      const known = byService.get(service) ?? new Set();
      for (const gateway of gateways) known.add(gateway);
      byService.set(service, known);
    }
  });
  return byService;
}

/**
 * Whether the gateway may call backends of a listener by TLS of its own. Datagrams, and TLS of clients, are passed on.
 */
function mayCallByTls({ listener }: ListenerState): boolean {
  return listener.protocol !== "UDP" && (listener.protocol !== "TLS" || endsTls(listener));
}

const none: ReadonlySet<string> = new Set();

/** The Gateways of a status. A Service may have thousands of policies and as many Gateways. */
const firstGateways = memoised((names: ReadonlySet<string>) => [...names].sort(compareText).slice(0, maxAncestors));

/** Returns the status of one policy, with at most `maxAncestors` ancestors in the order of their names. */
export function backendTlsPolicyStatus(state: TlsPolicyState, gateways: GatewaysByService): BackendTlsPolicyStatus {
  const { namespace, name } = state.policy.metadata;
  const names = new Set(state.targets.flatMap(({ service }) => firstGateways(gateways.get(service) ?? none)));
  const ancestors = [...names]
    .sort(compareText)
    .slice(0, maxAncestors)
    .map((gateway) => {
      const [gatewayNamespace = "", gatewayName = ""] = gateway.split("/");
      const targets = state.targets.filter(({ service }) => gateways.get(service)?.has(gateway) === true);
      return {
        ancestorRef: { group: gatewayGroup, kind: "Gateway", namespace: gatewayNamespace, name: gatewayName },
        controllerName,
        conditions: conditionsOf(state, targets),
      };
    });
  return { namespace, name, ancestors };
}

/** @param targets to which routes of the ancestor refer; the policy is not accepted if it applies to none of them. */
function conditionsOf(state: TlsPolicyState, targets: readonly TlsTargetState[]): readonly BackendTlsCondition[] {
  const { generation } = state.policy.metadata;
  const rejected = targets.flatMap(({ rejection }) => rejection ?? []);
  const holds = rejected.length < targets.length;
  const message = joinMessages([
    { message: "policy is accepted" },
    ...rejected,
    ...findingsWithoutEffect("BackendTLSPolicy", state.findings),
  ]);
  const resolved = { type: "ResolvedRefs", reason: "ResolvedRefs", message: "all references are resolved" } as const;
  return [
    conditionFrom(
      { type: "Accepted", reason: "Accepted", message },
      [...(holds ? [] : rejected), ...findingsOf("BackendTLSPolicy", "Accepted", state.findings)],
      generation,
    ),
    conditionFrom(resolved, findingsOf("BackendTLSPolicy", "ResolvedRefs", state.findings), generation),
  ];
}
