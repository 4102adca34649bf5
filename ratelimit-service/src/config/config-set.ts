/**
 * Many files → one configuration, where a bad file harms nobody else. A file that does not parse, or that claims what
 * another file has (its domain; with merging, one of its top-level keys), keeps its last good version, and the others go
 * on. Of two files in conflict the one that did not change is right; among files that came together, the first by name.
 */
import { parseConfigFile } from "./config-file.ts";
import { type ConfigProblem, inOrder } from "./config-problem.ts";
import type { ConfigPart, ConfigUpdate } from "./config-source.ts";
import { assembleDomains, buildDomain } from "./descriptor-tree.ts";
import { type Claim, ClaimBook, claimsOf } from "./domain-claims.ts";
import type { DescriptorLevel } from "./rule.ts";

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
    const book = new ClaimBook();
    const chosen = new Map<string, Version>();
    const choose = (key: string, version: Version): readonly ConfigProblem[] => {
      const conflicts = book.take(key, version.claims);
      if (conflicts.length === 0) chosen.set(key, version);
      return conflicts;
    };

    // Those that stay as they are, changed or not, hold what they have; then come those that move.
    for (const { key, old, next } of candidates) if (old !== undefined && (next ?? old) === old) choose(key, old);
    for (const { key, old, next } of candidates) {
      if (next === undefined || next === old) continue;
      const conflicts = choose(key, next);
      problems.push(...conflicts);
      if (conflicts.length > 0 && old !== undefined) choose(key, old);
    }

    this.#inForce = chosen;
    this.#hasLoaded ||= chosen.size > 0 || problems.length === 0;
    return {
      ...(this.#hasLoaded ? { config: assembleDomains(chosen) } : {}),
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
    const built = spec === undefined ? undefined : buildDomain(spec);
    if (spec === undefined || built?.level === undefined || problems.length > 0) {
      return { key, ...known, problems: inOrder([...problems, ...(built?.problems ?? [])]), warnings };
    }
    const next = { text, domain: spec.domain, level: built.level, claims: claimsOf(spec, this.#mergesDomains) };
    return { key, ...known, next, problems: [], warnings };
  }
}

function partOf({ key, next }: Candidate, served: Version | undefined): ConfigPart {
  if (served === undefined) return { key, state: "refused" };
  return { key, domain: served.domain, state: served === next ? "current" : "last-good" };
}
