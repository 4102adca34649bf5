/**
 * Describes rules that get fewer requests than their matches suggest, since another rule has precedence, for statuses
 * and for operators. The owner of a route reads its status, which therefore names no route of another namespace
 * (docs/adr/0019). Operators see all names.
 */
import { redactPath } from "@gatewayproxy/runtime/redaction";
import { type RouteKind, routeKind, routeName, routeTitle } from "@gatewayproxy/runtime/route-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { FieldPath } from "../../api/issue.ts";
import type { ConflictDecision } from "../../api/status.ts";
import type { Match } from "../../ir/match.ts";
import type {
  Conflict,
  ConflictRoute,
  Decision,
  FoundConflicts,
  ListenerConflicts,
  RuleReach,
} from "../../routing/conflicts/findings.ts";
import { type ComparedListener, ConflictFinder } from "../../routing/conflict-finder.ts";
import type { TranslationContext } from "../context.ts";
import type { Attachment } from "./attachment.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import type { Pages } from "@gatewayproxy/runtime/lists";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { type AttachedRoute, keyOfRoute, type RoutesByListener, type RouteState } from "./routes.ts";

/** A rule that loses requests, as operators see it. */
export interface RuleConflict {
  /** Key of the route. */
  readonly route: string;
  /** Key of the rule. */
  readonly rule: string;
  readonly fieldPath: FieldPath;
  /** False if no request can reach the rule, at any listener. */
  readonly isReachable: boolean;
  readonly winners: readonly ConflictWinner[];
  /** The number of further winners. */
  readonly winnersLeftOut: number;
  /** A sentence that describes all of it. */
  readonly message: string;
}

/** The rule or listener that gets the requests, where, and why. */
export interface ConflictWinner {
  /** Key of the listener of both. */
  readonly listener: string;
  /** Absent for every host of the listener. */
  readonly hostname?: string;
  /** The route and the key of the rule; absent if another listener has the hosts. */
  readonly route?: string;
  readonly rule?: string;
  /** Key of the listener that has the hosts instead. */
  readonly takenBy?: string;
  readonly decidedBy: ConflictDecision;
  readonly extent: Conflict["extent"];
}

/** The reported conflicts. Their number is bounded, since thousands of equal routes are one error. */
export interface RouteConflicts {
  /** Oldest route first; at most `maxReportedConflicts`. */
  readonly found: readonly RuleConflict[];
  /** Rules beyond them. */
  readonly leftOut: number;
  /** The number of hostnames whose routes were not compared, since that would take too long. */
  readonly unexaminedHostnames: number;
}

/** The most conflicts that operators see; further ones are counted. */
export const maxReportedConflicts = 500;

/** Maximum number of winners of a rule, over all its listeners. */
const maxReportedWinners = 4;
/** Maximum number of rules of a route. */
const maxReportedRules = 3;
/** Maximum length of a path in a message, in characters. A path has up to 1,024. */
const longestPath = 128;

/** The result for a rule at several listeners. */
export interface RuleVerdict extends Pick<RuleReach, "isReachable" | "leftOut"> {
  readonly index: number;
  /** At most `maxReportedWinners`; `leftOut` counts the others. */
  readonly conflicts: readonly ConflictAt[];
}

/** A conflict with the key of its listener. */
interface ConflictAt extends Conflict {
  readonly listener: string;
}

/** Finds the conflicts between routes. Gateways of one process share addresses. */
export function* resolveConflicts(
  { placeOf, pathRules }: TranslationContext,
  gateways: readonly GatewayState[],
  routes: RoutesByListener,
): Steps<ResolvedConflicts> {
  const programmed = gateways.flatMap(({ gateway, addresses, listeners: own, sets }) =>
    [...own, ...sets.flatMap((set) => set.listeners)]
      .filter(({ isProgrammed }) => isProgrammed)
      .map((state) => ({ gateway, addresses, state })),
  );
  const listeners = yield* mapInSteps(programmed, ({ gateway, addresses, state }): ComparedListener => {
    const { key, listener } = state;
    const { hostname, port } = listener;
    return {
      key,
      ...(hostname !== undefined && { hostname }),
      sockets: addresses.map((address) => `${placeOf(gateway)} ${address ?? ""} ${port}`),
      routes: (routes.get(key) ?? []).map(conflictRoutesIn),
    };
  });
  const [first] = gateways;
  const finder = first === undefined ? new ConflictFinder() : finderOf(first.gateway);
  const found = yield* finder.find(listeners, pathRules);
  const states = new Set<RouteState>();
  if (found.byListener.size === 0) return new ResolvedConflicts(found, states);
  // A route may have many listeners.
  for (const attached of routes.values()) {
    for (const { state } of attached.flat()) states.add(state);
    yield;
  }
  return new ResolvedConflicts(found, states);
}

/** The finder of each configuration, by its first Gateway. */
const finderOf = memoised<Gateway, ConflictFinder>(() => new ConflictFinder());

/** By the hostnames of an attachment, which belong to one route. */
const conflictRoutes = new WeakMap<readonly string[], ConflictRoute>();

/** Returns the same object for a route at all listeners with the same hostnames. */
function conflictRouteOf({ state: { route, rules }, attachment: { hostnames } }: AttachedRoute): ConflictRoute {
  const known = conflictRoutes.get(hostnames);
  if (known !== undefined) return known;
  const { creationTimestamp } = route.metadata;
  const age = creationTimestamp === undefined ? {} : { creationTimestamp };
  const conflictRoute = { key: keyOfRoute(route), hostnames, ...age, rules: matchesOf(rules) };
  conflictRoutes.set(hostnames, conflictRoute);
  return conflictRoute;
}

const conflictRoutesIn = memoised((page: readonly AttachedRoute[]) => page.map(conflictRouteOf));

/** Returns the same object for the same rules, so that the matches of a route are read once for several listeners. */
const matchesOf = memoised((rules: RouteState["rules"]) => rules.map(({ rule: { matches } }) => ({ matches })));

/** The keys of the routes that lose requests at any listener. */
const losersIn = memoised(
  (byListener: FoundConflicts["byListener"]): ReadonlySet<string> =>
    new Set(byListener.values().flatMap(({ losers }) => losers)),
);

/** The conflicts of all routes, described for the owner of each and for operators. */
export class ResolvedConflicts {
  readonly #found: FoundConflicts;
  /** By key. The rules of several states of a route have the same names. */
  readonly #routes: ReadonlyMap<string, RouteState>;

  constructor(found: FoundConflicts, attached: ReadonlySet<RouteState>) {
    this.#found = found;
    this.#routes = new Map(
      found.byListener.size === 0 ? [] : Array.from(attached, (state) => [keyOfRoute(state.route), state]),
    );
  }

  /** False if no rule of a route loses requests. */
  mayLose(route: RouteState["route"]): boolean {
    return losersIn(this.#found.byListener).has(keyOfRoute(route));
  }

  /** Whether no rule loses requests. */
  get isEmpty(): boolean {
    return this.#found.byListener.size === 0;
  }

  /**
   * Returns the rules that lose requests at the programmed ones of these listeners together. A rule is reachable if one
   * of them serves it.
   */
  verdicts({ route, rules }: RouteState, attachments: readonly Attachment[]): readonly RuleVerdict[] {
    if (!this.mayLose(route)) return [];
    const key = keyOfRoute(route);
    const programmed = new Set(
      attachments.filter(({ listener }) => listener.isProgrammed).map(({ listener }) => listener.key),
    );
    // Listeners with the same routes have the same conflicts, in one object.
    const known = new Map<ListenerConflicts, readonly RuleReach[] | undefined>();
    const reaches = Array.from(programmed, (listener) => {
      const conflicts = this.#found.byListener.get(listener);
      if (conflicts !== undefined && !known.has(conflicts)) known.set(conflicts, conflicts.reachesOf(key));
      return { listener, ofRules: conflicts && known.get(conflicts) };
    });
    if (!reaches.some(({ ofRules }) => ofRules !== undefined)) return [];
    return rules.flatMap((_, index): RuleVerdict[] => {
      const conflicts: ConflictAt[] = [];
      let isReachable = false;
      let leftOut = 0;
      for (const { listener, ofRules } of reaches) {
        const reach = ofRules?.[index];
        isReachable ||= reach?.isReachable !== false;
        if (reach === undefined) continue;
        const described = reach.conflicts.slice(0, maxReportedWinners - conflicts.length);
        conflicts.push(...described.map((conflict) => ({ listener, ...conflict })));
        leftOut += reach.leftOut + reach.conflicts.length - described.length;
      }
      return conflicts.length === 0 ? [] : [{ index, isReachable, conflicts, leftOut }];
    });
  }

  /** Returns the conflicts for operators. */
  *report(states: Pages<RouteState>): Steps<RouteConflicts> {
    const found: RuleConflict[] = [];
    let all = 0;
    for (const state of this.isEmpty ? [] : states.flat()) {
      const verdicts = this.verdicts(
        state,
        state.parents.flatMap(({ attachments }) => attachments),
      );
      all += verdicts.length;
      yield;
      for (const verdict of verdicts.slice(0, Math.max(0, maxReportedConflicts - found.length))) {
        found.push(describeForOperators(state, verdict, (name) => this.#routes.get(name)));
      }
    }
    return { found, leftOut: all - found.length, unexaminedHostnames: this.#found.unexamined };
  }

  /** Describes the verdicts for the status of the route, or of a policy of its namespace. */
  describeForOwner(state: RouteState, verdicts: readonly RuleVerdict[]): string {
    // Unreachable rules come first.
    const sorted = verdicts.toSorted((a, b) => Number(a.isReachable) - Number(b.isReachable) || a.index - b.index);
    const words = ownersWords(state, (name) => this.#routes.get(name));
    const described = sorted.slice(0, maxReportedRules).map((verdict) => describe(state, verdict, words));
    const rest = sorted.length - described.length;
    return [...described, ...(rest > 0 ? [`and ${rest} more rules`] : [])].join("; ");
  }
}

/** Whether no request can reach any rule of a route, by its verdicts. */
export function isWhollyShadowed({ rules }: RouteState, verdicts: readonly RuleVerdict[]): boolean {
  return verdicts.length === rules.length && verdicts.every(({ isReachable }) => !isReachable);
}

/** Returns the reason of a condition, from the first verdict. */
export function decisionOf(verdicts: readonly RuleVerdict[]): ConflictDecision {
  const first = verdicts.find(({ isReachable }) => !isReachable) ?? verdicts[0];
  return decisionReasons[first?.conflicts[0]?.decidedBy ?? "RuleOrder"];
}

const decisionReasons = {
  Listener: "MoreSpecificListener",
  Hostname: "MoreSpecificHostname",
  Age: "OlderRoute",
  Name: "NameOrder",
  RuleOrder: "RuleOrder",
} as const satisfies Record<Decision, ConflictDecision>;

const decisionWords: Readonly<Record<Exclude<Decision, "Listener">, string>> = {
  Hostname: "its route's hostname is more specific",
  Age: "its route is older",
  Name: "its route comes first by namespace/name, and both are equally old",
  RuleOrder: "it comes earlier in the route",
};

function describeForOperators(
  state: RouteState,
  verdict: RuleVerdict,
  find: (name: string) => RouteState | undefined,
): RuleConflict {
  const { rule } = state.rules[verdict.index] ?? {};
  const winners = verdict.conflicts.map((conflict): ConflictWinner => {
    const { listener, hostname, winner, decidedBy, extent } = conflict;
    const who =
      winner.kind === "listener"
        ? { takenBy: winner.listener }
        : { route: winner.route, rule: find(winner.route)?.rules[winner.rule]?.rule.key ?? winner.route };
    const host = hostname === undefined ? {} : { hostname };
    return { listener, ...host, ...who, decidedBy: decisionReasons[decidedBy], extent };
  });
  const words = (winner: Extract<Conflict["winner"], { kind: "rule" }>): string => {
    const route = find(winner.route);
    return `${ruleLabel(route, winner.rule)} of ${routeTitle(winner.route)}`;
  };
  return {
    route: keyOfRoute(state.route),
    rule: rule?.key ?? "",
    fieldPath: ["spec", "rules", verdict.index],
    isReachable: verdict.isReachable,
    winners,
    winnersLeftOut: verdict.leftOut,
    message: describe(state, verdict, { rule: words, listener: (key) => `listener ${key}` }),
  };
}

/** Returns `an HTTPRoute`, `a TCPRoute`. */
export function kindWithArticle(kind: RouteKind): string {
  return kind === "HTTPRoute" ? `an ${kind}` : `a ${kind}`;
}

interface Words {
  readonly rule: (winner: Extract<Conflict["winner"], { kind: "rule" }>) => string;
  readonly listener: (key: string) => string;
}

function ownersWords(state: RouteState, find: (name: string) => RouteState | undefined): Words {
  const own = keyOfRoute(state.route);
  const { namespace } = state.route.metadata;
  return {
    rule: ({ route, rule }) => {
      if (route === own) return ruleLabel(state, rule);
      const isKnown = routeName(route).startsWith(`${namespace}/`);
      return isKnown
        ? `${ruleLabel(find(route), rule)} of ${routeTitle(route)}`
        : `a rule of ${kindWithArticle(routeKind(route))} of another namespace`;
    },
    listener: () => "another listener of the port",
  };
}

function describe(state: RouteState, { index, isReachable, conflicts, leftOut }: RuleVerdict, words: Words): string {
  const [first] = conflicts;
  const rule = ruleLabel(state, index);
  if (first === undefined) return "";
  const { winner, decidedBy, hostname, extent, match } = first;
  const matches = state.rules[index]?.rule.matches ?? [];
  const shown = matches[match ?? 0];
  const host = hostname === undefined ? "" : ` for host ${hostname}`;
  const by = shown === undefined || (match === undefined && matches.length > 1) ? "" : ` (${describeMatch(shown)})`;
  const others = conflicts.length - 1 + leftOut;
  const more = others === 0 ? "" : `; ${others} more ${others === 1 ? "takes" : "take"} requests of ${rule}`;
  const who = winner.kind === "rule" ? words.rule(winner) : words.listener(winner.listener);
  if (winner.kind === "listener" || decidedBy === "Listener") {
    const loss = isReachable ? `requests${host} do not reach ${rule}` : `no request can reach ${rule}`;
    return `${loss}: ${who} has these hosts, since its hostname is more specific${more}`;
  }
  const why = `takes precedence, since ${decisionWords[decidedBy]}`;
  if (extent === "Overlap") {
    return `requests${host} that ${who} also matches do not reach ${rule}${by}: it ${why}${more}`;
  }
  const loss = isReachable ? `requests${host} do not reach ${rule}${by}` : `no request can reach ${rule}${by}`;
  return `${loss}: ${who} matches ${decidedBy === "Hostname" ? "all of them" : "the same"} and ${why}${more}`;
}

function ruleLabel(state: RouteState | undefined, index: number): string {
  return `rule ${state?.rules[index]?.rule.name ?? index}`;
}

const pathKinds = { Exact: "path", PathPrefix: "path prefix", RegularExpression: "path matching" } as const;

/** Returns `path prefix /v1, method POST, header x-team`, without values, which may be secrets. */
function describeMatch({ path, method, headers, query }: Match): string {
  const redacted = redactPath(path.value);
  const value = redacted.length > longestPath ? `${redacted.slice(0, longestPath).toWellFormed()}…` : redacted;
  const names = [...headers.map(({ name }) => `header ${name}`), ...query.map(({ name }) => `query parameter ${name}`)];
  const some = names.length > 2 ? [`${names.length} headers and query parameters`] : names;
  return [`${pathKinds[path.kind]} ${value}`, ...(method === undefined ? [] : [`method ${method}`]), ...some].join(
    ", ",
  );
}
