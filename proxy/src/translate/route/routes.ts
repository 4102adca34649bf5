/** Resolves HTTPRoutes and GRPCRoutes: their attachments and their rules. */
import { routeKey } from "@gatewayproxy/runtime/route-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { RouteResource } from "../../api/resource.ts";
import type { ResourceProblem } from "../../api/resource-problem.ts";
import { type Attachment, attachRoute, type ParentState, wantAttachments, wantComparisons } from "./attachment.ts";
import { AttachmentBudget } from "./attachment-budget.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { TranslationContext } from "../context.ts";
import { eachObject, eachObjectInSteps, itself } from "../each-object.ts";
import type { ResolvedGateways } from "../gateway/gateways.ts";
import { sortByAge } from "../index/object-names.ts";
import { backendRefsOf } from "../reference/references.ts";
import { KindConflicts } from "./kind-conflicts.ts";
import { isServed, type RuleResource, type RuleState, translateRule } from "./rules.ts";

/** A route with its parents and rules. */
export interface RouteState {
  readonly route: RouteResource;
  readonly parents: readonly ParentState[];
  readonly rules: readonly RuleState[];
  /** Whether any rule is valid. A route without one is accepted nowhere. */
  readonly isSupported: boolean;
}

/** All routes, and the problems with their content. */
export interface ResolvedRoutes {
  /** Oldest first, then by namespace and name: the order in which the Gateway API prefers routes. */
  readonly routes: readonly RouteState[];
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
  const { HTTPRoute, GRPCRoute } = context.index.resources;
  const sorted = sortByAge<RouteResource>([...HTTPRoute, ...GRPCRoute]);
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
  const routes = yield* eachObjectInSteps(sorted, itself, function* (route): Steps<RouteState> {
    const attached = yield* attachRoute(context, route, gateways, budget);
    problems.push(...attached.problems);
    // A backend with many endpoints takes a millisecond or two. Its result is cached when the rule is translated.
    for (const ref of backendRefsOf(route)) {
      references.resolve(route, ref);
      yield;
    }
    const rules = yield* mapInSteps(rulesOf(route).entries(), ([index, rule]) =>
      translateRule(references, route, index, rule),
    );
    const isSupported = rules.some(isServed);
    return { route, parents: conflicts.resolve(route, attached.parents, isSupported), rules, isSupported };
  });
  return { routes, problems };
}

function rulesOf({ spec }: RouteResource): readonly RuleResource[] {
  return spec.rules;
}

/** Whether a parent accepts the route. */
export function isAcceptedBy(route: RouteState, parent: ParentState): boolean {
  return route.isSupported && parent.rejection === undefined;
}

/** A route at one listener. */
export interface AttachedRoute {
  readonly state: RouteState;
  readonly attachment: Attachment;
}

/** Returns routes by the key of each of their listeners, in their order, each once. */
export type RoutesByListener = ReadonlyMap<string, readonly AttachedRoute[]>;

/** Returns the attached routes by the key of the listener, in the order of `routes`, each route once. */
export function* routesByListener(routes: readonly RouteState[]): Steps<RoutesByListener> {
  const byListener = new Map<string, AttachedRoute[]>();
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
export const routeOf = ({ route }: RouteState): RouteResource => route;

/** Returns the key of a route in the snapshot (`routeKey`). */
export function keyOfRoute({ kind, metadata }: RouteResource): string {
  return routeKey(kind, metadata);
}

/** Returns the states of each route by its key. */
export function indexRoutes(routes: readonly RouteState[]): ReadonlyMap<string, readonly RouteState[]> {
  return Map.groupBy(routes, ({ route }) => keyOfRoute(route));
}
