/**
 * Matches in the form in which `conflicts/comparison.ts` compares them: with a number for each text, so that what a look-up
 * costs does not depend on the length of paths and header values.
 */
import type { Match, PathMatch, ValueMatch } from "../ir/match.ts";
import { normalizeMatch } from "./normalize-match.ts";
import type { PathRules } from "./path-rules.ts";

/** One match of a rule. */
export interface MatchEntry {
  /** Place of the rule in its route, from 0. */
  readonly rule: number;
  /** Place of the match in its rule, from 0. */
  readonly match: number;
  /** Normalised. */
  readonly path: PathMatch;
  /** Equal for equal paths of one kind. */
  readonly pathNumber: number;
  /** 0 for every method. */
  readonly method: number;
  /** Sorted by name; no two have one name. */
  readonly conditions: readonly Condition[];
  readonly headerCount: number;
  /** Equal for matches with equal parts. */
  readonly identity: string;
}

/** What one header or query parameter must be. */
export interface Condition {
  /** A header and a query parameter have different ones. */
  readonly name: number;
  /** With the kind of the comparison. Different ones are never taken to hold together. */
  readonly value: number;
}

/** Gives each text of a kind a number, from 1. */
class Numbers {
  readonly #numbers = new Map<string, number>();

  of(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    const number = this.#numbers.size + 1;
    this.#numbers.set(text, number);
    return number;
  }

  /** Undefined for a text that has none yet. */
  known(text: string): number | undefined {
    return this.#numbers.get(text);
  }
}

/** Reads matches; those of one reader can be compared. */
export class MatchReader {
  readonly #pathRules: PathRules;
  readonly #methods = new Numbers();
  readonly #paths = { Exact: new Numbers(), PathPrefix: new Numbers(), RegularExpression: new Numbers() };
  readonly #names = { header: new Numbers(), query: new Numbers() };
  readonly #values = { Exact: new Numbers(), RegularExpression: new Numbers() };

  /** @param pathRules how paths of requests are normalised. */
  constructor(pathRules: PathRules) {
    this.#pathRules = pathRules;
  }

  /** The matches of a route's rules, in their order. */
  read(rules: readonly { readonly matches: readonly Match[] }[]): readonly MatchEntry[] {
    return rules.flatMap(({ matches }, rule) => matches.map((match, place) => this.#entry(match, rule, place)));
  }

  /** The number of a path; undefined where no match has it. */
  pathNumber({ kind, value }: PathMatch): number | undefined {
    const number = this.#paths[kind].known(value);
    return number === undefined ? undefined : pathNumbers[kind](number);
  }

  #entry(written: Match, rule: number, match: number): MatchEntry {
    const { path, method: named, headers, query } = normalizeMatch(written, this.#pathRules);
    const pathNumber = pathNumbers[path.kind](this.#paths[path.kind].of(path.value));
    const method = named === undefined ? 0 : this.#methods.of(named);
    const conditions =
      headers.length + query.length === 0
        ? none
        : [...this.#conditions("header", headers), ...this.#conditions("query", query)].sort((a, b) => a.name - b.name);
    const identity = identityOf(pathNumber, method, conditions);
    return { rule, match, path, pathNumber, method, conditions, headerCount: headers.length, identity };
  }

  #conditions(of: "header" | "query", matches: readonly ValueMatch[]): readonly Condition[] {
    return matches.map(({ kind, name, value }) => ({
      name: 2 * this.#names[of].of(name) + (of === "header" ? 0 : 1),
      value: 2 * this.#values[kind].of(value) + (kind === "Exact" ? 0 : 1),
    }));
  }
}

const none: readonly Condition[] = [];

/** One number for the numbers of each kind. */
const pathNumbers = {
  Exact: (number: number) => 3 * number,
  PathPrefix: (number: number) => 3 * number + 1,
  RegularExpression: (number: number) => 3 * number + 2,
} as const;

/** @param conditions sorted by name. */
export function identityOf(pathNumber: number, method: number, conditions: readonly Condition[]): string {
  let identity = `${pathNumber} ${method}`;
  for (const { name, value } of conditions) identity += ` ${name}=${value}`;
  return identity;
}
