/** Resolves routes of all kinds: their attachments and their rules. */
import { routeKey } from "@gatewayproxy/runtime/route-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { AnyRoute, RouteResource } from "../../api/resource.ts";
import type { ResourceProblem } from "../../api/resource-problem.ts";
import {
  type Attachment,
  attachRoute,
  countComparisons,
  missingParent,
  parentsIn,
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
import { type BackendReferences, routeReferences } from "../backend/backends.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject, eachObjectInSteps, eachPage, itself } from "../each-object.ts";
import type { ResolvedGateways } from "../gateway/gateways.ts";
import { namespacesIn } from "../index/namespaces.ts";
import type { Pages } from "@gatewayproxy/runtime/lists";
import {
  hasSameItems,
  keepingEqual,
  KnownValues,
  memoised,
  memoisedInSteps,
  memoisedWith,
  sameList,
} from "@gatewayproxy/runtime/memoised";
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
 * All routes, and the problems with their content. All lists are in the order in which the Gateway API prefers routes:
 * oldest first, then by namespace and name. A page stays the same list while no state in it changes.
 */
export interface ResolvedRoutes {
  /** HTTPRoutes and GRPCRoutes. */
  readonly routes: Pages<RouteState>;
  /** TLSRoutes, TCPRoutes and UDPRoutes. */
  readonly streams: Pages<StreamRouteState>;
  readonly problems: readonly ResourceProblem[];
}

/** The parents of each route of a page. */
type ParentsOfRoutes = readonly (readonly ParentState[])[];

/** The last parents of each page. Most pages keep them where a budget has to be shared out, too. */
const knownParents = new KnownValues<readonly AnyRoute[], ParentsOfRoutes>();
const keptParents = keepingEqual<ParentsOfRoutes>(hasSameItems);

/** The rules of a route. */
type Rules = AnyRouteState["rules"];

/** The last rules of each page. */
const knownRules = new KnownValues<readonly AnyRoute[], readonly Rules[]>();

/** Returns the states of a page, before conflicts with routes of another kind. */
const statesIn = memoisedWith(
  (page: readonly AnyRoute[], parents: ParentsOfRoutes, rules: readonly Rules[]): readonly AnyRouteState[] =>
    sameList(page.map((route, at) => stateOf(route, parents[at] ?? [], rules[at] ?? []))),
);

/** Resolves all routes. */
export function* resolveRoutes(
  context: TranslationContext,
  gateways: ResolvedGateways,
  references: BackendReferences,
): Steps<ResolvedRoutes> {
  const { routes: pages, resources, labelsOf } = context.index;
  const { HTTPRoute, GRPCRoute } = resources;
  if (!references.hasAmpleBudgets) {
    yield* eachObject(pages.flat(), itself, (route) => {
      for (const ref of backendRefsOf(route)) references.want(route, ref);
    });
  }
  const budget = yield* attachmentBudget(context, pages, gateways);
  const kinds = HTTPRoute.length > 0 && GRPCRoute.length > 0 ? new KindConflicts() : undefined;
  const problems: ResourceProblem[] = [];
  const attachPage = function* (page: readonly AnyRoute[]): Steps<ParentsOfRoutes> {
    const parents = yield* eachObjectInSteps(page, itself, function* (route) {
      const attached = yield* attachRoute(context, route, gateways, budget);
      problems.push(...attached.problems);
      return sameList(attached.parents);
    });
    return keptParents(page, parents);
  };
  const rulesOfPage = function* (page: readonly AnyRoute[]): Steps<readonly Rules[]> {
    // A backend with many endpoints takes a millisecond or two. Its result is cached when the rules are translated.
    yield* eachObject(routeReferences(page), routeOf, ({ route, ref }) => references.resolve(route, ref), 1);
    return yield* eachObjectInSteps(page, itself, (route) => resolveRules(references, route));
  };
  const resolved = yield* eachPage(pages, function* (page): Steps<readonly AnyRouteState[]> {
    const named = parentsIn(page, gateways);
    // A budget is a state, and a parent that does not exist is a problem.
    const isKept = budget === undefined && !named.includes(missingParent);
    const parents = yield* isKept
      ? knownParents.get(page, [...named, ...namespacesIn(page).map(labelsOf)], () => attachPage(page))
      : attachPage(page);
    const rules = yield* knownRules.get(page, [references.inputsOf(page)], () => rulesOfPage(page));
    return withoutConflicts(statesIn(page, parents, rules), kinds);
  });
  return { routes: nonEmpty(resolved.map(requestStates)), streams: nonEmpty(resolved.map(streamStates)), problems };
}

function nonEmpty<State>(pages: Pages<State>): Pages<State> {
  return pages.filter(({ length }) => length > 0);
}

/** Returns the budget with the demands of all routes; undefined if they are too few to exceed any bound. */
function* attachmentBudget(
  context: TranslationContext,
  pages: Pages<AnyRoute>,
  gateways: ResolvedGateways,
): Steps<AttachmentBudget | undefined> {
  // A route is attached to listeners with which it is compared.
  const comparisons = new Map<string, number>();
  for (const page of pages) {
    countComparisons(page, gateways, context.placeOf, comparisons);
    yield;
  }
  const counts = [...comparisons.values()];
  const all = counts.reduce((sum, count) => sum + count, 0);
  const isServed = counts.every((count) => count <= maxServedAttachments);
  if (isServed && all <= Math.min(maxValidatedAttachments, maxComparisons)) return undefined;
  const budget = new AttachmentBudget(context.placeOf);
  const routes = pages.flat();
  yield* eachObject(routes, itself, (route) => wantComparisons(route, gateways, budget));
  yield* eachObjectInSteps(routes, itself, function* (route): Steps<void> {
    yield* wantAttachments(context, route, gateways, budget);
  });
  return budget;
}

function* resolveRules(references: BackendReferences, route: AnyRoute): Steps<Rules> {
  if (isStreamRoute(route)) return translateStreamRules(references, route);
  return sameList(
    yield* mapInSteps(rulesOf(route).entries(), ([index, rule]) => translateRule(references, route, index, rule)),
  );
}

/** @param rules of `resolveRules`, which depend on the kind of the route. */
function stateOf(route: AnyRoute, parents: readonly ParentState[], rules: Rules): AnyRouteState {
  if (isStreamRoute(route)) return streamState(route, parents, rules as StreamRouteState["rules"]);
  const ofRequests = rules as RouteState["rules"];
  return routeState(route, parents, ofRequests, ofRequests.some(isServed));
}

/** Returns the states without attachments to listeners that have an earlier route of another kind. */
function withoutConflicts(
  states: readonly AnyRouteState[],
  kinds: KindConflicts | undefined,
): readonly AnyRouteState[] {
  if (kinds === undefined) return states;
  return sameList(
    states.map((state) =>
      isStreamState(state)
        ? state
        : withParents(state, ...kinds.resolve(state.route, state.parents, state.isSupported)),
    ),
  );
}

/** Returns the same state for the same parents. */
const withParents = memoisedWith(
  (state: RouteState, ...parents: readonly ParentState[]): RouteState =>
    hasSameItems(state.parents, parents) ? state : { ...state, parents },
);

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

const requestStates = memoised((page: readonly AnyRouteState[]): readonly RouteState[] =>
  sameList(page.flatMap((state) => (isStreamState(state) ? [] : [state]))),
);
const streamStates = memoised((page: readonly AnyRouteState[]): readonly StreamRouteState[] =>
  sameList(page.filter(isStreamState)),
);

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
export type RoutesByListener = ReadonlyMap<string, Pages<AttachedRoute>>;
/** The same for TLSRoutes, TCPRoutes and UDPRoutes. */
export type StreamsByListener = ReadonlyMap<string, Pages<AttachedStream>>;

/** The routes of all listeners. No listener has routes of both. */
export interface ListenerRoutes {
  readonly requests: RoutesByListener;
  readonly streams: StreamsByListener;
}

/** Returns the attached routes by the key of the listener, in the order of `routes`, each route once. */
export function* routesByListener<State extends AnyRouteState>(
  pages: Pages<State>,
): Steps<ReadonlyMap<string, Pages<Attached<State>>>> {
  const byListener = new Map<string, (readonly Attached<State>[])[]>();
  yield* eachPage(pages, function* (page): Steps<void> {
    // The routes of a page of states have the type of the states.
    const ofPage = (yield* attachedIn(page)) as ReadonlyMap<string, readonly Attached<State>[]>;
    for (const [listener, attached] of ofPage) {
      const known = byListener.get(listener);
      if (known === undefined) byListener.set(listener, [attached]);
      else known.push(attached);
    }
  });
  return byListener;
}

/** Returns the routes of a page by the key of the listener. */
const attachedIn = memoisedInSteps(function* (
  page: readonly AnyRouteState[],
): Steps<ReadonlyMap<string, readonly Attached<AnyRouteState>[]>> {
  const byListener = new Map<string, Attached<AnyRouteState>[]>();
  yield* eachObject(page, routeOf, (state) => {
    for (const attachment of state.parents.flatMap(({ attachments }) => attachments)) {
      const attached = byListener.get(attachment.listener.key);
      if (attached === undefined) byListener.set(attachment.listener.key, [{ state, attachment }]);
      // A route may attach to a listener by several parentRefs, with the same result.
      else if (attached.at(-1)?.state !== state) attached.push({ state, attachment });
    }
  });
  return byListener;
});

/** For `eachObject`. */
export const routeOf = ({ route }: { readonly route: AnyRoute }): AnyRoute => route;

/** Returns the key of a route in the snapshot (`routeKey`). */
export const keyOfRoute: (route: AnyRoute) => string = memoised(({ kind, metadata }) => routeKey(kind, metadata));

/** Returns the states of each route by its key. */
export function indexRoutes(routes: readonly AnyRouteState[]): ReadonlyMap<string, readonly AnyRouteState[]> {
  return Map.groupBy(routes, ({ route }) => keyOfRoute(route));
}
