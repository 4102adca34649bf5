/**
 * Many files → one configuration, where a bad file harms nobody else. A file that does not parse, or that claims what
 * another file has (its domain; with merging, one of its top-level keys), keeps its last good version, and the others go
 * on. Of two files in conflict the one that did not change is right; among files that came together, the first by name.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { parseConfigFile } from "./config-file.ts";
import type { ConfigProblem } from "./config-problem.ts";
import type { ConfigPart, ConfigUpdate } from "./config-source.ts";
import type { DomainSpec } from "./descriptor-spec.ts";
import { buildDomain, mergeLevels } from "./descriptor-tree.ts";
import type { DescriptorLevel, RateLimitConfig } from "./rule.ts";

/** One file as found. */
export interface ConfigText {
  /** Names the file in problems and orders it among the others. */
  readonly key: string;
  /** For locations. */
  readonly file: string;
  /** Absent when it cannot be read. */
  readonly text?: string;
  /** Why it cannot be read. */
  readonly unreadable?: string;
}

/** A version of a file that is sound in itself. */
interface Version {
  readonly text: string;
  readonly domain: string;
  readonly level: DescriptorLevel;
  readonly claims: readonly Claim[];
}

/** Something that only one file may have. */
interface Claim {
  readonly name: string;
  /** The reference's words for finding it taken. */
  readonly conflict: string;
  readonly location?: SourceLocation;
}

/** A file on its way into the set. */
interface Candidate {
  readonly key: string;
  /** What is served of it so far. */
  readonly old?: Version;
  /** What it is now, if that is sound; the very `old` if its text did not change. */
  readonly next?: Version;
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

export class ConfigSet {
  readonly #mergesDomains: boolean;
  /** By file key: what is served now. */
  #inForce: ReadonlyMap<string, Version> = new Map();
  #hasLoaded = false;

  /** @param mergesDomains several files may describe one domain (MERGE_DOMAIN_CONFIG) */
  constructor(mergesDomains: boolean) {
    this.#mergesDomains = mergesDomains;
  }

  /** Takes the whole set of files as it is now. Never throws. */
  update(texts: readonly ConfigText[]): ConfigUpdate {
    const candidates = [...texts].sort((a, b) => (a.key < b.key ? -1 : 1)).map((file) => this.#candidate(file));
    const problems = candidates.flatMap((candidate) => candidate.problems);
    const owners = new Map<string, string>();
    const chosen = new Map<string, Version>();
    const choose = (key: string, version: Version): readonly Claim[] => {
      const taken = version.claims.filter(({ name }) => (owners.get(name) ?? key) !== key);
      if (taken.length > 0) return taken;
      for (const { name } of version.claims) owners.set(name, key);
      chosen.set(key, version);
      return [];
    };

    // Those that stay as they are, changed or not, hold what they have; then come those that move.
    for (const { key, old, next } of candidates) if (old !== undefined && (next ?? old) === old) choose(key, old);
    for (const { key, old, next } of candidates) {
      if (next === undefined || next === old) continue;
      const taken = choose(key, next);
      problems.push(...taken.map((claim) => conflictProblem(key, claim)));
      if (taken.length > 0 && old !== undefined) choose(key, old);
    }

    this.#inForce = chosen;
    this.#hasLoaded ||= chosen.size > 0 || problems.length === 0;
    return {
      ...(this.#hasLoaded ? { config: assemble(chosen) } : {}),
      parts: candidates.map((candidate) => partOf(candidate, chosen.get(candidate.key))),
      problems,
      warnings: candidates.flatMap((candidate) => candidate.warnings),
    };
  }

  #candidate({ key, file, text, unreadable }: ConfigText): Candidate {
    const old = this.#inForce.get(key);
    const known = old === undefined ? {} : { old };
    if (text === undefined) {
      const message = `error loading config file: ${unreadable ?? "cannot be read"}`;
      return { key, ...known, problems: [{ message, resource: key }], warnings: [] };
    }
    if (old?.text === text) return { key, old, next: old, problems: [], warnings: [] };
    const { spec, problems, warnings } = parseConfigFile(key, file, text);
    if (spec === undefined) return { key, ...known, problems, warnings };
    const built = buildDomain(spec);
    if (built.level === undefined) return { key, ...known, problems: built.problems, warnings };
    const next = { text, domain: spec.domain, level: built.level, claims: this.#claimsOf(spec) };
    return { key, ...known, next, problems: [], warnings };
  }

  #claimsOf(spec: DomainSpec): readonly Claim[] {
    if (!this.#mergesDomains) {
      return [{ name: spec.domain, conflict: `duplicate domain '${spec.domain}' in config file`, ...placeOf(spec) }];
    }
    return spec.descriptors.map((descriptor) => {
      const composite = descriptor.value === "" ? descriptor.key : `${descriptor.key}_${descriptor.value}`;
      const conflict = `duplicate descriptor composite key '${spec.domain}.${composite}'`;
      return { name: `${spec.domain}\n${composite}`, conflict, ...placeOf(descriptor) };
    });
  }
}

function placeOf({ location }: { readonly location?: SourceLocation }): { readonly location?: SourceLocation } {
  return location === undefined ? {} : { location };
}

function conflictProblem(key: string, claim: Claim): ConfigProblem {
  return { message: claim.conflict, resource: key, ...placeOf(claim) };
}

function partOf({ key, next }: Candidate, served: Version | undefined): ConfigPart {
  if (served === undefined) return { key, state: "refused" };
  return { key, domain: served.domain, state: served === next ? "current" : "last-good" };
}

/** In the order of the keys, so that the order of wildcards does not depend on which file changed last. */
function assemble(versions: ReadonlyMap<string, Version>): RateLimitConfig {
  const sorted = [...versions].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, version]) => version);
  const domains = new Map<string, DescriptorLevel>();
  for (const { domain, level } of sorted) {
    const present = domains.get(domain);
    domains.set(domain, present === undefined ? level : mergeLevels([present, level]));
  }
  return { domains };
}
