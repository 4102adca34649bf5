/**
 * Bounds the regular expressions of the routes in one process, since they take memory in every worker. Namespaces share
 * the bound fairly (`fair-share.ts`). In a namespace that exceeds its share, the oldest rules are served.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { Match } from "../../ir/match.ts";
import { patternSize } from "../../regex/pattern.ts";
import { eachObject, eachPage } from "../each-object.ts";
import { fairShares } from "../fair-share.ts";
import type { Finding } from "../status/finding.ts";
import type { Pages } from "@gatewayproxy/runtime/lists";
import { memoised, memoisedInSteps, sameList } from "@gatewayproxy/runtime/memoised";
import { routeOf, type RouteState } from "./routes.ts";
import { isServed, type RuleState } from "./rules.ts";

/** Maximum size of all regular expressions of a process. Equal texts of a namespace count once. */
export const maxServedPatternSize = 32_000;

/**
 * Returns the routes, oldest first, without the regular expressions that exceed the share of their namespace in the
 * process that serves them. If processes serve a route differently, there are several states of it, each with the
 * parents that are served in the same way.
 *
 * @param placeOf names the process that serves a Gateway.
 */
export function* shareOutPatterns(
  routes: Pages<RouteState>,
  placeOf: (gateway: Gateway) => string,
): Steps<Pages<RouteState>> {
  // Most routes have none, and are the same in all processes.
  const ofPages = yield* eachPage(routes, (page) => statesWithPatterns(page));
  const withPatterns = ofPages.flat();
  if (withPatterns.length === 0) return routes;
  const views = new Map(yield* eachObject(withPatterns, routeOf, (state) => [state, viewsOf(state, placeOf)] as const));
  const byPlace = Map.groupBy([...views.values()].flat(), ({ place }) => place);
  const shared = new Map<RouteState, RouteState>();
  for (const [, ofPlace] of byPlace) {
    const states = ofPlace.map(({ state }) => state);
    const servedStates = yield* shareOut(states, maxServedPatternSize);
    servedStates.forEach((served, index) => {
      const state = states[index];
      if (state !== undefined) shared.set(state, served);
    });
  }
  return routes.map((page, at) =>
    ofPages[at]?.length === 0
      ? page
      : sameList(
          page.flatMap((state) => {
            const served = (views.get(state) ?? []).map((view) => shared.get(view.state) ?? view.state);
            const isWhole = served.every(({ rules }) => rules.every((rule, each) => rule === state.rules[each]));
            return isWhole ? [state] : served;
          }),
        ),
  );
}

const statesWithPatterns = memoisedInSteps(function* (page: readonly RouteState[]): Steps<readonly RouteState[]> {
  const found = yield* eachObject(page, routeOf, (state) =>
    state.rules.some((rule) => patternsOf(rule).length > 0) ? [state] : [],
  );
  return found.flat();
});

/** The states of a route by process. */
function viewsOf(
  state: RouteState,
  placeOf: (gateway: Gateway) => string,
): readonly { readonly place: string; readonly state: RouteState }[] {
  const places = Map.groupBy(state.parents, ({ attachments: [first] }) => first && placeOf(first.listener.gateway));
  const rejected = places.get(undefined) ?? [];
  places.delete(undefined);
  if (places.size === 0) return [{ place: "", state }];
  return Array.from(places, ([place = "", parents], index) => ({
    place,
    // Parents that do not accept it are in only one of the states.
    state: { ...state, parents: index === 0 ? [...parents, ...rejected] : parents },
  }));
}

function* shareOut(routes: readonly RouteState[], capacity: number): Steps<readonly RouteState[]> {
  const wanted = new Map<string, PatternSet>();
  yield* eachObject(routes.filter(isAttached), routeOf, (state) => {
    for (const source of state.rules.flatMap(patternsOf)) setOf(wanted, state).add([source]);
  });
  const shares = fairShares(new Map(Array.from(wanted, ([namespace, { size }]) => [namespace, size])), capacity);
  const served = new Map<string, PatternSet>();
  return yield* eachObject(routes, routeOf, (state) => {
    if (!isAttached(state)) return state;
    const { namespace } = state.route.metadata;
    const share = shares.get(namespace) ?? 0;
    const own = setOf(served, state);
    const rules = state.rules.map((rule, index) => {
      const sources = patternsOf(rule);
      if (own.sizeWith(sources) > share) return withoutPatterns(rule, beyondShare(namespace, share, index));
      own.add(sources);
      return rule;
    });
    return { ...state, rules, isSupported: rules.some(isServed) };
  });
}

/** Distinct patterns and their total size. */
class PatternSet {
  readonly #sources = new Set<string>();
  size = 0;

  sizeWith(sources: readonly string[]): number {
    const added = new Set(sources.filter((source) => !this.#sources.has(source)));
    return [...added].reduce((size, source) => size + patternSize(source), this.size);
  }

  add(sources: readonly string[]): void {
    this.size = this.sizeWith(sources);
    for (const source of sources) this.#sources.add(source);
  }
}

function setOf(sets: Map<string, PatternSet>, { route }: RouteState): PatternSet {
  const { namespace } = route.metadata;
  const set = sets.get(namespace) ?? new PatternSet();
  sets.set(namespace, set);
  return set;
}

/** Whether a route is compiled: it is attached to a listener. */
function isAttached({ parents }: RouteState): boolean {
  return parents.some(({ attachments }) => attachments.length > 0);
}

const patternsOf = memoised(({ rule }: RuleState): readonly string[] =>
  rule.matches.flatMap((match) =>
    conditionsOf(match).flatMap(({ kind, value }) => (kind === "RegularExpression" ? [value] : [])),
  ),
);

function conditionsOf({ path, headers, query }: Match) {
  return [path, ...headers, ...query];
}

function beyondShare(namespace: string, share: number, index: number): Finding<"UnsupportedValue"> {
  const message = `found more regular expressions than namespace ${namespace} has a share of: accepted is a size of ${share} in all its routes of this Gateway together, and older rules come first`;
  return { reason: "UnsupportedValue", message, path: ["spec", "rules", index, "matches"] };
}

/** Returns the rule without these matches. As any invalid rule, it responds with 500. */
function withoutPatterns(state: RuleState, finding: Finding<"UnsupportedValue">): RuleState {
  const matches = state.rule.matches.filter((match) =>
    conditionsOf(match).every(({ kind }) => kind !== "RegularExpression"),
  );
  return {
    ...state,
    rule: { ...state.rule, matches, filters: [], backendRefs: [] },
    backends: [],
    findings: [...state.findings, finding],
  };
}
