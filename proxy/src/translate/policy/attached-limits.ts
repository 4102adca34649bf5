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
    const excesses = places.flatMap((place) => {
      const ofPlace = this.#byTarget.get(place) ?? new Map<string, Limits>();
      this.#byTarget.set(place, ofPlace);
      const before = ofPlace.get(target) ?? noLimits;
      const together = joined(before, limits);
      const excess = excessOf(together, target) ?? this.#budget.take(place, policy, demand);
      const leftOut = closes ? { ...before, closedBy: withClosing(before.closedBy, [nameKey(policy)]) } : before;
      ofPlace.set(target, keptLimits(policy, `${place} ${target}`, excess === undefined ? together : leftOut));
      return excess ?? [];
    });
    if (excesses[0] === undefined) return undefined;
    const outcome = closes ? "responds with 503 (--refused-policies)" : "is served without this policy";
    return `with this policy ${excesses[0]}; ${target} ${outcome}`;
  }
}

/** By the last policy of a target, which has few targets; then by target. */
const knownLimits = memoised<ProxyPolicy, Map<string, Limits>>(() => new Map());

/** Returns earlier limits if they are equal, so that rules with them stay as they are. */
function keptLimits(policy: ProxyPolicy, key: string, limits: Limits): Limits {
  const known = knownLimits(policy);
  const before = known.get(key);
  if (before !== undefined && isDeepStrictEqual(before, limits)) return before;
  known.set(key, limits);
  return limits;
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

/** Describes the exceeded bound of a target. */
function excessOf({ authentication, local, global }: Limits, target: string): string | undefined {
  if (authentication.length > maxAuthenticationPerTarget) {
    return `${target} has ${authentication.length} policies with authentication, accepted are at most ${maxAuthenticationPerTarget}`;
  }
  const descriptors = global.reduce((sum, limit) => sum + limit.descriptors.length, 0);
  const fallbacks = global.reduce((sum, limit) => sum + limit.fallback.length, 0);
  const excesses = [
    { count: local.length, of: "local entries" },
    { count: descriptors, of: "global descriptors" },
    { count: fallbacks, of: "fallback entries" },
  ].filter(({ count }) => count > maxLimitsPerTarget);
  const [excess] = excesses;
  if (excess === undefined) return undefined;
  return `${target} has ${excess.count} ${excess.of}, accepted are at most ${maxLimitsPerTarget} of all policies together`;
}
