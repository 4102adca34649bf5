/** The statuses of all objects that this controller reports on. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { sortedBy } from "@gatewayproxy/runtime/lists";
import type { RouteStatus, Statuses } from "../../api/status.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject } from "../each-object.ts";
import { gatewayClassStatuses } from "../gateway/gateway-classes.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import { compareText } from "../index/object-names.ts";
import type { ResolvedConflicts } from "../route/route-conflicts.ts";
import type { ListenerRoutes } from "../route/routes.ts";
import type { StreamConflicts } from "../route/stream-conflicts.ts";
import { backendStatus } from "./backend-status.ts";
import { backendTlsPolicyStatus, type GatewaysByService, gatewaysByService } from "./backend-tls-status.ts";
import { gatewayStatus } from "./gateway-status.ts";
import { listenerSetStatus } from "./listener-set-status.ts";
import { policyStatus } from "./policy-status.ts";
import type { ResolvedStates } from "./problems.ts";
import { requestConflictConditions, routeStatuses, streamConflictConditions } from "./route-status.ts";

/** What routes lose to others. */
interface RouteConflictsOfAll {
  readonly conflicts: ResolvedConflicts;
  readonly streamConflicts: StreamConflicts;
}

/** Returns the statuses, those of each kind sorted by namespace and name. A step for each object. */
export function* statusesOf(
  { index, environment }: TranslationContext,
  { gateways, routes, streams, tlsPolicies, policies, backends }: ResolvedStates,
  attached: ListenerRoutes,
  { conflicts, streamConflicts }: RouteConflictsOfAll,
): Steps<Statuses> {
  const users: GatewaysByService =
    tlsPolicies.length === 0 ? new Map() : yield* gatewaysByService([...routes, ...streams].flat(), index.isPermitted);
  const requestLosses = requestConflictConditions(conflicts);
  const streamLosses = streamConflictConditions(streamConflicts);
  const sets = gateways.flatMap((state) => state.sets.map((set) => ({ set, state })));
  const ofSets = yield* eachObject(
    sets,
    ({ set }) => set.set,
    ({ set, state }) => listenerSetStatus(set, state, attached),
  );
  const ofTlsPolicies = yield* eachObject(tlsPolicies, policyOf, (state) => backendTlsPolicyStatus(state, users));
  return {
    gatewayClasses: gatewayClassStatuses(index.resources.GatewayClass, environment),
    gateways: yield* eachObject(gateways, gatewayOf, (state) => gatewayStatus(state, attached)),
    listenerSets: ofSets.sort(byName),
    httpRoutes: sortedRoutes(yield* routeStatuses(routes, "HTTPRoute", requestLosses)),
    grpcRoutes: sortedRoutes(yield* routeStatuses(routes, "GRPCRoute", requestLosses)),
    tlsRoutes: sortedRoutes(yield* routeStatuses(streams, "TLSRoute", streamLosses)),
    tcpRoutes: sortedRoutes(yield* routeStatuses(streams, "TCPRoute", streamLosses)),
    udpRoutes: sortedRoutes(yield* routeStatuses(streams, "UDPRoute", streamLosses)),
    backendTlsPolicies: ofTlsPolicies.sort(byName),
    proxyPolicies: (yield* eachObject(policies, policyOf, policyStatus)).sort(byName),
    backends: (yield* eachObject(backends, ({ resource }) => resource, backendStatus)).sort(byName),
  };
}

const sortedRoutes = sortedBy<RouteStatus>(byName);

const gatewayOf = ({ gateway }: GatewayState) => gateway;
const policyOf = <Policy>({ policy }: { readonly policy: Policy }): Policy => policy;

interface ObjectStatus {
  readonly namespace: string;
  readonly name: string;
}

function byName(a: ObjectStatus, b: ObjectStatus): number {
  return compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}
