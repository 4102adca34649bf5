/** Resolves routes of all kinds: their attachments and their rules. */
import { routeKey } from "@gatewayproxy/runtime/route-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import { type AnyRoute, type RouteResource, routesOf } from "../../api/resource.ts";
import type { ResourceProblem } from "../../api/resource-problem.ts";
import {
  type Attachment,
  attachRoute,
  comparisonsOf,
  type ParentListeners,
  parentListeners,
  type ParentState,
  wantAttachments,
  wantComparisons,
} from "./attachment.ts";
import {
  AttachmentBudget,
  maxComparisons,
  maxServedAttachments,
  maxValidatedAttachments,
} from "./attachment-budget.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { BackendResolution } from "../backend/service-backend.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject, eachObjectInSteps, itself } from "../each-object.ts";
import type { ResolvedGateways } from "../gateway/gateways.ts";
import type { NamespaceLabels } from "../index/namespaces.ts";
import { sortByAge } from "../index/object-names.ts";
import { hasSameItems, memoised, memoisedWith, sameList } from "@gatewayproxy/runtime/memoised";
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

/** What the state of a route was computed from. */
interface KnownRoute {
  /** The listeners of each parent. */
  readonly listeners: ParentListeners;
  readonly labelsOf: NamespaceLabels;
  /** Of each reference, in the order of `backendRefsOf`. */
  readonly resolutions: readonly BackendResolution[];
  /** Before conflicts with routes of another kind. */
  readonly parents: readonly ParentState[];
  readonly stateWith: (parents: readonly ParentState[]) => AnyRouteState;
  readonly isSupported: boolean;
}

/** The last resolution of each route. Only those whose parents are all of this controller, and within all bounds. */
const knownRoutes = new WeakMap<AnyRoute, KnownRoute>();

/** Resolves all routes. */
export function* resolveRoutes(
  context: TranslationContext,
  gateways: ResolvedGateways,
  references: BackendReferences,
): Steps<ResolvedRoutes> {
  const problems: ResourceProblem[] = [];
  const { HTTPRoute, GRPCRoute } = context.index.resources;
  const { labelsOf } = context.index;
  const sorted = sortByAge(routesOf(context.index.resources));
  const wanted = yield* eachObject(sorted, itself, (route) => {
    for (const ref of backendRefsOf(route)) references.want(route, ref);
    return { route, listeners: parentListeners(route, gateways) };
  });
  const budget = yield* attachmentBudget(context, wanted, gateways);
  const kinds = HTTPRoute.length > 0 && GRPCRoute.length > 0 ? new KindConflicts() : undefined;
  const withoutConflicts = (route: AnyRoute, parents: readonly ParentState[], isSupported: boolean) =>
    kinds === undefined || isStreamRoute(route) ? parents : kinds.resolve(route, parents, isSupported);

  const knownState = ({ route, listeners }: WantedRoute): AnyRouteState | undefined => {
    const known = budget === undefined ? knownRoutes.get(route) : undefined;
    if (known === undefined || known.labelsOf !== labelsOf || !hasSameItems(known.listeners, listeners)) {
      return undefined;
    }
    const isSame = backendRefsOf(route).every((ref, at) => references.resolve(route, ref) === known.resolutions[at]);
    return isSame ? known.stateWith(withoutConflicts(route, known.parents, known.isSupported)) : undefined;
  };
  const routeOfWanted = ({ route }: WantedRoute): AnyRoute => route;
  const states = yield* eachObjectInSteps(
    wanted,
    routeOfWanted,
    function* ({ route, listeners }): Steps<AnyRouteState> {
      const attached = yield* attachRoute(context, route, gateways, budget);
      problems.push(...attached.problems);
      const parents = sameList(attached.parents);
      const resolutions: BackendResolution[] = [];
      // A backend with many endpoints takes a millisecond or two. Its result is cached when the rule is translated.
      for (const ref of backendRefsOf(route)) {
        resolutions.push(references.resolve(route, ref));
        yield;
      }
      const resolved = yield* resolveRules(references, route);
      // A parent of another controller may be deleted, which is a problem.
      if (listeners.every((each) => each !== undefined) && budget === undefined) {
        knownRoutes.set(route, { listeners, labelsOf, resolutions, parents, ...resolved });
      }
      return resolved.stateWith(withoutConflicts(route, parents, resolved.isSupported));
    },
    knownState,
  );
  return { routes: states.filter(isRequestState), streams: states.filter(isStreamState), problems };
}

interface WantedRoute {
  readonly route: AnyRoute;
  readonly listeners: ParentListeners;
}

/** Returns the budget with the demands of all routes; undefined if they are too few to exceed any bound. */
function* attachmentBudget(
  context: TranslationContext,
  wanted: readonly WantedRoute[],
  gateways: ResolvedGateways,
): Steps<AttachmentBudget | undefined> {
  // A route is attached to listeners with which it is compared.
  const comparisons = wanted.reduce((sum, { listeners }) => sum + comparisonsOf(listeners), 0);
  if (comparisons <= Math.min(maxServedAttachments, maxValidatedAttachments, maxComparisons)) return undefined;
  const budget = new AttachmentBudget(context.placeOf);
  const routes = wanted.map(({ route }) => route);
  yield* eachObject(routes, itself, (route) => wantComparisons(route, gateways, budget));
  yield* eachObjectInSteps(routes, itself, function* (route): Steps<void> {
    yield* wantAttachments(context, route, gateways, budget);
  });
  return budget;
}

/** Resolves the rules of a route. */
function* resolveRules(
  references: BackendReferences,
  route: AnyRoute,
): Steps<Pick<KnownRoute, "stateWith" | "isSupported">> {
  if (isStreamRoute(route)) {
    const streamRules = translateStreamRules(references, route);
    return { stateWith: (parents) => streamState(route, sameList(parents), streamRules), isSupported: true };
  }
  const rules = sameList(
    yield* mapInSteps(rulesOf(route).entries(), ([index, rule]) => translateRule(references, route, index, rule)),
  );
  const isSupported = rules.some(isServed);
  return { stateWith: (parents) => routeState(route, sameList(parents), rules, isSupported), isSupported };
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
