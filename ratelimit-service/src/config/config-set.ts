/**
 * Combines many files into one configuration; an invalid file does not affect the others. A file that does not parse,
 * or that claims the domain of another file (with merging, a top-level key of another file), keeps its last valid
 * version. In a conflict, the file that did not change wins; among files that changed together, the first by name.
 */
import { parseConfigFile } from "./config-file.ts";
import { type ConfigProblem, sortProblems } from "./config-problem.ts";
import type { ConfigPart, ConfigUpdate } from "./config-source.ts";
import { assembleDomains, buildDomain, type StoreAbilities } from "./descriptor-tree.ts";
import { type Claim, ClaimRegistry, claimsOf } from "./domain-claims.ts";
import type { DescriptorLevel } from "./rule.ts";

/** One file as found. */
export interface ConfigText {
  /** Names the file in problems, and sorts it among the others. */
  readonly key: string;
  /** Path for locations. */
  readonly file: string;
  /** Absent when it cannot be read. */
  readonly text?: string;
  /** The reason why it cannot be read. */
  readonly unreadable?: string;
}

/** A version of a file that is valid by itself. */
interface Version {
  readonly text: string;
  readonly domain: string;
  readonly level: DescriptorLevel;
  readonly claims: readonly Claim[];
}

/** A file that is about to be added to the set. */
interface Candidate {
  readonly key: string;
  /** The version that is served so far. */
  readonly old?: Version;
  /** The new version, if it is valid; the same object as `old` if its text did not change. */
  readonly next?: Version;
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/** A set of files and their last valid versions. */
export class ConfigSet {
  readonly #mergesDomains: boolean;
  readonly #abilities: StoreAbilities;
  /** The served versions, by file key. */
  #served: ReadonlyMap<string, Version> = new Map();
  #hasLoaded = false;

  /**
   * @param mergesDomains whether several files may describe one domain (MERGE_DOMAIN_CONFIG)
   * @param abilities without them, the store can count every kind of limit
   */
  constructor(mergesDomains: boolean, abilities: StoreAbilities = {}) {
    this.#mergesDomains = mergesDomains;
    this.#abilities = abilities;
  }

  /** Replaces the set of files by the current one. Never throws. */
  update(texts: readonly ConfigText[]): ConfigUpdate {
    const candidates = [...texts].sort((a, b) => (a.key < b.key ? -1 : 1)).map((file) => this.#candidate(file));
    const problems = candidates.flatMap((candidate) => candidate.problems);
    const registry = new ClaimRegistry();
    const chosen = new Map<string, Version>();
    const choose = (key: string, version: Version): readonly ConfigProblem[] => {
      const conflicts = registry.claimAll(key, version.claims);
      if (conflicts.length === 0) chosen.set(key, version);
      return conflicts;
    };

    // Files that keep their claims, changed or not, come first; then those whose claims change.
    for (const { key, old, next } of candidates) if (old !== undefined && (next ?? old) === old) choose(key, old);
    for (const { key, old, next } of candidates) {
      if (next === undefined || next === old) continue;
      const conflicts = choose(key, next);
      problems.push(...conflicts);
      if (conflicts.length > 0 && old !== undefined) choose(key, old);
    }

    this.#served = chosen;
    this.#hasLoaded ||= chosen.size > 0 || problems.length === 0;
    return {
      ...(this.#hasLoaded ? { config: assembleDomains(chosen) } : {}),
      parts: candidates.map((candidate) => partOf(candidate, chosen.get(candidate.key))),
      problems,
      warnings: candidates.flatMap((candidate) => candidate.warnings),
    };
  }

  #candidate({ key, file, text, unreadable }: ConfigText): Candidate {
    const old = this.#served.get(key);
    const known = old === undefined ? {} : { old };
    if (text === undefined) {
      const message = `error loading config file: ${unreadable ?? "cannot be read"}`;
      return { key, ...known, problems: [{ message, resource: key }], warnings: [] };
    }
    if (old?.text === text) return { key, old, next: old, problems: [], warnings: [] };
    const { spec, problems, warnings } = parseConfigFile(key, file, text);
    const built = spec === undefined ? undefined : buildDomain(spec, this.#abilities);
    if (spec === undefined || built?.level === undefined || problems.length > 0) {
      return { key, ...known, problems: sortProblems([...problems, ...(built?.problems ?? [])]), warnings };
    }
    const next = { text, domain: spec.domain, level: built.level, claims: claimsOf(spec, this.#mergesDomains) };
    return { key, ...known, next, problems: [], warnings };
  }
}

function partOf({ key, next }: Candidate, served: Version | undefined): ConfigPart {
  if (served === undefined) return { key, state: "rejected" };
  return { key, domain: served.domain, state: served === next ? "current" : "last-good" };
}
