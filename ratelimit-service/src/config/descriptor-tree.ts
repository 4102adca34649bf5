/**
 * Builds from a `DomainSpec` the tree that the limiter reads, with the derived properties of every rule: composite
 * keys, split wildcards, window length, header text, metric path. Reports all problems of a spec, in its order.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import type { LimitWindow } from "../model/limit-window.ts";
import type { CurrentLimit, Unit } from "../model/rate-limit.ts";
import type { ConfigProblem } from "./config-problem.ts";
import type { DescriptorSpec, DomainSpec, RateLimitSpec, RateLimitsSpec } from "./descriptor-spec.ts";
import {
  type DescriptorLevel,
  type DescriptorNode,
  type GroupLimit,
  type RateLimitConfig,
  type Rule,
  shownComposite,
} from "./rule.ts";
import { headerPolicy } from "./header-policy.ts";
import { duplicateWindow, maxGroupLimits, readWindow } from "./limit-window.ts";
import { runAtOnce } from "./run-in-slices.ts";
import { maxWindowSeconds, parseUnit, unitNames, windowSeconds } from "../model/unit.ts";

/** The top level of one spec, valid by itself; `level` is absent if there is any problem. */
export interface BuiltDomain {
  readonly level?: DescriptorLevel;
  readonly problems: readonly ConfigProblem[];
}

/** What the store of the counters can do. */
export interface StoreAbilities {
  /** The store, as BACKEND_TYPE names it, if it has no groups of counters (`CounterStore.applyGroups`). */
  readonly withoutGroups?: string;
}

/** Validates a spec and builds its tree. Never throws. */
export function buildDomain(spec: DomainSpec, abilities: StoreAbilities = {}): BuiltDomain {
  return runAtOnce(buildDomainInPieces(spec, abilities));
}

/** As `buildDomain`, but yields after each descriptor. */
export function* buildDomainInPieces(
  spec: DomainSpec,
  abilities: StoreAbilities = {},
): Generator<undefined, BuiltDomain> {
  const builder = new TreeBuilder(spec, abilities);
  if (spec.domain === "") builder.report("config file cannot have empty domain", spec.location);
  const level = yield* builder.level(spec.descriptors, { path: `${spec.domain}.`, segments: [], levels: [] });
  return builder.problems.length > 0 ? { problems: builder.problems } : { level, problems: [] };
}

/**
 * Combines the domains of several files. Files of one domain are merged; their top-level keys differ. Files are taken
 * in the order of their keys, so that the order of wildcards does not depend on which file changed last.
 */
export function assembleDomains(
  files: ReadonlyMap<string, { readonly domain: string; readonly level: DescriptorLevel }>,
): RateLimitConfig {
  const levels = new Map<string, DescriptorLevel[]>();
  for (const [, { domain, level }] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const existing = levels.get(domain);
    if (existing === undefined) levels.set(domain, [level]);
    else existing.push(level);
  }
  return { domains: new Map(Array.from(levels, ([domain, parts]) => [domain, mergeLevels(parts)])) };
}

function mergeLevels(parts: readonly DescriptorLevel[]): DescriptorLevel {
  const [first, ...others] = parts;
  if (first !== undefined && others.length === 0) return first;
  const byComposite = new Map<string, DescriptorNode>();
  for (const part of parts) for (const [composite, node] of part.byComposite) byComposite.set(composite, node);
  return { byComposite, wildcards: parts.flatMap(({ wildcards }) => wildcards) };
}

/** Maximum number of problems that are reported for one spec. */
const maxProblems = 1_000;

/** Names in messages are cut after so many characters. */
const maxShownName = 500;

/**
 * Maximum number of characters of all paths of one spec, which contain the domain and the keys above. Each limit has
 * its path as the name of its metrics, so that one long key above many limits would take gigabytes. 100,000 limits may
 * have paths of 335 characters.
 */
export const maxPathCharacters = 33_554_432;

function truncate(name: string): string {
  return name.length <= maxShownName ? name : `${name.slice(0, maxShownName)}…`;
}

/** The levels above the one that is being built. */
interface Ancestors {
  /** Ends in a dot. */
  readonly path: string;
  readonly segments: readonly string[];
  readonly levels: readonly DescriptorNode[];
}

class TreeBuilder {
  readonly problems: ConfigProblem[] = [];
  readonly #spec: DomainSpec;
  readonly #abilities: StoreAbilities;
  #pathCharacters = 0;

  constructor(spec: DomainSpec, abilities: StoreAbilities) {
    this.#spec = spec;
    this.#abilities = abilities;
  }

  report(message: string, location: SourceLocation | undefined, hint?: string): void {
    if (this.problems.length === maxProblems) return;
    this.problems.push({
      message,
      resource: truncate(this.#spec.key),
      ...(location === undefined ? {} : { location }),
      ...(hint === undefined ? {} : { hint }),
    });
  }

  *level(specs: readonly DescriptorSpec[], ancestors: Ancestors): Generator<undefined, DescriptorLevel> {
    const byComposite = new Map<string, DescriptorNode>();
    for (const spec of specs) {
      const node = yield* this.#node(spec, ancestors);
      if (node === undefined) continue;
      if (byComposite.has(node.composite)) {
        this.report(
          `duplicate descriptor composite key '${truncate(ancestors.path + shownComposite(spec.key, spec.value))}'`,
          spec.location,
        );
      }
      byComposite.set(node.composite, node);
    }
    return { byComposite, wildcards: [...byComposite.values()].filter((node) => node.wildcardParts !== undefined) };
  }

  *#node(spec: DescriptorSpec, ancestors: Ancestors): Generator<undefined, DescriptorNode | undefined> {
    yield;
    if (spec.key === "") {
      this.report("descriptor has empty key", spec.location);
      return undefined;
    }
    const composite = spec.value === "" ? spec.key : `${spec.key}_${spec.value}`;
    const shown = shownComposite(spec.key, spec.value);
    if (!this.#fitsPathBound(ancestors.path.length + shown.length, spec.location)) return undefined;
    const isWildcard = composite.includes("*");
    if (spec.shareThreshold && !isWildcard) {
      const message = "share_threshold can only be used with wildcard values (containing '*'), but found key";
      this.report(`${message} '${truncate(shown)}'`, spec.location);
    }
    // The node, its rule and its children refer to each other, so the node is filled in below.
    const node: Mutable<DescriptorNode> = {
      composite,
      key: spec.key,
      value: spec.value,
      valueToMetric: spec.valueToMetric,
      shareThreshold: spec.shareThreshold,
      children: { byComposite: new Map(), wildcards: [] },
    };
    if (isWildcard) node.wildcardParts = composite.split("*");
    const here: Ancestors = {
      path: `${ancestors.path}${shown}.`,
      segments: [...ancestors.segments, shown],
      levels: [...ancestors.levels, node],
    };
    const rule = this.#ruleOf(spec, here);
    if (rule !== undefined) node.rule = rule;
    node.children = yield* this.level(spec.descriptors, here);
    return node;
  }

  /** Counts the characters of a path. Returns false if there are too many, which is reported once. */
  #fitsPathBound(characters: number, location: SourceLocation | undefined): boolean {
    const before = this.#pathCharacters;
    this.#pathCharacters += characters;
    if (this.#pathCharacters <= maxPathCharacters) return true;
    if (before <= maxPathCharacters) {
      const message = `the paths of all descriptors have more than ${maxPathCharacters} characters`;
      this.report(message, location, "accepted: shorter domains and keys, or fewer descriptors below long keys");
    }
    return false;
  }

  #ruleOf(spec: DescriptorSpec, here: Ancestors): Rule | undefined {
    const { rateLimit, rateLimits } = spec;
    if (rateLimits !== undefined) return this.#ruleOfGroup(spec, rateLimits, here);
    if (spec.countDenied === true && rateLimit?.window !== "sliding") {
      const hint = "accepted with rate_limits and with window: sliding; other limits count every hit";
      this.report("count_denied means nothing for this descriptor", spec.location, hint);
    }
    return rateLimit === undefined ? undefined : this.#rule(spec, rateLimit, here);
  }

  #rule(spec: DescriptorSpec, rateLimit: RateLimitSpec, here: Ancestors): Rule | undefined {
    this.#checkReplaces(rateLimit);
    const read = this.#limit(rateLimit);
    if (read === "invalid") return undefined;
    if (read === "unlimited") return this.#newRule(spec, rateLimit, here);
    const { limit, window } = read;
    if (window.kind === "sliding") {
      if (!this.#canHaveGroup("a sliding window", rateLimit.windowLocation)) return undefined;
      return this.#newRule(spec, rateLimit, here, [read]);
    }
    const calendar = window.kind === "calendar" ? { calendar: window } : {};
    const seconds = windowSeconds(limit.unit, limit.unitMultiplier ?? 1);
    const rule = this.#newRule(spec, rateLimit, here);
    return { ...rule, limit, ...calendar, windowSeconds: seconds, headerPolicy: headerPolicy(limit) };
  }

  #ruleOfGroup(spec: DescriptorSpec, { limits, location }: RateLimitsSpec, here: Ancestors): Rule | undefined {
    if (spec.rateLimit !== undefined) {
      this.report("a descriptor has rate_limit and rate_limits", location, "accepted: one of them");
    }
    if (limits.length === 0 || limits.length > maxGroupLimits) {
      const message = `rate_limits has ${limits.length} limits`;
      this.report(message, location, `accepted: 1 to ${maxGroupLimits}`);
    }
    if (!this.#canHaveGroup("rate_limits", location)) return undefined;
    const read = limits.map((limit) => this.#limitOfGroup(limit));
    const valid = read.filter((limit) => limit !== undefined);
    const duplicate = duplicateWindow(valid.map(({ window }) => window));
    if (duplicate !== -1 && valid.length === limits.length) {
      const at = limits[duplicate]?.unitLocation ?? location;
      this.report("rate_limits has two limits with the same window", at, "accepted: one limit for each window");
    }
    const [first] = limits;
    if (first === undefined || valid.length < limits.length) return undefined;
    const replaces = limits.flatMap((limit) => limit.replaces);
    const place = location === undefined ? {} : { location };
    return this.#newRule(spec, { ...first, name: "", replaces, ...place }, here, valid);
  }

  #limitOfGroup(spec: RateLimitSpec): GroupLimit | undefined {
    this.#checkReplaces(spec);
    if (spec.unlimited) {
      this.report("a limit of rate_limits cannot be unlimited", spec.location, "accepted: a limit, or none");
      return undefined;
    }
    const read = this.#limit(spec);
    return typeof read === "string" ? undefined : read;
  }

  /** Whether the store can count several counters as one. Reports that it cannot. */
  #canHaveGroup(subject: string, location: SourceLocation | undefined): boolean {
    const { withoutGroups } = this.#abilities;
    if (withoutGroups === undefined) return true;
    const message = `${subject} cannot be counted with BACKEND_TYPE=${withoutGroups}`;
    this.report(message, location, "accepted: memory, redis");
    return false;
  }

  /** Returns the rule of a group, or without one an unlimited rule. */
  #newRule(spec: DescriptorSpec, rateLimit: RateLimitSpec, here: Ancestors, group: readonly GroupLimit[] = []): Rule {
    const [first] = group;
    return {
      domain: this.#spec.domain,
      path: here.path.slice(0, -1),
      segments: here.segments,
      ...(first === undefined
        ? {}
        : { limit: first.limit, group: { limits: group, countsDenied: spec.countDenied ?? false } }),
      windowSeconds: 0,
      headerPolicy: "",
      name: rateLimit.name,
      replaces: rateLimit.replaces.map((replaced) => replaced.name),
      shadowMode: spec.shadowMode,
      quotaMode: spec.quotaMode,
      detailedMetric: spec.detailedMetric,
      ...(spec.metadata === undefined ? {} : { metadata: spec.metadata }),
      levels: here.levels,
      sharesThreshold: here.levels.some((level) => level.shareThreshold),
      hasRuntimeMetric:
        spec.detailedMetric || here.levels.some((level) => level.valueToMetric && !level.shareThreshold),
      ...(rateLimit.location === undefined ? {} : { location: rateLimit.location }),
    };
  }

  #limit(rateLimit: RateLimitSpec): GroupLimit | "unlimited" | "invalid" {
    const unit = parseUnit(rateLimit.unit);
    const location = rateLimit.unitLocation ?? rateLimit.location;
    if (rateLimit.unlimited) {
      if (unit !== undefined) this.report("should not specify rate limit unit when unlimited", location);
      if (rateLimit.windowLocation !== undefined) {
        this.report("should not specify rate limit window when unlimited", rateLimit.windowLocation);
      }
      return "unlimited";
    }
    if (unit === undefined) {
      this.report(`invalid rate limit unit '${rateLimit.unit}'`, location, `accepted: ${unitNames}`);
      return "invalid";
    }
    if (rateLimit.unitMultiplier < 1 || windowSeconds(unit, rateLimit.unitMultiplier) > maxWindowSeconds) {
      this.report(
        `invalid rate limit unit multiplier '${rateLimit.unitMultiplier}'`,
        rateLimit.location,
        `accepted: at least 1, and at most ${maxWindowSeconds} seconds for the window`,
      );
      return "invalid";
    }
    const window = this.#window(rateLimit, unit);
    if (window === undefined) return "invalid";
    const limit: CurrentLimit = {
      requestsPerUnit: rateLimit.requestsPerUnit,
      unit,
      ...(rateLimit.name === "" ? {} : { name: rateLimit.name }),
      ...(rateLimit.unitMultiplier === 1 ? {} : { unitMultiplier: rateLimit.unitMultiplier }),
    };
    return { limit, window };
  }

  #window(rateLimit: RateLimitSpec, unit: Unit): LimitWindow | undefined {
    const window = readWindow(rateLimit, unit);
    if ("kind" in window) return window;
    this.report(window.message, rateLimit.windowLocation ?? rateLimit.location, window.hint);
    return undefined;
  }

  #checkReplaces(rateLimit: RateLimitSpec): void {
    for (const replaced of rateLimit.replaces) {
      if (replaced.name === "") {
        this.report("should not have an empty replaces entry", replaced.location);
      } else if (replaced.name === rateLimit.name) {
        this.report("replaces should not contain name of same descriptor", replaced.location);
      }
    }
  }
}

type Mutable<T> = { -readonly [Field in keyof T]: T[Field] };
