/** Resolves routes of all kinds: their attachments and their rules. */
import { routeKey } from "@gatewayproxy/runtime/route-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import { type AnyRoute, type RouteResource, routesOf } from "../../api/resource.ts";
import type { ResourceProblem } from "../../api/resource-problem.ts";
import { type Attachment, attachRoute, type ParentState, wantAttachments, wantComparisons } from "./attachment.ts";
import { AttachmentBudget } from "./attachment-budget.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject, eachObjectInSteps, itself } from "../each-object.ts";
import type { ResolvedGateways } from "../gateway/gateways.ts";
import { sortByAge } from "../index/object-names.ts";
import { memoised, memoisedWith, sameList } from "@gatewayproxy/runtime/memoised";
import { backendRefsOf } from "../reference/references.ts";
import { KindConflicts } from "./kind-conflicts.ts";
import { isServed, type RuleResource, type RuleState, translateRule } from "./rules.ts";
import { isStreamRoute, type StreamRouteState, translateStreamRules } from "./stream-routes.ts";

/** An HTTPRoute or a GRPCRoute with its parents and rules. */
export interface RouteState {
  readonly route: RouteResource;
  readonly parents: readonly ParentState[];
  readonly rules: readonly RuleState[];
  /** Whether any rule is valid. A route without one is accepted nowhere. */
  readonly isSupported: boolean;
}

/** A route of any kind with its parents and rules. */
export type AnyRouteState = RouteState | StreamRouteState;

/**
 * All routes, and the problems with their content. Both lists are in the order in which the Gateway API prefers routes:
 * oldest first, then by namespace and name.
 */
export interface ResolvedRoutes {
  /** HTTPRoutes and GRPCRoutes. */
  readonly routes: readonly RouteState[];
  /** TLSRoutes, TCPRoutes and UDPRoutes. */
  readonly streams: readonly StreamRouteState[];
  readonly problems: readonly ResourceProblem[];
}

/** Resolves all routes. */
export function* resolveRoutes(
  context: TranslationContext,
  gateways: ResolvedGateways,
  references: BackendReferences,
): Steps<ResolvedRoutes> {
  const problems: ResourceProblem[] = [];
  const budget = new AttachmentBudget(context.placeOf);
  const sorted = sortByAge(routesOf(context.index.resources));
  const { HTTPRoute, GRPCRoute } = context.index.resources;
  const mixesKinds = HTTPRoute.length > 0 && GRPCRoute.length > 0;
  const conflicts = new KindConflicts();
  yield* eachObjectInSteps(sorted, itself, function* (route): Steps<void> {
    for (const ref of backendRefsOf(route)) {
      references.want(route, ref);
      yield;
    }
    wantComparisons(route, gateways, budget);
    yield;
  });
  yield* eachObjectInSteps(sorted, itself, function* (route): Steps<void> {
    yield* wantAttachments(context, route, gateways, budget);
  });
  const states = yield* eachObjectInSteps(sorted, itself, function* (route): Steps<AnyRouteState> {
    const attached = yield* attachRoute(context, route, gateways, budget);
    problems.push(...attached.problems);
    // A backend with many endpoints takes a millisecond or two. Its result is cached when the rule is translated.
    for (const ref of backendRefsOf(route)) {
      references.resolve(route, ref);
      yield;
    }
    if (isStreamRoute(route)) {
      const rules = sameList(translateStreamRules(references, route));
      return streamState(route, sameList(attached.parents), rules);
    }
    const rules = sameList(
      yield* mapInSteps(rulesOf(route).entries(), ([index, rule]) => translateRule(references, route, index, rule)),
    );
    const isSupported = rules.some(isServed);
    const parents = mixesKinds ? conflicts.resolve(route, attached.parents, isSupported) : attached.parents;
    return routeState(route, sameList(parents), rules, isSupported);
  });
  return { routes: states.filter(isRequestState), streams: states.filter(isStreamState), problems };
}

/** The same state while nothing changes on which it depends. */
const routeState = memoisedWith(
  (
    route: RouteResource,
    parents: RouteState["parents"],
    rules: RouteState["rules"],
    isSupported: boolean,
  ): RouteState => ({ route, parents, rules, isSupported }),
);
const streamState = memoisedWith(
  (
    route: StreamRouteState["route"],
    parents: StreamRouteState["parents"],
    rules: StreamRouteState["rules"],
  ): StreamRouteState => ({ route, parents, rules, isSupported: true }),
);

/** Whether the state of a route is that of a stream route. */
export function isStreamState(state: AnyRouteState): state is StreamRouteState {
  return isStreamRoute(state.route);
}

function isRequestState(state: AnyRouteState): state is RouteState {
  return !isStreamState(state);
}

function rulesOf({ spec }: RouteResource): readonly RuleResource[] {
  return spec.rules;
}

/** Whether a parent accepts the route. */
export function isAcceptedBy(route: AnyRouteState, parent: ParentState): boolean {
  return route.isSupported && parent.rejection === undefined;
}

/** A route at one listener. */
export interface Attached<State extends AnyRouteState> {
  readonly state: State;
  readonly attachment: Attachment;
}

/** An HTTPRoute or a GRPCRoute at one listener. */
export type AttachedRoute = Attached<RouteState>;
/** A TLSRoute, TCPRoute or UDPRoute at one listener. */
export type AttachedStream = Attached<StreamRouteState>;

/** Routes by the key of each of their listeners, in their order, each once. */
export type RoutesByListener = ReadonlyMap<string, readonly AttachedRoute[]>;
/** The same for TLSRoutes, TCPRoutes and UDPRoutes. */
export type StreamsByListener = ReadonlyMap<string, readonly AttachedStream[]>;

/** The routes of all listeners. No listener has routes of both. */
export interface ListenerRoutes {
  readonly requests: RoutesByListener;
  readonly streams: StreamsByListener;
}

/** Returns the attached routes by the key of the listener, in the order of `routes`, each route once. */
export function* routesByListener<State extends AnyRouteState>(
  routes: readonly State[],
): Steps<ReadonlyMap<string, readonly Attached<State>[]>> {
  const byListener = new Map<string, Attached<State>[]>();
  yield* eachObject(routes, routeOf, (state) => {
    for (const attachment of state.parents.flatMap(({ attachments }) => attachments)) {
      const attached = byListener.get(attachment.listener.key);
      if (attached === undefined) byListener.set(attachment.listener.key, [{ state, attachment }]);
      // A route may attach to a listener by several parentRefs, with the same result.
      else if (attached.at(-1)?.state !== state) attached.push({ state, attachment });
    }
  });
  return byListener;
}

/** For `eachObject`. */
export const routeOf = ({ route }: { readonly route: AnyRoute }): AnyRoute => route;

/** Returns the key of a route in the snapshot (`routeKey`). */
export const keyOfRoute: (route: AnyRoute) => string = memoised(({ kind, metadata }) => routeKey(kind, metadata));

/** Returns the states of each route by its key. */
export function indexRoutes(routes: readonly AnyRouteState[]): ReadonlyMap<string, readonly AnyRouteState[]> {
  return Map.groupBy(routes, ({ route }) => keyOfRoute(route));
}
