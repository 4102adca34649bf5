/**
 * Matches in the form in which `conflicts/comparison.ts` compares them: with a number for each text, so that the cost
 * of a look-up does not depend on the length of paths and header values.
 */
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { Match, PathMatch, ValueMatch } from "../ir/match.ts";
import { normalizeMatch } from "./normalize-match.ts";
import type { PathRules } from "./path-rules.ts";

/** One match of a rule. */
export interface MatchEntry {
  /** Index of the rule in its route. */
  readonly rule: number;
  /** Index of the match in its rule. */
  readonly match: number;
  /** Normalised. */
  readonly path: PathMatch;
  /** Equal for equal paths of one kind. */
  readonly pathNumber: number;
  /** 0 for every method. */
  readonly method: number;
  /** Sorted by name. The names are unique. */
  readonly conditions: readonly Condition[];
  readonly headerCount: number;
  /** Equal for matches with equal parts. */
  readonly identity: string;
}

/** A condition on one header or query parameter. */
export interface Condition {
  /** The number of the name. Headers and query parameters have different numbers. */
  readonly name: number;
  /** The number of the value and of the kind of comparison. Conditions with different numbers count as exclusive. */
  readonly value: number;
}

/** Memory of an entry of a map, in characters. */
const sizeOfNumber = 64;

/** Gives each text of a kind a number, from 1. */
class Numbers {
  readonly #numbers = new Map<string, number>();
  /** Of all texts, about as much memory as they take. */
  size = 0;

  of(text: string): number {
    const existing = this.#numbers.get(text);
    if (existing !== undefined) return existing;
    const number = this.#numbers.size + 1;
    this.#numbers.set(text, number);
    this.size += text.length + sizeOfNumber;
    return number;
  }

  /** Returns the number of a text; undefined if it has none yet. */
  find(text: string): number | undefined {
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

  /** Returns the matches of a route's rules, in their order. Rules are read once. */
  readonly read = memoised((rules: readonly { readonly matches: readonly Match[] }[]): readonly MatchEntry[] =>
    rules.flatMap(({ matches }, rule) => matches.map((match, index) => this.#entry(match, rule, index))),
  );

  /** @param pathRules how paths of requests are normalised. */
  constructor(pathRules: PathRules) {
    this.#pathRules = pathRules;
  }

  /** The size of all texts that it has read, in characters. */
  get size(): number {
    return [this.#methods, this.#paths, this.#names, this.#values]
      .flatMap((numbers) => (numbers instanceof Numbers ? [numbers] : Object.values(numbers)))
      .reduce((sum, { size }) => sum + size, 0);
  }

  /** Returns the number of a path; undefined if no match has the path. */
  pathNumber({ kind, value }: PathMatch): number | undefined {
    const number = this.#paths[kind].find(value);
    return number === undefined ? undefined : pathNumbers[kind](number);
  }

  #entry(original: Match, rule: number, match: number): MatchEntry {
    const { path, method: methodName, headers, query } = normalizeMatch(original, this.#pathRules);
    const pathNumber = pathNumbers[path.kind](this.#paths[path.kind].of(path.value));
    const method = methodName === undefined ? 0 : this.#methods.of(methodName);
    const conditions =
      headers.length + query.length === 0
        ? none
        : [...this.#conditions("header", headers), ...this.#conditions("query", query)].sort((a, b) => a.name - b.name);
    const identity = identityOf(pathNumber, method, conditions);
    return { rule, match, path, pathNumber, method, conditions, headerCount: headers.length, identity };
  }

  #conditions(part: "header" | "query", matches: readonly ValueMatch[]): readonly Condition[] {
    return matches.map(({ kind, name, value }) => ({
      name: 2 * this.#names[part].of(name) + (part === "header" ? 0 : 1),
      value: 2 * this.#values[kind].of(value) + (kind === "Exact" ? 0 : 1),
    }));
  }
}

const none: readonly Condition[] = [];

/** Numbers that are unique across the kinds of paths. */
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
