/** The limits of policies by their targets, with the bound of limits per target. */
import { isDeepStrictEqual } from "node:util";
import type { Gateway } from "../../api/gateway.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { Authentication } from "../../ir/authentication.ts";
import type { GlobalLimit } from "../../ir/global-limit.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import { type LimitBudget, noCredentialDemand, type CredentialDemand } from "./limit-budget.ts";
import { nameKey } from "../index/object-names.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";

/**
 * Maximum of local entries, global descriptors and fallback entries of all policies on one target. Each costs every
 * request there a counter or a part of a call. Beyond it, the youngest policies are not attached there.
 */
export const maxLimitsPerTarget = 64;

/**
 * Maximum of policies with authentication on one target. Each checks every request there; beyond it, the youngest ones
 * close the target.
 */
const maxAuthenticationPerTarget = 8;

/** The limits of one or more policies at a target, and their authentication. */
export interface Limits {
  /** In the order of their policies. */
  readonly authentication: readonly Authentication[];
  /** The local limits, in the order of their policies. */
  readonly local: readonly LocalLimit[];
  /** The global limits, in the order of their policies. */
  readonly global: readonly GlobalLimit[];
  /** The first policies (`namespace/name`) that close the target, because something that they enforce is invalid. */
  readonly closedBy: readonly string[];
}

/** The limits of a target without policies. */
export const noLimits: Limits = { authentication: [], local: [], global: [], closedBy: [] };

/** Maximum number of policies that a closed target lists. Every rule has a copy, and thousands may close a route. */
const mostClosing = 8;

/** A policy at one of its targets. */
export interface PolicyAtTarget {
  readonly policy: ProxyPolicy;
  /** `HTTPRoute/namespace/name`, `Gateway/namespace/name#listener`. */
  readonly target: string;
  /** The processes that serve the target. */
  readonly places: readonly string[];
  /** The limits of the policy at the target. */
  readonly limits: Limits;
  /** Whether the target is closed if the policy is not attached. */
  readonly closes: boolean;
  /** What its authentication takes there; absent: nothing. */
  readonly demand?: CredentialDemand | undefined;
}

/** The limits of all targets. Policies are added in their order, oldest first. */
export class AttachedLimits {
  readonly #budget: LimitBudget;
  readonly #placeOf: (gateway: Gateway) => string;
  /** By place, then by target. */
  readonly #byTarget = new Map<string, Map<string, Limits>>();
  readonly #ofNamespaces = new Map<string, Limits>();

  /** @param placeOf names the process that serves a Gateway. */
  constructor(budget: LimitBudget, placeOf: (gateway: Gateway) => string) {
    this.#budget = budget;
    this.#placeOf = placeOf;
  }

  /** Whether no target has limits, and no namespace is closed. */
  get isEmpty(): boolean {
    return this.#byTarget.size === 0 && this.#ofNamespaces.size === 0;
  }

  /** The limits of a target in the process that serves a Gateway. */
  at(gateway: Gateway, target: string): Limits {
    return this.#byTarget.get(this.#placeOf(gateway))?.get(target) ?? noLimits;
  }

  /** The limits of every target of a namespace, since a policy with unknown targets may have any of them. */
  ofNamespace(namespace: string): Limits {
    return this.#ofNamespaces.get(namespace) ?? noLimits;
  }

  closeNamespace(namespace: string, names: readonly string[]): void {
    const before = this.ofNamespace(namespace);
    this.#ofNamespaces.set(namespace, { ...before, closedBy: withClosing(before.closedBy, names) });
  }

  /**
   * Adds a policy at one of its targets, in each process in which its limits are within the bounds.
   *
   * @returns a message if a bound is exceeded in one of the processes; undefined otherwise.
   */
  add({ policy, target, places, limits, closes, demand = noCredentialDemand }: PolicyAtTarget): string | undefined {
    const outcomes = new Outcomes(policy, target);
    const closing: Limits = { ...noLimits, closedBy: [nameKey(policy)] };
    const excesses = places.flatMap((place) => {
      const ofPlace = this.#byTarget.get(place) ?? new Map<string, Limits>();
      this.#byTarget.set(place, ofPlace);
      const before = ofPlace.get(target) ?? noLimits;
      const excess = excessOf(before, limits, target) ?? this.#budget.take(place, policy, demand);
      if (excess === undefined) ofPlace.set(target, outcomes.joined(before, limits));
      else if (closes) ofPlace.set(target, outcomes.joined(before, closing));
      return excess ?? [];
    });
    if (excesses[0] === undefined) return undefined;
    const outcome = closes ? "responds with 503 (--refused-policies)" : "is served without this policy";
    return `with this policy ${excesses[0]}; ${target} ${outcome}`;
  }
}

/** By the last policy of a target, which has few targets; then by target and outcome. */
const knownLimits = memoised<ProxyPolicy, Map<string, Limits>>(() => new Map());

/** The limits of a target with those of a policy. A route may have 32 Gateways, and the same limits at most of them. */
class Outcomes {
  readonly #policy: ProxyPolicy;
  readonly #target: string;
  /** By what is added, then by the limits before. */
  readonly #all = new Map<Limits, Map<Limits, Limits>>();
  #count = 0;

  constructor(policy: ProxyPolicy, target: string) {
    this.#policy = policy;
    this.#target = target;
  }

  joined(before: Limits, added: Limits): Limits {
    const ofAdded = this.#all.get(added) ?? new Map<Limits, Limits>();
    this.#all.set(added, ofAdded);
    const known = ofAdded.get(before) ?? this.#kept(joined(before, added));
    ofAdded.set(before, known);
    return known;
  }

  /** Returns earlier limits if they are equal, so that rules with them stay as they are. */
  #kept(limits: Limits): Limits {
    const known = knownLimits(this.#policy);
    const key = `${this.#target} ${this.#count++}`;
    const before = known.get(key);
    if (before !== undefined && isDeepStrictEqual(before, limits)) return before;
    known.set(key, limits);
    return limits;
  }
}

function joined(before: Limits, { authentication, local, global, closedBy }: Limits): Limits {
  return {
    authentication: [...before.authentication, ...authentication],
    local: [...before.local, ...local],
    global: [...before.global, ...global],
    closedBy: withClosing(before.closedBy, closedBy),
  };
}

function withClosing(names: readonly string[], more: readonly string[]): readonly string[] {
  return names.length >= mostClosing || more.length === 0 ? names : [...names, ...more];
}

/** Describes the bound of a target that its limits would exceed with those of another policy. */
function excessOf(before: Limits, added: Limits, target: string): string | undefined {
  const both = [before, added];
  const sumOf = (count: (limits: Limits) => number) => both.reduce((sum, limits) => sum + count(limits), 0);
  const ofGlobal = (count: (limit: GlobalLimit) => number) =>
    sumOf(({ global }) => global.reduce((sum, limit) => sum + count(limit), 0));
  const authentications = sumOf(({ authentication }) => authentication.length);
  if (authentications > maxAuthenticationPerTarget) {
    return `${target} has ${authentications} policies with authentication, accepted are at most ${maxAuthenticationPerTarget}`;
  }
  const excesses = [
    { count: sumOf(({ local }) => local.length), of: "local entries" },
    { count: ofGlobal(({ descriptors }) => descriptors.length), of: "global descriptors" },
    { count: ofGlobal(({ fallback }) => fallback.length), of: "fallback entries" },
  ].filter(({ count }) => count > maxLimitsPerTarget);
  const [excess] = excesses;
  if (excess === undefined) return undefined;
  return `${target} has ${excess.count} ${excess.of}, accepted are at most ${maxLimitsPerTarget} of all policies together`;
}
